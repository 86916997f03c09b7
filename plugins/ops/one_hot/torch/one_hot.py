import math

import torch
import torch.nn.functional as F


def one_hot(x, num_classes=-1, classes=None):
    """Zeros, and a one at each label; `classes`: which of them are here."""
    if classes is None:
        return F.one_hot(x, num_classes)
    torch._assert_async(((x >= 0) & (x < math.prod(classes.atoms))).all(), "a label is outside of the classes")
    return (x.unsqueeze(-1) == classes.here).to(torch.int64)
