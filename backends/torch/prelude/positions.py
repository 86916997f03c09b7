import math
from dataclasses import dataclass

import torch

from .mesh import axes, coordinates, device

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
