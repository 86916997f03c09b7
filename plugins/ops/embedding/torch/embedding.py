import math

import torch


def embedding(weight, indices, padding_idx=-1, rows=None):
    """Rows of a table; zeros for those that are not here (`rows`: which are). The padding row is not trained."""
    if rows is None:
        return torch.embedding(weight, indices, padding_idx)
    known = ((indices >= 0) & (indices < math.prod(rows.atoms))).all()
    torch._assert_async(known, "an index is outside of the embedding's table")
    local = rows.local(indices)
    padding = int(rows.local(torch.tensor(padding_idx))) if padding_idx >= 0 else -1
    found = torch.embedding(weight, local.clamp(min=0), padding)
    return found.masked_fill((local < 0).unsqueeze(-1), 0)
