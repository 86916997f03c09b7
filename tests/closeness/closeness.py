"""How far tensors are from what they should be, where what is not a number is infinitely far.

Python's ``max(0.0, nan)`` is 0.0 and any comparison with NaN is false, so that a maximum over errors loses exactly the
worst ones. The tests that compare with PyTorch measure with these functions, which know no NaN.
"""

from __future__ import annotations

import math

import torch


def distance(found: torch.Tensor, wanted: torch.Tensor, floor: float = 1e-12, special: bool = False) -> float:
    """The largest difference of an element, over the largest element wanted, or over ``floor`` where that is larger.

    Infinite where an element of either is not finite. With ``special``, for calls that are given such numbers: infinite
    where NaN or an infinity is wanted and not found, or found and not wanted.
    """
    if found.shape != wanted.shape:
        return math.inf
    if wanted.numel() == 0:
        return 0.0
    found, wanted = found.detach().to(torch.float64), wanted.detach().to(torch.float64)
    if special:
        alike = (found == wanted) | (found.isnan() & wanted.isnan())
        ordinary = found.isfinite() & wanted.isfinite()
        if not bool((alike | ordinary).all()):
            return math.inf
        found, wanted = found[ordinary], wanted[ordinary]
        if wanted.numel() == 0:
            return 0.0
    error = (found - wanted).abs().max().item() / max(wanted.abs().max().item(), floor)
    return error if math.isfinite(error) else math.inf


def distance_of_numbers(found: float, wanted: float, floor: float = 1e-12) -> float:
    """The same for two numbers."""
    return distance(torch.tensor(found, dtype=torch.float64), torch.tensor(wanted, dtype=torch.float64), floor)
