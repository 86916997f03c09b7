"""What travels together: collectives along several axes as one, loads of a block, gradients of a bucket."""
import gc
import weakref

import torch
from torch import nn

from cases import case, close, draw, same
from parameter_cases import Counting
from prelude import loads, reductions
from prelude.layout import Layout
from prelude.loads import begin_forward, regathering, travel_together
from prelude.modules import Parts, parts
from prelude.moves import all_gather, all_reduce, at_once, cut, reduce_scatter, route, run
from prelude.parameters import parameter, used

WHOLE = Layout((8, 12), (None, None), mesh=(2, 2))
MESHES = ((2, 2), (4, 1))


@case(on=MESHES)
def test_gathers_along_two_axes_are_one():
    whole = draw(8, 12)
    for before, moves in (((0, 0), [all_gather(1, 0), all_gather(0, 0)]), ((0, 1), [all_gather(1, 1), all_gather(0, 0)]),
                          ((1, 0), [all_gather(0, 1), all_gather(1, 0)])):
        layout = Layout((8, 12), before)
        with Counting() as counts:
            made = at_once(*moves)(layout.cut(whole))
        assert counts == {"all_gather": 1}, counts
        same(made, WHOLE, whole, str(moves))
        close(at_once(*moves)(layout.cut(whole)), run(moves, layout.cut(whole)), str(moves))


@case(on=MESHES)
def test_sums_into_parts_along_two_axes_are_one():
    whole = draw(8, 12)
    partial = Layout((8, 12), ("sum", "sum"))
    for after, moves in (((0, 0), [reduce_scatter(0, 0), reduce_scatter(1, 0)]), ((1, 0), [reduce_scatter(1, 0), reduce_scatter(0, 1)]),
                         ((0, 1), [reduce_scatter(0, 0), reduce_scatter(1, 1)])):
        with Counting() as counts:
            made = at_once(*moves)(partial.cut(whole))
        assert counts == {"reduce_scatter": 1}, counts
        same(made, Layout((8, 12), after), whole, str(moves))


@case(on=MESHES)
def test_sums_along_two_axes_are_one():
    whole = draw(8, 12)
    with Counting() as counts:
        close(at_once(all_reduce(0), all_reduce(1))(Layout((8, 12), ("sum", "sum")).cut(whole)), whole)
        largest = at_once(all_reduce(0, "max"), all_reduce(1, "max"))(Layout((8,), (0, 0)).cut(whole[:, 0]))
    close(largest, whole[:, 0].view(4, 2).amax(0))
    assert counts == {"all_reduce": 1, "all_reduce_max": 1}, counts


@case
def test_atoms_and_padding_along_two_axes():
    whole = draw(6, 24)
    atoms = ((6,), (2, 3, 4))
    before = Layout((6, 24), (3, 1), atoms)  # the last atom by axis 0, the first of the columns by axis 1
    moves = [all_gather(1, 1, (6, 1, 3, 2), (6, 12)), all_gather(0, 3, (6, 2, 3, 2), (6, 24))]
    same(run(moves, before.cut(whole)), Layout((6, 24), (None, None)), whole, "one by one")
    same(at_once(*moves)(before.cut(whole)), Layout((6, 24), (None, None)), whole, "at once")
    back = [reduce_scatter(0, 3, (6, 2, 3, 4), (6, 12)), reduce_scatter(1, 1, (6, 2, 3, 2), (6, 6))]
    partial = Layout((6, 24), ("sum", "sum"))
    same(run(back, partial.cut(whole)), before, whole, "back, one by one")
    same(at_once(*back)(partial.cut(whole)), before, whole, "back, at once")
    rows, padded = draw(10, 3), Layout((10, 3), (0, 0), None, (0,))
    same(at_once(all_gather(1, 0, size=6), all_gather(0, 0, size=10))(padded.cut(rows)), Layout((10, 3), (None, None)), rows, "padded")
    same(at_once(reduce_scatter(0, 0, size=6), reduce_scatter(1, 0))(Layout((10, 3), ("sum", "sum")).cut(rows)), padded, rows, "padded, back")


@case(on=((2, 1, 2), (1, 2, 2)))
def test_two_of_three_axes():
    whole = draw(8, 12)
    for pair in ((0, 2), (1, 2), (0, 1)):
        axes = tuple(0 if axis in pair else None for axis in range(3))
        layout = Layout((8, 12), axes)
        same(at_once(*(all_gather(axis, 0) for axis in reversed(pair)))(layout.cut(whole)), Layout((8, 12), (None,) * 3), whole, str(pair))


class Block(nn.Module):
    """A block with a forward of its own, as emitted ones."""

    def __init__(self, width, **settings):
        super().__init__()
        layouts = [Layout((width, 6), (0, 0)), Layout((6, width), (1, 1)), Layout((width,), (0, 0))]
        gathers = [[at_once(all_gather(1, dim), all_gather(0, dim))] for dim in (0, 1, 0)]
        sums = [[at_once(reduce_scatter(0, dim), reduce_scatter(1, dim))] for dim in (0, 1, 0)]
        first, second, bias = (parameter(layout, torch.float64, loaded=gather, reduced=reduction, **settings)
                               for layout, gather, reduction in zip(layouts, gathers, sums))
        self.inner = parts(first=first, bias=bias)
        self.second = second

    def forward(self, x):
        h = torch.tanh(x @ used(self.inner.first).t() + used(self.inner.bias))
        return x + h @ used(self.second).t()


class Blocks(Parts):
    def __init__(self, **settings):
        super().__init__()
        self.blocks = nn.ModuleList([Block(8, **settings) for _ in range(3)])
        self.last = parameter(Layout((4, 6), (0, 0)), torch.float64, loaded=[at_once(all_gather(1, 0), all_gather(0, 0))],
                              reduced=[at_once(reduce_scatter(0, 0), reduce_scatter(1, 0))], **settings)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x @ used(self.last).t()


def plain(x, whole):
    for first, bias, second in (whole[i:i + 3] for i in range(0, 9, 3)):
        x = x + torch.tanh(x @ first.t() + bias) @ second.t()
    return x @ whole[9].t()


@case
def test_a_block_is_loaded_by_one_collective():
    for regather in (False, True):
        for prefetch in (False, True):
            model = Blocks(regather=regather, prefetch=prefetch)
            shards = [shard for block in model.blocks for shard in (block.inner.first, block.inner.bias, block.second)] + [model.last]
            whole = [draw(*shard.sharding.shape).requires_grad_() for shard in shards]
            with torch.no_grad():
                for shard, value in zip(shards, whole):
                    shard.copy_(shard.sharding.cut(value))
            passes = travel_together(model)
            ours, theirs = torch.optim.SGD(shards, 0.1), torch.optim.SGD(whole, 0.1)
            for _ in range(3):
                x = draw(5, 6)
                with Counting() as counts:
                    begin_forward(passes)
                    with regathering():
                        y = model(x)
                    assert counts == {"all_gather": 4}, counts
                    close(y.detach(), plain(x, whole).detach())
                    y.square().sum().div(4).backward()
                # Weights are gathered again, biases are not; of one type and route, all gradients are reduced at once.
                assert counts == {"all_gather": 8 if regather else 4, "reduce_scatter": 1}, counts
                plain(x, whole).square().sum().backward()
                for shard, value in zip(shards, whole):
                    same(shard.grad, shard.sharding, value.grad, f"regather {regather}, prefetch {prefetch}")
                ours.step(), theirs.step()
                ours.zero_grad(), theirs.zero_grad()
                assert not any(shard.storing.load.values or shard.storing.load.flight for shard in shards)


@case
def test_loads_of_more_than_a_bucket():
    kept = loads.UNIT_BYTES
    try:
        for bytes_of_bucket, gathers in ((8 * 48, 9), (8 * 56, 6), (1 << 20, 4)):
            loads.UNIT_BYTES = bytes_of_bucket  # two weights of 48 numbers and a bias of 8, in each block
            model = Blocks()
            travel_together(model)
            with Counting() as counts:
                begin_forward()
                model(draw(5, 6))
            assert counts["all_gather"] <= gathers + 1, (bytes_of_bucket, counts)
    finally:
        loads.UNIT_BYTES = kept


@case
def test_gradients_of_different_routes_go_apart():
    def made(*moves, layout=Layout((8, 6), (0, None))):
        return parameter(layout, torch.float64, reduced=moves)

    whole = Layout((8, 6), (None, None))
    shards = [made(reduce_scatter(0, 0)), made(reduce_scatter(0, 1), layout=Layout((8, 6), (1, None))), made(all_reduce(0), layout=whole),
              made(all_reduce(0), cut(1, 0), layout=Layout((8, 6), (None, 0))), made(reduce_scatter(1, 0), layout=Layout((8, 6), (None, 0)))]
    assert len({route(shard.storing.reduced) for shard in shards}) == 4
    weights = [draw(8, 6) for _ in shards]

    with Counting() as counts:
        sums = reductions.Reductions()
        for shard, weight in zip(shards, weights):
            shard.storing.uses = 1
            sums.add(shard, weight)
        sums.end()
    assert counts == {"reduce_scatter": 2, "all_reduce": 2}, counts
    for shard, weight in zip(shards, weights):
        same(shard.grad, shard.sharding, weight * 2)


@case
def test_nothing_holds_a_parameter():
    for moves in (dict(reduced=[all_reduce(0)]), dict(loaded=[all_gather(0, 0)], reduced=[reduce_scatter(0, 0)])):
        shard = parameter(Layout((8, 6), (0 if "loaded" in moves else None, None)), torch.float64, **moves)
        begin_forward()
        used(shard).sum().backward()
        held = weakref.ref(shard)
        del shard
        begin_forward()
        gc.collect()
        assert held() is None
