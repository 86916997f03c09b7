import math

import torch
import torch.nn.functional as F

from cases import case, close, draw, leaf, positions_of, same
from prelude import random
from prelude.attention import scaled_dot_product_attention
from prelude.layout import Layout, whole_of
from prelude.experts import experts
from prelude.losses import cross_entropy, nll_loss
from prelude.mesh import axes, coordinates
from prelude.moves import all_reduce, run
from prelude.norms import batch_norm
from prelude.positions import arange, embedding, extremum, one_hot, positions, tril, triu

MESHES = ((2, 2), (4,))


def cut_if(layout, whole):
    """This rank's part of what there may be."""
    return None if whole is None else layout.cut(whole)


def reduced(gradient, layout, over):
    """A gradient that is an addend of each rank of these axes, added up."""
    return run([all_reduce(axis) for axis in over], gradient)


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
def test_cross_entropy_over_cut_classes():
    n, c = 16, 10
    for reduction in ("mean", "sum", "none"):
        for weighted in (False, True):
            for both in (False, True):
                logits, target = (draw(n, c) * 3).requires_grad_(), torch.randint(c, (n,))
                target[torch.rand(n) < 0.3] = -100
                weight = draw(c).abs() if weighted else None
                loss = F.cross_entropy(logits, target, weight, reduction=reduction)
                g = draw(*loss.shape)
                loss.backward(g)
                over = (0,) if len(axes()) == 1 else (1,)
                cuts = (1,) if len(axes()) == 1 else (0 if both else None, 1)
                layout = Layout((n, c), cuts, None, (1,))
                of_weight = Layout((c,), tuple(0 if place == 1 else None for place in cuts), None, (0,))
                rows = Layout((n,), tuple(0 if place == 0 else None for place in cuts))
                position_axes = tuple(axis for axis, place in enumerate(cuts) if place == 0)
                here = leaf(layout, logits)
                made = cross_entropy(here, rows.cut(target), cut_if(of_weight, weight), reduction,
                                     class_axes=over, position_axes=position_axes, classes=positions_of(layout, 1, 2))
                made.backward(rows.cut(g) if reduction == "none" else g)
                scalar = Layout((), tuple("sum" if axis in position_axes else None for axis in range(len(axes()))))
                close(whole_of(made.detach(), rows if reduction == "none" else scalar), loss.detach(), reduction)
                close(here.grad, layout.cut(logits.grad), f"gradient, {reduction}")


@case(on=MESHES)
def test_cross_entropy_over_cut_positions():
    for shape in ((8, 5), (8, 5, 3)):
        for kind in ("labels", "weights", "smoothed", "smoothed and weights", "probabilities"):
            logits = draw(*shape).requires_grad_()
            cuts = (0,) * len(axes())
            rows = Layout((8,) + shape[2:], cuts)
            layout = Layout(shape, cuts)
            if kind == "probabilities":
                target, rows = draw(*shape).softmax(1), layout
            else:
                target = torch.randint(5, (8,) + shape[2:])
                target[0] = 3
                target.view(-1)[5] = 3 if kind == "smoothed" else -100
            weight = draw(5).abs() if "weights" in kind else None
            smoothing = 0.1 if "smoothed" in kind else 0.0
            for reduction in ("mean", "sum"):
                loss = F.cross_entropy(logits, target, weight, reduction=reduction, label_smoothing=smoothing)
                gradient, = torch.autograd.grad(loss, logits)
                here = leaf(layout, logits)
                made = cross_entropy(here, rows.cut(target), weight, reduction, label_smoothing=smoothing,
                                     position_axes=tuple(range(len(axes()))))
                made.backward()
                close(whole_of(made.detach(), Layout((), ("sum",) * len(axes()))), loss.detach(), f"{kind} {reduction}")
                close(here.grad, layout.cut(gradient), f"gradient, {kind} {reduction}")


@case(on=MESHES)
def test_cross_entropy_refuses_a_label_outside():
    layout = Layout((4, 10), (None,) * (len(axes()) - 1) + (1,), None, (1,))
    try:
        cross_entropy(layout.cut(draw(4, 10)), torch.tensor([1, 2, 3, 10]), class_axes=(len(axes()) - 1,),
                      classes=positions_of(layout, 1, 2))
    except RuntimeError as error:
        assert "outside of the classes" in str(error)
    else:
        raise AssertionError("a label outside of the classes is refused")


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


@case(on=MESHES)
def test_nll_loss():
    for shape in ((8, 10), (8, 10, 4)):
        for reduction in ("mean", "sum", "none"):
            for weighted in (False, True):
                x, target = draw(*shape).requires_grad_(), torch.randint(10, (8,) + shape[2:])
                target.view(-1)[::3] = -100
                weight = draw(10).abs() if weighted else None
                loss = F.nll_loss(x, target, weight, reduction=reduction)
                g = draw(*loss.shape)
                loss.backward(g)
                for cuts in {(2, 2): [(0, 1), (1, 0), (1, 1), (0, 0), (None, 1)], (4,): [(0,), (1,)]}[axes()]:
                    layout = Layout(shape, cuts, None, (1,))
                    rows = Layout((8,) + shape[2:], tuple(0 if at == 0 else None for at in cuts))
                    of_weight = Layout((10,), tuple(0 if at == 1 else None for at in cuts), None, (0,))
                    classes = [axis for axis, at in enumerate(cuts) if at == 1]
                    places = [axis for axis, at in enumerate(cuts) if at == 0]
                    here = leaf(layout, x)
                    made = nll_loss(here, rows.cut(target), cut_if(of_weight, weight), reduction, class_axes=classes,
                                    position_axes=places, classes=positions_of(layout, 1, 2) if classes else None)
                    made.backward(rows.cut(g) if reduction == "none" else g)
                    sums = tuple("sum" if axis in classes or axis in places and reduction != "none" else rows.axes[axis]
                                 for axis in range(len(axes())))
                    found = whole_of(made.detach(), Layout(tuple(loss.shape), sums))
                    close(found, loss.detach(), f"{cuts} {reduction}")
                    close(here.grad, layout.cut(x.grad), f"gradient, {cuts} {reduction}")


def mixed(x):
    """The finalizer of SplitMix64, on Python's integers."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def drawn(stream, step, element):
    key = 0xCBF29CE484222325
    for byte in stream.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    key = mixed((key + step) % 2**64)
    return (mixed((key + element * 0x9E3779B97F4A7C15) % 2**64) >> 11) * 2.0**-53


@case
def test_random_numbers_are_those_of_the_reference_backend():
    random.RANDOM["step"] = None
    for step in range(3):
        random.begin_step()
        for stream in ("dropout_1", "h.0.attn"):
            elements = torch.tensor([0, 1, 2, 12345678901, 2**40])
            expected = [drawn(stream, step, element) for element in elements.tolist()]
            assert random.uniform(stream, elements).tolist() == expected
    many = random.uniform("s", torch.arange(100000))
    assert 0 <= many.min() and many.max() < 1 and abs(many.mean() - 0.5) < 0.01


@case(on=MESHES)
def test_dropout_drops_the_same_elements_in_every_layout():
    random.begin_step()
    x, g = draw(8, 12).requires_grad_(), draw(8, 12)
    y = random.dropout(x, 0.3, True, "a")
    y.backward(g)
    dropped = (y == 0).double().mean().item()
    assert 0.1 < dropped < 0.5, dropped
    close(y[y != 0].detach(), (x[y != 0] / 0.7).detach())
    for place in {(2, 2): [(0, 1), (1, 0), (0, 0), (None, 1)], (4,): [(0,), (1,)]}[axes()]:
        layout = Layout((8, 12), place)
        here = leaf(layout, x)
        made, keeps = random.native_dropout(here, 0.3, True, "a", positions_of(layout, 0, 2))
        made.backward(layout.cut(g))
        close(made.detach(), layout.cut(y.detach()))
        close(keeps, layout.cut(y != 0))
        close(here.grad, layout.cut(x.grad))
    random.begin_step()
    assert not torch.equal(random.dropout(x, 0.3, True, "a"), y), "another step drops others"
    assert random.dropout(x, 0.3, False, "a") is x and random.dropout(x, 0.0, True, "a") is x
    assert not random.dropout(x, 1.0, True, "a").any()


@case(on=MESHES)
def test_attention_with_dropout():
    q, k, v = (draw(2, 4, 8, 4).requires_grad_() for _ in range(3))
    causal = torch.ones(8, 8, dtype=torch.bool).tril()
    for is_causal in (False, True):
        scores = q @ k.transpose(-2, -1) / 2
        scores = scores.masked_fill(~causal, -math.inf) if is_causal else scores
        keeps = random.uniform("s", torch.arange(scores.numel())).view(scores.shape) >= 0.25
        y = (scores.softmax(-1) * keeps / 0.75) @ v
        g = draw(*y.shape)
        gradients = torch.autograd.grad(y, (q, k, v), g)
        for place in {(2, 2): [(2, 0), (0, 1), (1, 2)], (4,): [(2,)]}[axes()]:
            layout = Layout(tuple(q.shape), place)
            of_keys = Layout(tuple(k.shape), tuple(None if at == 2 else at for at in place))
            hq, hk, hv = leaf(layout, q), leaf(of_keys, k), leaf(of_keys, v)
            made = scaled_dot_product_attention(hq, hk, hv, None, 0.25, is_causal, queries=positions_of(layout, 2, 3),
                                                rows=positions_of(layout, 0, 3), stream="s")
            made.backward(layout.cut(g))
            same(made, layout, y, "result")
            same(hq.grad, layout, gradients[0], "queries")
            over = [axis for axis, at in enumerate(place) if at == 2]
            same(reduced(hk.grad, of_keys, over), of_keys, gradients[1], "keys")
            same(reduced(hv.grad, of_keys, over), of_keys, gradients[2], "values")


def expert_layer(hidden, indices, weights, gate_up, down, act):
    """Token by token."""
    rows = []
    for token in range(hidden.shape[0]):
        total = 0
        for copy in range(indices.shape[1]):
            expert = indices[token, copy]
            gate, up = (gate_up[expert] @ hidden[token]).chunk(2)
            total = total + weights[token, copy] * (down[expert] @ (act(gate) * up))
        rows.append(total)
    return torch.stack(rows)


@case(on=MESHES)
def test_experts():
    t, k, e, i, h = 16, 2, 8, 4, 6
    acts = {"silu": F.silu, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    # For tokens, experts and the inner dimension: the axes that cut them.
    ways = {(2, 2): {"t": ((0, 0), (None, None), (None, None)), "e": ((None, None), (0, 0), (None, None)),
                     "t and e": ((0, None), (None, 0), (None, None)), "t and i": ((0, None), (None, None), (None, 0)),
                     "t>e": ((0, None), (0, None), (None, None)), "t>e, e": ((0, None), (0, 0), (None, None)),
                     "t>e on the second": ((None, 0), (0, 0), (None, None)),
                     "t>e twice": ((0, 0), (0, 0), (None, None)),
                     "t, t>e": ((0, 0), (None, 0), (None, None)), "t>e, i": ((0, None), (0, None), (None, 0))},
            (4,): {"t>e": ((0,), (0,), (None,)), "e": ((None,), (0,), (None,)), "i": ((None,), (None,), (0,))}}[axes()]
    for number, (way, (tokens, held, inner)) in enumerate(ways.items()):
        activation = list(acts)[number % 4]
        hidden, weights = draw(t, h).requires_grad_(), draw(t, k).softmax(1).detach().requires_grad_()
        indices = torch.stack([torch.randperm(e)[:k] for _ in range(t)])
        gate_up, down = draw(e, 2 * i, h).requires_grad_(), draw(e, h, i).requires_grad_()
        y = expert_layer(hidden, indices, weights, gate_up, down, acts[activation])
        g = draw(t, h)
        y.backward(g)
        of_tokens, of_copies = Layout((t, h), tokens), Layout((t, k), tokens)
        places = tuple(0 if a == 0 else 2 if b == 0 else None for a, b in zip(held, inner))
        of_gates, of_down = Layout((e, 2 * i, h), places, ((e,), (2, i), (h,))), Layout((e, h, i), places)
        exchanged = tuple(axis for axis in range(len(axes())) if tokens[axis] == held[axis] == 0)
        # Where each expert's rank is, along the axes that exchange.
        of_experts = Layout((e,), held)
        destinations = []
        for expert in range(e):
            for rank in range(4):
                (start,), (extent,) = of_experts.box(coordinates(rank))
                if start <= expert < start + extent:
                    place = 0
                    for axis in exchanged:
                        place = place * axes()[axis] + coordinates(rank)[axis]
                    destinations.append(place)
                    break
        hh, hw, hg, hd = leaf(of_tokens, hidden), leaf(of_copies, weights), leaf(of_gates, gate_up), leaf(of_down, down)
        made = experts(hh, of_copies.cut(indices), hw, hg, hd, activation, positions_of(of_gates, 0, 1), exchanged,
                       destinations)
        made.backward(of_tokens.cut(g))
        shares = [axis for axis in range(len(axes())) if tokens[axis] is None and (held[axis] == 0 or inner[axis] == 0)]
        same(reduced(made.detach(), of_tokens, shares), of_tokens, y, f"{way}: result")
        same(reduced(hh.grad, of_tokens, shares), of_tokens, hidden.grad, f"{way}: gradient of tokens")
        same(reduced(hw.grad, of_copies, shares), of_copies, weights.grad, f"{way}: gradient of weights")
        over = [axis for axis in range(len(axes())) if tokens[axis] == 0 and axis not in exchanged]
        same(reduced(hg.grad, of_gates, over), of_gates, gate_up.grad, f"{way}: gradient of gate_up")
        same(reduced(hd.grad, of_down, over), of_down, down.grad, f"{way}: gradient of down")


@case(on=MESHES)
def test_experts_refuse_more_rows_than_fit():
    indices = torch.zeros(4, 1, dtype=torch.int64)
    held = Layout((4, 4, 3), (0,) + (None,) * (len(axes()) - 1))
    here = held.cut(draw(4, 4, 3))
    down = Layout((4, 3, 2), held.axes).cut(draw(4, 3, 2))
    destinations = [expert * axes()[0] // 4 for expert in range(4)]
    arguments = draw(4, 3), indices, draw(4, 1), here, down, "silu", positions_of(held, 0, 1), (0,), destinations
    assert experts(*arguments, 4).shape == (4, 3)
    try:
        experts(*arguments, 3)
    except RuntimeError as error:
        assert "capacity_factor" in str(error)
    else:
        raise AssertionError("rows beyond the capacity are refused")
