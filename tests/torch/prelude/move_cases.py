import itertools

import torch

from cases import case, close, draw, leaf, same
from layout_cases import LAYOUTS
from prelude.layout import Layout, whole_of
from prelude.mesh import axes, coordinates
from prelude.moves import all_gather, all_reduce, all_to_all, convert, cut, keep_one, reduce_scatter, relayout

ATOMS = ((2, 4), (3, 4))


def addends(layout, whole):
    """Parts that are random addends over the axes that are "sum": those but the last draw, the last makes it right."""
    sums = [axis for axis, place in enumerate(layout.axes) if place == "sum"]
    places = tuple(None if place == "sum" else place for place in layout.axes)
    plain = Layout(layout.shape, places, layout.atoms, layout.padded)
    drawn = [draw(*whole.shape) for _ in range(4)]
    if not whole.dtype.is_floating_point:
        drawn = [(x * 8).to(whole.dtype) for x in drawn]
    ranks = list(itertools.product(*(range(axes()[axis]) for axis in sums)))
    shares = drawn[:len(ranks) - 1]
    shares.append(whole - sum(shares, torch.zeros_like(whole)))
    return plain.cut(shares[ranks.index(tuple(coordinates()[axis] for axis in sums))])


@case
def test_each_move_on_dimensions():
    moves = [
        (cut(0, 1), (None, None), (1, None)), (cut(1, 0), (1, None), (1, 0)), (cut(1, 0), (0, None), (0, 0)),
        (all_gather(0, 1), (1, None), (None, None)), (all_gather(1, 0), (0, 0), (0, None)),
        (all_gather(1, 1), (0, 1), (0, None)),
        (all_reduce(0), ("sum", 1), (None, 1)), (all_reduce(1), ("sum", "sum"), ("sum", None)),
        (reduce_scatter(0, 1), ("sum", 0), (1, 0)), (reduce_scatter(1, 0), (0, "sum"), (0, 0)),
        (all_to_all(0, 0, 1), (0, None), (1, None)), (all_to_all(1, 0, 1), (0, 0), (0, 1)),
        (all_to_all(1, 1, 0), (None, 1), (None, 0)),
        (keep_one(0), (None, 0), ("sum", 0)),
    ]
    for dtype in (torch.float64, torch.int64):
        whole = draw(8, 12) if dtype == torch.float64 else torch.arange(96).view(8, 12)
        for move, before, after in moves:
            x = addends(Layout((8, 12), before), whole)
            for given in (x, x.t().contiguous().t()):
                made = move(given)
                assert made.is_contiguous(), move
                same(made, Layout((8, 12), after), whole, repr(move))


@case
def test_each_move_on_atoms():
    whole = draw(8, 12)
    moves = [
        (cut(0, 1, (2, 4, 3, 4), (4, 12)), (None, None), (1, None)),
        (cut(1, 3, (2, 2, 3, 4), (4, 6)), (1, None), (1, 3)),
        (all_gather(0, 1, (2, 2, 3, 4), (8, 12)), (1, None), (None, None)),
        (all_gather(1, 3, (2, 2, 3, 2), (4, 12)), (1, 3), (1, None)),
        (reduce_scatter(0, 3, (2, 4, 3, 4), (8, 6)), ("sum", None), (3, None)),
        (all_to_all(0, 1, 3, (2, 2, 3, 4), (8, 6)), (1, None), (3, None)),
        (all_to_all(1, 3, 0, (2, 2, 3, 2), (2, 12)), (1, 3), (1, 0)),
    ]
    for move, before, after in moves:
        before, after = (Layout((8, 12), places, ATOMS) for places in (before, after))
        same(move(addends(before, whole)), after, whole, repr(move))


@case(on=((2, 2), (4,)))
def test_moves_pad_and_trim():
    whole, rest = draw(10, 8), (None,) * (len(axes()) - 1)
    shard = 12 // axes()[0]

    def layout(*places):
        return Layout((10, 8), (*places, *rest), None, (0,))

    same(cut(0, 0, size=shard)(whole), layout(0), whole, "cut")
    same(all_gather(0, 0, size=10)(layout(0).cut(whole)), layout(None), whole, "gather")
    same(reduce_scatter(0, 0, size=shard)(addends(layout("sum"), whole)), layout(0), whole, "reduce-scatter")
    same(all_to_all(0, 0, 1, gathered_size=10)(layout(0).cut(whole)), layout(1), whole, "gathered")
    same(all_to_all(0, 1, 0, cut_size=shard)(layout(1).cut(whole)), layout(0), whole, "cut")


@case
def test_moves_of_other_dtypes():
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.int32, torch.bool):
        whole = (torch.arange(96).view(8, 12) % 7).to(dtype)
        rows, columns = Layout((8, 12), (0, None)), Layout((8, 12), (1, None))
        same(all_gather(0, 1)(columns.cut(whole)), Layout((8, 12), (None, None)), whole, str(dtype))
        same(all_to_all(0, 0, 1)(rows.cut(whole)), columns, whole, str(dtype))
        close(relayout(rows, columns)(rows.cut(whole)), columns.cut(whole), str(dtype))
        if dtype != torch.bool:
            partial = Layout((8, 12), ("sum", None))
            same(reduce_scatter(0, 1)(partial.cut(whole)), columns, whole, str(dtype))
            same(all_reduce(0)(partial.cut(whole)), Layout((8, 12), (None, None)), whole, str(dtype))
            close(all_reduce(0, "max")(rows.cut(whole)), torch.maximum(whole[:4], whole[4:]), str(dtype))


@case(on=((2, 2), (4,)))
def test_relayout_to_every_layout():
    whole = draw(8, 12)
    layouts = LAYOUTS if len(axes()) == 2 else [Layout((8, 12), (place,)) for place in (None, 0, 1)]
    for before, after in itertools.product(layouts, layouts):
        if before.factors() == after.factors():
            close(relayout(before, after)(before.cut(whole)), after.cut(whole), f"{before} -> {after}")


@case
def test_relayout_pads_and_leaves_sums():
    whole = draw(10, 8)
    layouts = [Layout((10, 8), places, None, (0,)) for places in itertools.product((None, 0, 1), (None, 0, 1))]
    for before, after in itertools.product(layouts, layouts):
        close(relayout(before, after)(before.cut(whole)), after.cut(whole), f"{before} -> {after}")
    for before, after in itertools.product((None, 0, 1), (None, 0, 1)):
        before, after = Layout((10, 8), ("sum", before), None, (0,)), Layout((10, 8), ("sum", after), None, (0,))
        close(whole_of(relayout(before, after)(addends(before, whole)), after), whole, f"{before} -> {after}")


@case(on=((2, 1, 2), (1, 4)))
def test_meshes_with_an_axis_of_one_rank():
    whole = draw(10, 8)
    layouts = [Layout((10, 8), places, None, (0,)) for places in itertools.product((None, 0, 1), repeat=len(axes()))]
    layouts = [layout for layout in layouts if 8 % layout.extents()[1] == 0][::2]
    for before, after in itertools.product(layouts, layouts):
        close(relayout(before, after)(before.cut(whole)), after.cut(whole), f"{before} -> {after}")
    for axis in range(len(axes())):
        total = Layout((10, 8), tuple("sum" if other == axis else None for other in range(len(axes()))))
        close(all_reduce(axis)(addends(total, whole)), whole, "all-reduce")
        rows = Layout((10, 8), tuple(1 if other == axis else None for other in range(len(axes()))))
        close(reduce_scatter(axis, 1)(addends(total, whole)), rows.cut(whole), "reduce-scatter")
        close(all_gather(axis, 1)(rows.cut(whole)), whole, "gather")


@case
def test_how_moves_are_written():
    assert repr(cut(0, 1)) == "cut(axis=0, dim=1)"
    assert repr(all_gather(1, 0, (2, 4), (8,), 7)) == "all_gather(axis=1, dim=0, view=(2, 4), shape=(8,), size=7)"
    assert repr(all_reduce(0)) == "all_reduce(axis=0, op='sum')"
    assert cut(0, 1) == cut(0, 1) and hash(cut(0, 1)) == hash(cut(0, 1))


@case
def test_a_megatron_pair_is_differentiated():
    """y = gelu(x w1) w2 with columns of w1 and rows of w2 on axis 1, the batch on axis 0."""
    x, w1, w2 = (draw(*shape).requires_grad_() for shape in ((8, 6), (6, 12), (12, 6)))
    y = torch.nn.functional.gelu(x @ w1) @ w2
    y.square().sum().backward()
    lx, l1, l2 = Layout((8, 6), (0, None)), Layout((6, 12), (None, 1)), Layout((12, 6), (None, 0))
    hx, h1, h2 = leaf(lx, x), leaf(l1, w1), leaf(l2, w2)
    used = convert(hx, [], [all_reduce(1)])
    made = torch.nn.functional.gelu(used @ h1) @ h2
    made = convert(made, [all_reduce(1)], [])
    made.square().sum().backward()
    same(made, Layout((8, 6), (0, None)), y, "y")
    same(hx.grad, lx, x.grad, "x")
    same(all_reduce(0)(h1.grad), l1, w1.grad, "w1")
    same(all_reduce(0)(h2.grad), l2, w2.grad, "w2")


@case
def test_converts_are_compiled():
    """torch.compile traces what convert does into one graph, with its gradient."""
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    x = draw(4, 6).requires_grad_()
    def step(x):
        x = convert(x * 2, [all_reduce(0)], [all_reduce(0)])
        return convert(x, [all_gather(1, 0)], [reduce_scatter(1, 0)]).sin()

    y = torch.compile(step, backend=backend, fullgraph=True)(x)
    y.sum().backward()
    plain = x.detach().clone().requires_grad_()
    expected = torch.cat([plain * 4] * 2).sin()
    close(y.detach(), expected.detach(), "compiled")
    close(x.grad, torch.autograd.grad(expected.sum(), plain)[0], "compiled gradient")
    assert len(graphs) == 1
