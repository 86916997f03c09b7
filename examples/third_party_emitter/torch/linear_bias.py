import torch


def linear_bias(scores, slope, rows=None, columns=None):
    """Scores [.., q, k] less slope |q - k|; `rows`, `columns`: which of the queries and keys are here, where they are cut."""
    q = torch.arange(scores.shape[-2], device=scores.device) if rows is None else rows.here
    k = torch.arange(scores.shape[-1], device=scores.device) if columns is None else columns.here
    return scores - slope * (q[:, None] - k).abs().to(scores.dtype)
