import math
from dataclasses import dataclass, field

from .mesh import axes, coordinates, on_mesh
from .moves import all_gather, all_reduce


@dataclass(frozen=True)
class Layout:
    """How a tensor lies on the mesh.

    shape   of the whole tensor
    axes    for each mesh axis the atom that it cuts, None (every rank along the axis has the same), or "sum" (each
            rank along the axis has an addend)
    atoms   for each dimension its factors, major to minor; an atom's number is its place among all factors. Left
            out: each dimension of size > 1 is one atom.
    padded  atoms that are cut as if their size were rounded up to a multiple of the number of ranks
    mesh    the sizes of the mesh's axes: of the one that is computed on where the layout is made

    Of several axes on one atom the first is the major one. Along each atom a rank has one interval.
    """
    shape: tuple
    axes: tuple
    atoms: tuple = None
    padded: tuple = ()
    mesh: tuple = field(default_factory=axes, repr=False)

    def factors(self):
        """The atoms of each dimension."""
        return self.atoms or tuple((size,) if size != 1 else () for size in self.shape)

    def sizes(self):
        """The whole size of each atom."""
        return tuple(size for factors in self.factors() for size in factors)

    def extents(self):
        """How much of each atom one rank has, padding included."""
        extents = []
        for atom, size in enumerate(self.sizes()):
            shards = math.prod(n for n, place in zip(self.mesh, self.axes) if place == atom)
            ranks = math.prod(self.mesh)
            if shards > 1 and atom in self.padded and size >= ranks:
                size = -(-size // ranks) * ranks
            extents.append(size // shards)
        return tuple(extents)

    def box(self, coordinates):
        """The first element of each atom that the rank at these coordinates has, and how many."""
        extents = self.extents()
        starts = [0] * len(extents)
        steps = list(extents)
        for axis in reversed(range(len(self.mesh))):
            atom = self.axes[axis]
            if atom is not None and atom != "sum":
                starts[atom] += coordinates[axis] * steps[atom]
                steps[atom] *= self.mesh[axis]
        return tuple(starts), extents

    def local_shape(self):
        """The shape of one rank's part."""
        extents = iter(self.extents())
        return tuple(math.prod(next(extents) for _ in factors) for factors in self.factors())

    def cut(self, whole):
        """A copy of this rank's part of a whole tensor; padding is zeros. Of a "sum" the first rank has everything."""
        here = coordinates(sizes=self.mesh)
        part = whole.new_zeros(self.extents())
        if all(here[axis] == 0 for axis, place in enumerate(self.axes) if place == "sum"):
            source, target = whole.reshape(self.sizes()), part
            for atom, (size, start, extent) in enumerate(zip(self.sizes(), *self.box(here))):
                count = max(0, min(extent, size - start))
                source = source.narrow(atom, min(start, size), count)
                target = target.narrow(atom, 0, count)
            target.copy_(source)
        return part.reshape(self.local_shape())


def whole_of(local, layout):
    """The whole tensor, on every rank, of what each has of it."""
    x = local.reshape(layout.extents())
    with on_mesh(layout.mesh):
        for axis in reversed(range(len(layout.mesh))):
            place = layout.axes[axis]
            if place == "sum":
                x = all_reduce(axis)(x)
            elif place is not None:
                x = all_gather(axis, place)(x)
    for atom, size in enumerate(layout.sizes()):
        x = x.narrow(atom, 0, size)
    return x.reshape(layout.shape)
