import math

import torch
import torch.nn.functional as F

from cases import MESHES, case, close, cut_if, draw, leaf, positions_of, reduced, same
from prelude.layout import Layout, whole_of
from prelude.mesh import axes
from prelude.positions import positions
from sharding import arange, batch_norm, embedding, extremum, eye, linspace, one_hot, scaled_dot_product_attention, tril, triu


@case(on=MESHES)
def test_positions():
    layouts = [Layout((10, 3), (0,) * len(axes()), None, (0,)),
               Layout((8, 12), (1,) + (2,) * (len(axes()) - 1), ((2, 4), (4, 3)))]
    for layout in layouts:
        n = math.prod(layout.shape)
        whole = torch.arange(1, n + 1).view(layout.shape)
        p = positions_of(layout, 0, 2)
        close(p.here, layout.cut(whole).view(-1) - 1, "here")
        local = p.local(torch.arange(-3, n + 3))
        for at, place in enumerate(local.tolist(), -3):
            assert (p.here[place] == at) if place >= 0 else (at not in p.here.tolist() or at < 0), (at, place)
    assert positions((4,), (2,), (0,), ((2,), (0,))[:len(axes())]) == positions([4], [2], [0], [[2], [0]][:len(axes())])


@case(on=MESHES)
def test_embedding():
    for padding in (-1, 0, 7):
        weight, indices = draw(10, 4).requires_grad_(), torch.randint(10, (5, 6))
        y = torch.embedding(weight, indices, padding)
        g = draw(*y.shape)
        y.backward(g)
        for place in (0,), (None, 0), (0, 0):
            if len(place) > len(axes()):
                continue
            layout = Layout((10, 4), place + (None,) * (len(axes()) - len(place)), None, (0,))
            here = leaf(layout, weight)
            made = embedding(here, indices, padding, positions_of(layout, 0, 1))
            made.backward(g)
            over = tuple("sum" if p == 0 else None for p in layout.axes)
            close(whole_of(made.detach(), Layout(tuple(y.shape), over)), y.detach(), "rows")
            close(here.grad, layout.cut(weight.grad), f"gradient, padding {padding}")
        here = weight.detach().clone().requires_grad_()
        embedding(here, indices, padding).backward(g)
        close(here.grad, weight.grad)
    try:
        embedding(leaf(layout, weight), torch.tensor([10]), -1, positions_of(layout, 0, 1))
    except RuntimeError as error:
        assert "outside" in str(error)
    else:
        raise AssertionError("an index outside of the table is refused")


@case(on=MESHES)
def test_batch_norm():
    for affine in (True, False):
        for tracked in (True, False):
            for training in (True, False):
                if not training and not tracked:
                    continue
                x = (draw(8, 8, 4) * 2 + 3).requires_grad_()
                weight, bias = (draw(8).requires_grad_() for _ in range(2)) if affine else (None, None)
                mean, var = (draw(8), draw(8).abs()) if tracked else (None, None)
                after = (mean.clone(), var.clone()) if tracked else (None, None)
                expected = torch.native_batch_norm(x, weight, bias, *after, training, 0.1, 1e-5)
                g = draw(8, 8, 4)
                expected[0].backward(g)
                for cuts in ((0,), (2,)) if len(axes()) == 1 else ((0, None), (0, 1), (2, 0), (1, 1)):
                    layout = Layout((8, 8, 4), cuts)
                    channels = Layout((8,), tuple(0 if place == 1 else None for place in cuts))
                    over = tuple(axis for axis, place in enumerate(cuts) if place in (0, 2))
                    cutc = [None if t is None else leaf(channels, t) for t in (weight, bias)]
                    cuts_of = [None if t is None else channels.cut(t) for t in (mean, var)]
                    here = leaf(layout, x)
                    made = batch_norm(here, *cutc, *cuts_of, training, 0.1, 1e-5, over)
                    assert len(made) == 5
                    made[0].backward(layout.cut(g))
                    same(made[0], layout, expected[0], "result")
                    if training:
                        same(made[1], channels, expected[1], "mean")
                        same(made[2], channels, expected[2], "1/deviation")
                    else:
                        assert made[1].numel() == made[2].numel() == 0
                    for new, old in zip(made[3:], after):
                        assert (new is None) == (old is None)
                        if old is not None:
                            same(new, channels, old, "running")
                    same(here.grad, layout, x.grad, f"gradient of x, {cuts} {training}")
                    for new, old in zip(cutc, (weight, bias)):
                        if old is not None:
                            same(reduced(new.grad, channels, over), channels, old.grad, "gradient of weight or bias")
                    if tracked:
                        assert torch.equal(cuts_of[0], channels.cut(mean)), "what was given is left alone"


@case(on=MESHES)
def test_attention():
    cuts = {(2, 2): [(2, 0), (0, 2), (2, 2), (1, 2)], (4,): [(2,)]}[axes()]
    for mask_kind in (None, "bool", "float"):
        for grouped in (False, True):
            for causal in (False, True):
                groups = 2 if grouped else 4
                q, k, v = (draw(2, heads, 8, 4).requires_grad_() for heads in (4, groups, groups))
                some = (torch.rand(8, 8) < 0.8) | torch.eye(8, dtype=torch.bool)
                mask = {None: None, "bool": some, "float": draw(8, 8)}[mask_kind]
                triangle, together = torch.ones(8, 8, dtype=torch.bool).tril(), mask
                if causal:
                    joined = {None: triangle, "bool": some & triangle}
                    together = joined[mask_kind] if mask_kind in joined else mask.masked_fill(~triangle, -math.inf)
                y = F.scaled_dot_product_attention(q, k, v, together, enable_gqa=grouped, scale=0.3)
                g = draw(*y.shape)
                y.backward(g)
                for place in cuts:
                    layout = Layout(tuple(q.shape), place)
                    of_keys = Layout(tuple(k.shape), tuple(None if at == 2 else at for at in place))
                    of_mask = Layout((8, 8), tuple(0 if at == 2 else None for at in place))
                    hq, hk, hv = leaf(layout, q), leaf(of_keys, k), leaf(of_keys, v)
                    made = scaled_dot_product_attention(hq, hk, hv, cut_if(of_mask, mask), 0.0, causal, 0.3, grouped,
                                                        queries=positions_of(layout, 2, 3))
                    made.backward(layout.cut(g))
                    same(made, layout, y, "result")
                    same(hq.grad, layout, q.grad, "queries")
                    over = [axis for axis, at in enumerate(place) if at == 2]
                    same(reduced(hk.grad, of_keys, over), of_keys, k.grad, "keys")
                    same(reduced(hv.grad, of_keys, over), of_keys, v.grad, "values")
                for leaf_ in (q, k, v):
                    leaf_.grad = None


@case(on=MESHES)
def test_made_from_positions():
    cuts = {(2, 2): [(0, 1), (1, 0), (0, 0), (None, 1)], (4,): [(0,), (1,)]}[axes()]
    for place in cuts:
        layout = Layout((8, 12), place)
        rows, columns = positions_of(layout, 0, 1), positions_of(layout, 1, 2)
        for diagonal in (-2, 0, 3):
            for mine, theirs in ((tril, torch.tril), (triu, torch.triu)):
                x, g = draw(8, 12).requires_grad_(), draw(8, 12)
                theirs(x, diagonal).backward(g)
                here = leaf(layout, x)
                made = mine(here, diagonal, rows, columns)
                made.backward(layout.cut(g))
                close(made.detach(), layout.cut(theirs(x.detach(), diagonal)))
                close(here.grad, layout.cut(x.grad))
        line = Layout((8,), tuple(0 if at == 0 else None for at in place))
        close(arange(19, 3, 2, here=positions_of(line, 0, 1)), line.cut(torch.arange(3, 19, 2)))
        close(arange(8, 0, 1, torch.float64, positions_of(line, 0, 1)), line.cut(torch.arange(8, dtype=torch.float64)))
        made = linspace(1, 4, 8, torch.float64, positions_of(line, 0, 1))
        close(made, line.cut(torch.linspace(1, 4, 8, dtype=torch.float64)), "linspace")
        close(eye(8, 12, torch.float64, rows, columns), layout.cut(torch.eye(8, 12, dtype=torch.float64)), "eye")
        labels = torch.randint(12, (8,))
        classes = Layout((8, 12), tuple(1 if at == 1 else None for at in place))
        close(one_hot(labels, 12, positions_of(classes, 1, 2)), classes.cut(F.one_hot(labels, 12)))
    close(arange(5), torch.arange(5))
    close(arange(9, 1, 3, torch.float64), torch.arange(1, 9, 3, dtype=torch.float64))
    close(tril(draw(4, 4)) * 0, torch.zeros(4, 4, dtype=torch.float64))
    close(one_hot(torch.tensor([2, 0]), 3), F.one_hot(torch.tensor([2, 0]), 3))


@case(on=MESHES)
def test_extremum():
    for largest in (True, False):
        for dim, keepdim in ((1, False), (1, True), ((0, 1), False), ((), False), (-1, False)):
            x = (draw(8, 12) * 2).round().requires_grad_()  # with equal ones
            dims = dim if dim != () else (0, 1)
            y = (torch.amax if largest else torch.amin)(x, dims, keepdim)
            g = draw(*y.shape)
            y.backward(g)
            for place in {(2, 2): [(None, 1), (1, 1), (0, 1)], (4,): [(1,)]}[axes()]:
                layout = Layout((8, 12), place)
                compared = [d % 2 for d in (dims if isinstance(dims, tuple) else (dims,))]
                over = [axis for axis, at in enumerate(place) if at in compared]
                kept = tuple(None if at in compared else at for at in place)
                result = Layout(tuple(y.shape), kept)
                here = leaf(layout, x)
                made = extremum(here, dim, keepdim, over, largest)
                made.backward(result.cut(g))
                close(made.detach(), result.cut(y.detach()))
                close(here.grad, layout.cut(x.grad), f"gradient {place} {dim}")
