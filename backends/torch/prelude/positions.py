import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .mesh import axes, coordinates, device
from .moves import all_reduce

POSITIONS_KEPT = 1 << 20  # so many positions are kept from use to use


@dataclass(frozen=True)
class Positions:
    """Which of the positions 0 .. n-1 along neighbouring dimensions this rank has.

    The dimensions are products of `atoms`, major to minor. Of each atom a rank has `extents` elements from `starts`
    plus, for each mesh axis, its coordinate times `steps`.
    """
    atoms: tuple
    extents: tuple
    starts: tuple
    steps: tuple

    def first(self):
        """The first position of each atom that this rank has."""
        here = coordinates()
        return tuple(start + sum(at * step[atom] for at, step in zip(here, self.steps))
                     for atom, start in enumerate(self.starts))

    def padding(self):
        """Whether some of what is here is padding."""
        return any(start + extent > size for size, extent, start in zip(self.atoms, self.extents, self.first()))

    @property
    def here(self):
        """The positions of what is here, in order; -1 for padding."""
        key = (self, axes(), device())
        if key not in KNOWN_POSITIONS:
            with torch.inference_mode(False):  # it is kept for training, too
                found = self.all_here()
            if found.numel() > POSITIONS_KEPT:
                return found
            KNOWN_POSITIONS[key] = found
        return KNOWN_POSITIONS[key]

    def all_here(self):
        """As here, computed."""
        found = torch.zeros(1, dtype=torch.int64, device=device())
        padding = torch.zeros(1, dtype=torch.bool, device=device())
        for size, extent, start in zip(self.atoms, self.extents, self.first()):
            at = torch.arange(start, start + extent, device=device())
            found = (found[:, None] * size + at).view(-1)
            padding = (padding[:, None] | (at >= size)).view(-1)
        return found.masked_fill(padding, -1)

    def local(self, positions):
        """Where positions are here; -1 where another rank has them, or nobody."""
        rest = positions
        found, stride = torch.zeros_like(positions), 1
        is_here = (positions >= 0) & (positions < math.prod(self.atoms))
        for size, extent, start in reversed(list(zip(self.atoms, self.extents, self.first()))):
            at = rest % size - start
            is_here = is_here & (at >= 0) & (at < extent)
            found = found + at * stride
            rest, stride = rest // size, stride * extent
        return torch.where(is_here, found, -1)


KNOWN_POSITIONS = {}  # by Positions, mesh and device


def positions(atoms, extents, starts, steps):
    """Which positions this rank has (see Positions). starts: as for coordinates 0; steps: for each mesh axis."""
    return Positions(tuple(atoms), tuple(extents), tuple(starts), tuple(map(tuple, steps)))


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


def one_hot(x, num_classes=-1, classes=None):
    """Zeros, and a one at each label; `classes`: which of them are here."""
    if classes is None:
        return F.one_hot(x, num_classes)
    torch._assert_async(((x >= 0) & (x < math.prod(classes.atoms))).all(), "a label is outside of the classes")
    return (x.unsqueeze(-1) == classes.here).to(torch.int64)


class Extremum(torch.autograd.Function):
    """See extremum."""

    @staticmethod
    def forward(ctx, x, largest, dim, keepdim, cut_by):
        found = x.amax(dim, keepdim=True) if largest else -x.amin(dim, keepdim=True)
        for axis in cut_by:
            found = all_reduce(axis, "max")(found)
        found = found if largest else -found
        ctx.save_for_backward(x, found)
        ctx.dim, ctx.keepdim, ctx.cut_by = dim, keepdim, cut_by
        return found.clone() if keepdim else squeezed(found, dim)

    @staticmethod
    def backward(ctx, gradient):
        x, found = ctx.saved_tensors
        ones = (x == found).to(x.dtype)
        count = ones.sum(ctx.dim, keepdim=True)
        for axis in ctx.cut_by:
            count = all_reduce(axis)(count)
        return ones * (gradient.reshape(found.shape) / count), None, None, None, None


def extremum(x, dim=(), keepdim=False, axes=(), largest=True):
    """The largest (or smallest) elements along dimensions (none: all), which mesh axes may cut.

    Equal ones share the gradient.
    """
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    return Extremum.apply(x, largest, tuple(d % x.dim() for d in dim) or tuple(range(x.dim())), keepdim, tuple(axes))


def squeezed(x, dim):
    """x without these dimensions."""
    return x.reshape([size for i, size in enumerate(x.shape) if i not in dim])
