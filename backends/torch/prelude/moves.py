import math
from dataclasses import dataclass

import torch
import torch.distributed as dist

from .mesh import axes, coordinates, group


class Move:
    """A step from one layout to another, called with one rank's part; it is not differentiated (`convert` is).

    axis   the mesh axis along which ranks meet
    dim    the dimension of the part that is cut or gathered, or of `view`, if that is given
    view   the part's shape with dimensions split into atoms
    shape  then: the part's shape after the move
    size   what `dim` has after the move where padding makes that another number than the plain one: a gather leaves
           padding out, what is cut is padded with zeros

    A move takes its time: `begin` starts it, `end` waits for what `begin` gave and puts it in place.
    """

    @torch.no_grad()
    def __call__(self, x):
        return self.end(self.begin(x))

    def __repr__(self):
        given = ((name, getattr(self, name)) for name in self.__dataclass_fields__)
        words = ", ".join(f"{name}={value!r}" for name, value in given if value is not None)
        return f"{type(self).__name__}({words})"

    def end(self, begun):
        return begun


@dataclass(frozen=True, repr=False)
class Along(Move):
    """One that cuts or gathers a dimension along an axis."""
    axis: int
    dim: int
    view: tuple = None
    shape: tuple = None
    size: int = None


class cut(Along):
    """Each rank keeps its part of what all had."""

    def begin(self, x):
        ranks = axes()[self.axis]
        x = zero_padded(viewed(x, self.view), self.dim, self.size and self.size * ranks)
        extent = x.shape[self.dim] // ranks
        x = x.narrow(self.dim, coordinates()[self.axis] * extent, extent)
        return viewed(x.clone(memory_format=torch.contiguous_format), self.shape)


class all_gather(Along):
    """The parts of all ranks of the axis, one after the other."""

    def begin(self, x):
        x, ranks = viewed(x, self.view), axes()[self.axis]
        return rows_arriving(numbers(x), ranks, group(self.axis)), x.dtype, (ranks, *x.shape)

    def end(self, begun):
        return viewed(joined(*begun, self.dim, self.size), self.shape)


class reduce_scatter(Along):
    """The sum over the ranks of the axis, of which each keeps its part."""

    def begin(self, x):
        ranks = axes()[self.axis]
        x = parted(zero_padded(viewed(x, self.view), self.dim, self.size and self.size * ranks), self.dim, ranks)
        part = torch.ops._c10d_functional.reduce_scatter_tensor(numbers(x), "sum", ranks, group(self.axis))
        return part, x.shape[1:]

    def end(self, begun):
        part, shape = begun
        return waited(part).view(shape if self.shape is None else self.shape)


@dataclass(frozen=True, repr=False)
class all_reduce(Move):
    """The sum over the ranks of the axis, or the largest ("max"), on each of them."""
    axis: int
    op: str = "sum"

    def begin(self, x):
        return torch.ops._c10d_functional.all_reduce(x.contiguous(), self.op, group(self.axis))

    def end(self, begun):
        return waited(begun)


@dataclass(frozen=True, repr=False)
class all_to_all(Move):
    """What was cut along dimension `gathered` is cut along `cut` afterwards: each rank sends a part to each other."""
    axis: int
    gathered: int
    cut: int
    view: tuple = None
    shape: tuple = None
    gathered_size: int = None
    cut_size: int = None

    def begin(self, x):
        ranks = axes()[self.axis]
        size = self.cut_size and self.cut_size * ranks
        x = parted(zero_padded(viewed(x, self.view), self.cut, size), self.cut, ranks)
        counts = [x.numel() // ranks] * ranks
        arriving = torch.ops._c10d_functional.all_to_all_single(numbers(x), counts, counts, group(self.axis))
        return arriving, x.dtype, x.shape

    def end(self, begun):
        return viewed(joined(*begun, self.gathered, self.gathered_size), self.shape)


@dataclass(frozen=True, repr=False)
class keep_one(Move):
    """A value that all ranks of the axis have becomes a sum: the first rank keeps it, the others have zeros."""
    axis: int

    def begin(self, x):
        return x.contiguous() if coordinates()[self.axis] == 0 else x.new_zeros(x.shape)


@dataclass(frozen=True, repr=False)
class relayout(Move):
    """From one Layout to any other that has the same sums: ranks send each other the parts that they lack.

    A part comes from the rank that differs from its receiver only along axes that cut the tensor before.
    """
    before: object
    after: object

    def begin(self, x):
        x, here = x.reshape(self.before.extents()), coordinates()
        sent, received = [], []
        for there in map(coordinates, range(dist.get_world_size())):
            sent.append(block(x, self.overlap(here, there), self.before.box(here)).reshape(-1))
            received.append(math.prod(extent for _, extent in self.overlap(there, here)))
        counts = [part.numel() for part in sent]
        arriving = torch.ops._c10d_functional.all_to_all_single(
            numbers(torch.cat(sent)), received, counts, dist.group.WORLD.group_name)
        return arriving, x.dtype, received

    def end(self, begun):
        arriving, dtype, received = begun
        arrived, here = waited(arriving).view(dtype), coordinates()
        made = arrived.new_zeros(self.after.extents())
        for rank, part in enumerate(arrived.split(received)):
            target = block(made, self.overlap(coordinates(rank), here), self.after.box(here))
            target.copy_(part.view(target.shape))
        return made.view(self.after.local_shape())

    def overlap(self, source, target):
        """Along each atom, where begins and how long is what the rank at `source` sends to the one at `target`."""
        sends = all(place not in (None, "sum") or a == b for place, a, b in zip(self.before.axes, source, target))
        shared = []
        for size, a, n, b, m in zip(self.before.sizes(), *self.before.box(source), *self.after.box(target)):
            start = max(a, b)
            shared.append((start, max(0, min(a + n, b + m, size) - start) if sends else 0))
        return shared


def block(x, intervals, box):
    """The part of x with these intervals of a tensor, of which x has the box."""
    for dim, ((start, extent), first) in enumerate(zip(intervals, box[0])):
        x = x.narrow(dim, start - first if extent else 0, extent)
    return x


def viewed(x, shape):
    """x in another shape, if one is given."""
    return x if shape is None else x.reshape(shape)


def zero_padded(x, dim, size):
    """x with zeros at the end of a dimension, so that it has this size; if one is given."""
    if size is None or size == x.shape[dim]:
        return x
    shape = list(x.shape)
    shape[dim] = size - x.shape[dim]
    return torch.cat([x, x.new_zeros(shape)], dim)


def parted(x, dim, count):
    """x in so many equal parts of a dimension, with a dimension for their number in front."""
    return x.unflatten(dim, (count, x.shape[dim] // count)).movedim(dim, 0)


def rows_arriving(x, ranks, name):
    """What the ranks of a group have, one after the other, once it is `waited` for.

    Each group of gloo has two threads, which write the name of what ended last into one string without a lock. A name
    of more than 15 letters (ALLGATHER_COALESCED, of all_gather_into_tensor) lies on the heap, where one thread writes to
    what the other one has freed. So each rank sends what it has to every one: ALLTOALL_BASE.
    """
    if "nccl" in dist.get_backend():
        return torch.ops._c10d_functional.all_gather_into_tensor(x, ranks, name)
    counts = [x.numel()] * ranks
    return torch.ops._c10d_functional.all_to_all_single(x.repeat(ranks), counts, counts, name)


def joined(arriving, dtype, shape, dim, size):
    """What arrived as parts of this dtype and shape, one after the other along a dimension, without padding."""
    x = waited(arriving).view(dtype).view(shape).movedim(0, dim).flatten(dim, dim + 1)
    return (x if size is None else x.narrow(dim, 0, size)).contiguous()


def numbers(x):
    """The elements in a row, in a dtype that collectives know."""
    x = x.contiguous().view(-1)
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def waited(x):
    """What a collective makes, when it is there."""
    return torch.ops._c10d_functional.wait_tensor(x)


def run(moves, x):
    """x after these moves."""
    for move in moves:
        x = move(x)
    return x


class Convert(torch.autograd.Function):
    """See convert."""

    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.moves = backward
        return run(forward, x) if forward else x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return run(ctx.moves, gradient), None, None


def convert(x, forward, backward):
    """x after the moves `forward`; its gradient comes back by the moves `backward`."""
    return Convert.apply(x, forward, backward) if forward or backward else x


def summed_over(x, over):
    """The sum of x over mesh axes; not differentiated."""
    return run([all_reduce(axis) for axis in over], x.detach())
