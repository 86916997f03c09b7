import torch


def tril(x, diagonal=0, rows=None, columns=None):
    """x with zeros above a diagonal."""
    return x.masked_fill(diagonals(x, rows, columns) > diagonal, 0)


def triu(x, diagonal=0, rows=None, columns=None):
    """x with zeros below a diagonal."""
    return x.masked_fill(diagonals(x, rows, columns) < diagonal, 0)


def diagonals(x, rows, columns):
    """The number of the diagonal that each element of a matrix is on; `rows`, `columns`: which of them are here."""
    row = torch.arange(x.shape[-2], device=x.device) if rows is None else rows.here
    column = torch.arange(x.shape[-1], device=x.device) if columns is None else columns.here
    return column - row[:, None]
