import torch

from sharding import device


def arange(end, start=0, step=1, dtype=None, here=None):
    """start, start + step, ..; `here`: the positions of the numbers that this rank has."""
    if here is None:
        return torch.arange(start, end, step, dtype=dtype, device=device())
    numbers = start + step * here.here
    return numbers if dtype is None else numbers.to(dtype)


def linspace(start, end, steps, dtype=None, here=None):
    """So many numbers from start to end; `here`: the positions of those that this rank has."""
    if here is None:
        return torch.linspace(start, end, steps, dtype=dtype, device=device())
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    return (start + step * here.here.double()).to(torch.get_default_dtype() if dtype is None else dtype)


def eye(n, m=None, dtype=None, rows=None, columns=None):
    """Ones on the diagonal of an n x m matrix; `rows`, `columns`: which of them are here."""
    row = torch.arange(n, device=device()) if rows is None else rows.here
    column = torch.arange(n if m is None else m, device=device()) if columns is None else columns.here
    return (row[:, None] == column).to(torch.get_default_dtype() if dtype is None else dtype)
