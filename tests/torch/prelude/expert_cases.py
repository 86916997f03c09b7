import torch
import torch.nn.functional as F

from cases import MESHES, case, draw, leaf, positions_of, reduced, same
from prelude.experts import experts
from prelude.layout import Layout
from prelude.mesh import axes, coordinates


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
