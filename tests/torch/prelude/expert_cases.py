import torch
import torch.nn.functional as F

from cases import MESHES, case, draw, leaf, positions_of, reduced, same
from prelude.layout import Layout
from prelude.mesh import axes, coordinates
from sharding import experts


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


def clamped_layer(hidden, indices, weights, gate_up, down, bias, alpha, limit):
    """Token by token, as gpt-oss: weights [e, h, 2i] and [e, i, h], the halves in turns."""
    rows = []
    for token in range(hidden.shape[0]):
        total = 0
        for copy in range(indices.shape[1]):
            expert = indices[token, copy]
            both = hidden[token] @ gate_up[expert] + bias[expert]
            gate, up = both[0::2].clamp(max=limit), both[1::2].clamp(-limit, limit)
            total = total + weights[token, copy] * ((gate * torch.sigmoid(alpha * gate) * (up + 1)) @ down[expert])
        rows.append(total)
    return torch.stack(rows)


T, K, E, I, H = 16, 2, 8, 4, 6  # tokens, experts of each, experts, inner dimension, width


def ways():
    """For tokens, experts and the inner dimension: the axes that cut them."""
    return {(2, 2): {"t": ((0, 0), (None, None), (None, None)), "e": ((None, None), (0, 0), (None, None)),
                     "t and e": ((0, None), (None, 0), (None, None)), "t and i": ((0, None), (None, None), (None, 0)),
                     "t>e": ((0, None), (0, None), (None, None)), "t>e, e": ((0, None), (0, 0), (None, None)),
                     "t>e on the second": ((None, 0), (0, 0), (None, None)),
                     "t>e twice": ((0, 0), (0, 0), (None, None)),
                     "t, t>e": ((0, 0), (None, 0), (None, None)), "t>e, i": ((0, None), (0, None), (None, 0))},
            (4,): {"t>e": ((0,), (0,), (None,)), "e": ((None,), (0,), (None,)), "i": ((None,), (None,), (0,))}}[axes()]


def destinations_of(of_experts, exchanged):
    """Where each expert's rank is, along the axes that exchange."""
    destinations = []
    for expert in range(E):
        for rank in range(4):
            (start,), (extent,) = of_experts.box(coordinates(rank))
            if start <= expert < start + extent:
                place = 0
                for axis in exchanged:
                    place = place * axes()[axis] + coordinates(rank)[axis]
                destinations.append(place)
                break
    return destinations


def held_against(way, where, layer, given, layouts, call):
    """`given` are hidden, weights and what the experts have, `layouts` how a rank has them; `layer` computes all of it."""
    tokens, held, inner = where
    indices = torch.stack([torch.randperm(E)[:K] for _ in range(T)])
    y = layer(given[0], indices, given[1], *given[2:])
    g = draw(*y.shape)
    y.backward(g)
    exchanged = tuple(axis for axis in range(len(axes())) if tokens[axis] == held[axis] == 0)
    here = [leaf(layout, whole) for layout, whole in zip(layouts, given)]
    destinations = destinations_of(Layout((E,), held), exchanged)
    made = call(here, layouts[1].cut(indices), positions_of(layouts[2], 0, 1), exchanged, destinations)
    of_tokens = layouts[0]
    made.backward(of_tokens.cut(g))
    shares = [axis for axis in range(len(axes())) if tokens[axis] is None and (held[axis] == 0 or inner[axis] == 0)]
    over = [axis for axis in range(len(axes())) if tokens[axis] == 0 and axis not in exchanged]
    same(reduced(made.detach(), of_tokens, shares), of_tokens, y, f"{way}: result")
    for number, (part, layout, whole) in enumerate(zip(here, layouts, given)):
        same(reduced(part.grad, layout, shares if number < 2 else over), layout, whole.grad, f"{way}: gradient {number}")


@case(on=MESHES)
def test_experts():
    acts = {"silu": F.silu, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    for number, (way, where) in enumerate(ways().items()):
        tokens, held, inner = where
        activation = list(acts)[number % 4]
        given = [draw(T, H), draw(T, K).softmax(1), draw(E, 2 * I, H), draw(E, H, I)]
        places = tuple(0 if a == 0 else 2 if b == 0 else None for a, b in zip(held, inner))
        layouts = [Layout((T, H), tokens), Layout((T, K), tokens), Layout((E, 2 * I, H), places, ((E,), (2, I), (H,))), Layout((E, H, I), places)]
        held_against(way, where, lambda *all_of: expert_layer(*all_of, acts[activation]), [whole.requires_grad_() for whole in given], layouts,
                     lambda here, indices, *placed: experts(here[0], indices, here[1], here[2], here[3], activation, *placed))


@case(on=MESHES)
def test_experts_of_gpt_oss():
    alpha, limit = 1.702, 0.7
    for way, where in ways().items():
        tokens, held, inner = where
        given = [draw(T, H), draw(T, K).softmax(1), draw(E, H, 2 * I), draw(E, I, H), draw(E, 2 * I)]

        def placed_at(inner_atom):
            return tuple(0 if a == 0 else inner_atom if b == 0 else None for a, b in zip(held, inner))

        layouts = [Layout((T, H), tokens), Layout((T, K), tokens), Layout((E, H, 2 * I), placed_at(2), ((E,), (H,), (I, 2))),
                   Layout((E, I, H), placed_at(1)), Layout((E, 2 * I), placed_at(1), ((E,), (I, 2)))]
        held_against(way, where, lambda *all_of: clamped_layer(*all_of, alpha, limit), [whole.requires_grad_() for whole in given], layouts,
                     lambda here, indices, *placed: experts(here[0], indices, here[1], here[2], here[3], "clamped", *placed, gate_up_bias=here[4],
                                                            in_first=True, interleaved=True, alpha=alpha, limit=limit))


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
