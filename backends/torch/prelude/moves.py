import math
from dataclasses import dataclass

import torch
import torch.distributed as dist

from .mesh import axes, coordinates, group, world


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


class Collective(Move):
    """One that every rank of a group takes part in with one row of numbers, in three parts: `packed` gives this rank's
    row, `send` begins the collective with it, `placed` puts in place what arrived. The rows of several tensors, one after
    the other, are one collective (`begin_together`), if its `kind` and `over`, the mesh axes, are the same.

    A row is (n,), or (ranks, n) of what each rank is to get a part of; what arrives has the same last dimension.
    """

    @property
    def over(self):
        return (self.axis,)

    @property
    def kind(self):
        return type(self).__name__

    @property
    def ranks(self):
        return math.prod([axes()[axis] for axis in self.over])

    def begin(self, x):
        row, form = self.packed(x)
        return self.send(row), row.shape[-1], form

    def end(self, begun):
        arriving, size, form = begun
        return self.placed(self.arrived(arriving, size), form)

    def send(self, row, own=False):
        """Begins the collective. `own`: nobody else reads the row, so it may be written to."""
        return SENDS[self.kind](row, self.ranks, group(self.over), own)

    def arrived(self, arriving, size):
        """What `send` brings, when it is there: a row of each rank, or one."""
        made = waited(arriving)
        if self.kind == "all_gather":
            return made.view(self.ranks, size)
        if made.numel() > size:  # see part_arriving
            made = made.view(self.ranks, size).sum(0, dtype=made.dtype)
        return made.view(1, size)

    def packed(self, x):
        return packed_along([self], x)

    def placed(self, rows, form):
        return placed_along([self], rows, form)


class all_gather(Collective, Along):
    """The parts of all ranks of the axis, one after the other."""


class reduce_scatter(Collective, Along):
    """The sum over the ranks of the axis, of which each keeps its part."""


@dataclass(frozen=True, repr=False)
class all_reduce(Collective):
    """The sum over the ranks of the axis, or the largest ("max"), on each of them."""
    axis: int
    op: str = "sum"

    @property
    def kind(self):
        return "all_reduce" if self.op == "sum" else "all_reduce_max"


class at_once(Collective):
    """Collectives of one kind along several axes, one after the other, as one: the ranks of all these axes meet."""

    def __init__(self, *moves):
        self.moves = moves

    def __repr__(self):
        return f"at_once({', '.join(map(repr, self.moves))})"

    @property
    def over(self):
        return tuple(sorted([move.axis for move in self.moves]))

    @property
    def kind(self):
        return self.moves[0].kind

    def packed(self, x):
        return packed_along(self.moves, x)

    def placed(self, rows, form):
        return placed_along(self.moves, rows, form)


def packed_along(moves, x):
    """This rank's row for collectives of one kind along the axes of these moves, and what `placed_along` has to know."""
    if moves[0].kind == "all_gather":
        x = viewed(x, moves[0].view)
        return numbers(x), (x.dtype, x.shape)
    if moves[0].kind != "reduce_scatter":
        return x.reshape(-1), (x.dtype, x.shape)
    for lead, move in enumerate(moves):  # a dimension of ranks in front for each
        ranks, dim = axes()[move.axis], lead + move.dim
        x = viewed(x, move.view, lead)
        x = zero_padded(x, dim, move.size and move.size * ranks)
        x = x.unflatten(dim, (ranks, x.shape[dim] // ranks)).movedim(dim, lead)
        x = viewed(x, move.shape, lead + 1)
    shape, order = x.shape[len(moves):], sorted(range(len(moves)), key=lambda i: moves[i].axis)
    x = x.permute(*order, *range(len(moves), x.dim()))
    return x.reshape(math.prod(x.shape[:len(moves)]), math.prod(shape)), (x.dtype, shape)


def placed_along(moves, rows, form):
    """What collectives of one kind along the axes of these moves make of what arrived."""
    dtype, shape = form
    rows = rows if rows.dtype == dtype else rows.view(dtype)
    if moves[0].kind != "all_gather":
        return rows.view(shape)
    over = sorted([move.axis for move in moves])
    x = rows.view(*[axes()[axis] for axis in over], *shape)
    last_first = [over.index(move.axis) for move in reversed(moves)]
    x = x.permute(*last_first, *range(len(moves), x.dim()))
    for left, move in zip(reversed(range(len(moves))), moves):  # dimensions of ranks that stay in front
        x = viewed(x, move.view, left + 1)
        dim = left + move.dim
        x = x.movedim(left, dim).flatten(dim, dim + 1)
        x = viewed(x if move.size is None else x.narrow(dim, 0, move.size), move.shape, left)
    return x.contiguous()


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
        for there in map(coordinates, range(dist.get_world_size(world()))):
            sent.append(block(x, self.overlap(here, there), self.before.box(here)).reshape(-1))
            received.append(math.prod(extent for _, extent in self.overlap(there, here)))
        counts = [part.numel() for part in sent]
        arriving = torch.ops._c10d_functional.all_to_all_single(
            numbers(torch.cat(sent)), received, counts, world().group_name)
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


def viewed(x, shape, lead=0):
    """x in another shape behind its first dimensions, if one is given."""
    return x if shape is None else x.reshape(*x.shape[:lead], *shape)


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


def rows_arriving(x, ranks, name, own=False):
    """What the ranks of a group have, one after the other, once it is `waited` for.

    Each group of gloo has two threads, which write the name of what ended last into one string without a lock. A name
    of more than 15 letters (ALLGATHER_COALESCED, of all_gather_into_tensor) lies on the heap, where one thread writes to
    what the other one has freed. So each rank sends what it has to every one: ALLTOALL_BASE.
    """
    if "nccl" in dist.get_backend():
        return torch.ops._c10d_functional.all_gather_into_tensor(x, ranks, name)
    counts = [x.numel()] * ranks
    return torch.ops._c10d_functional.all_to_all_single(x.repeat(ranks), counts, counts, name)


def sum_arriving(x, ranks, name, own=False):
    """The sum of what the ranks of a group have, once it is `waited` for."""
    if own:
        return torch.ops._c10d_functional.all_reduce_(x, "sum", name)
    return torch.ops._c10d_functional.all_reduce(x.contiguous(), "sum", name)


def largest_arriving(x, ranks, name, own=False):
    """As sum_arriving, the largest."""
    return torch.ops._c10d_functional.all_reduce(x.contiguous(), "max", name)


def part_arriving(x, ranks, name, own=False):
    """Of the sum of what the ranks of a group have this rank's row, once it is `waited` for; or the row of each, which is
    still to be summed up: gloo would reduce all rows on each rank.
    """
    row = x.contiguous().view(-1)
    if "nccl" in dist.get_backend():
        return torch.ops._c10d_functional.reduce_scatter_tensor(row, "sum", ranks, name)
    counts = [row.numel() // ranks] * ranks
    return torch.ops._c10d_functional.all_to_all_single(row, counts, counts, name)


SUMMING = {"all_reduce", "all_reduce_max"}  # kinds that bring what was sent, in the same shape

# By the kind of a collective, what begins it.
SENDS = {"all_gather": rows_arriving, "all_reduce": sum_arriving, "all_reduce_max": largest_arriving, "reduce_scatter": part_arriving}


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


def route(moves):
    """What is the same for tensors that may travel together."""
    return tuple((move.kind, move.over) if isinstance(move, Collective) else type(move).__name__ for move in moves)


def begin_together(moves, xs):
    """Begins for each x its move, all of them of one kind: of collectives one with all of them."""
    if len(moves) == 1 or not isinstance(moves[0], Collective):
        return [move.begin(x) for move, x in zip(moves, xs)]
    if moves[0].kind in SUMMING:
        return moves[0].send(torch.cat([x.reshape(-1) for x in xs]), own=True), [x.numel() for x in xs], [x.shape for x in xs]
    rows, forms = zip(*(move.packed(x) for move, x in zip(moves, xs)))
    sizes = [row.shape[-1] for row in rows]
    return moves[0].send(torch.cat(rows, -1), own=True), sizes, forms


def end_together(moves, begun):
    """What `begin_together` brings each of them."""
    if len(moves) == 1 or not isinstance(moves[0], Collective):
        return [move.end(each) for move, each in zip(moves, begun)]
    arriving, sizes, forms = begun
    rows = moves[0].arrived(arriving, sum(sizes)).split(sizes, 1)
    if moves[0].kind in SUMMING:
        return [row.view(shape) for row, shape in zip(rows, forms)]
    return [move.placed(row, form) for move, row, form in zip(moves, rows, forms)]


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


def sum_begun(x, over):
    """What gives the sum of x over mesh axes, not differentiated, which is on its way until then."""
    move = at_once(*[all_reduce(axis) for axis in over])
    begun = move.begin(x.detach())
    return lambda: move.end(begun)


def summed_over(x, over):
    """The sum of x over mesh axes; not differentiated."""
    return sum_begun(x, over)() if over else x.detach()


class MeanOver(torch.autograd.Function):
    """See mean_over."""

    @staticmethod
    def forward(ctx, total, count, over):
        numbers = torch.stack([total, count.to(total.dtype)])
        total, ctx.count = summed_over(numbers.to(torch.promote_types(numbers.dtype, torch.float32)), over)
        return (total / ctx.count).to(numbers.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient / ctx.count).to(gradient.dtype), None, None


def mean_over(total, count, over):
    """The sum of `total` over mesh axes, divided by that of `count`: one collective for both. The gradient is that of this rank's total."""
    return MeanOver.apply(total, count, over)


def largest_over(x, over):
    """The largest elements over mesh axes; not differentiated."""
    return at_once(*[all_reduce(axis, "max") for axis in over])(x.detach()) if over else x.detach()
