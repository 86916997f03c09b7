import math

import torch
import torch.nn.functional as F

from sharding import all_to_all, axes, convert, run

ACTIVATIONS = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu}


def experts(hidden, indices, weights, gate_up, down, activation="silu", experts=None, exchanged=(), destinations=None,
            capacity=None, *, gate_up_bias=None, in_first=False, interleaved=False, alpha=1.0, limit=None):
    """A layer of experts: the sum of what a token's experts make of it, times their weights.

    hidden [t, h], indices and weights [t, k], gate_up [e, 2i, h], down [e, h, i] -> [t, h]

    experts       which experts are here, where they are cut: the others' results are zeros, and the result is an addend
    exchanged     mesh axes that cut tokens and experts: tokens travel along them to their experts and back
    destinations  then: for each expert the number of the rank that has it among those that rows are sent to
    capacity      then: how many rows a rank may send to another one (t k, if it is not given); more are an error
    activation    of the gate; "clamped": g sigmoid(alpha g) (u + 1) of halves g and u that are cut at the limit
    gate_up_bias  [e, 2i], is added to the first product
    in_first      the weights are [e, h, 2i] and [e, i, h]
    interleaved   the gate and the other half take turns along 2i
    """
    count = gate_up.shape[0] if experts is None else math.prod(experts.atoms)
    known = ((indices >= 0) & (indices < count)).all()
    torch._assert_async(known, "a token chose an expert that the layer does not have")
    copies = indices.shape[1]
    if not in_first:
        gate_up, down = gate_up.transpose(1, 2), down.transpose(1, 2)

    def gated(both):
        return gated_halves(both, activation, interleaved, alpha, limit)

    rows = hidden.repeat_interleave(copies, 0)
    if exchanged:
        sizes = [axes()[axis] for axis in exchanged]
        capacity = indices.numel() if capacity is None else capacity
        slots = slots_of(indices.reshape(-1), destinations, math.prod(sizes), capacity)
        travel = [all_to_all(axis, dim, dim) for dim, axis in enumerate(exchanged)]  # which undoes itself
        sent = rows.new_zeros(math.prod(sizes) * capacity, rows.shape[1]).index_put((slots,), rows)
        numbers = indices.new_full((sent.shape[0],), -1).index_copy(0, slots, indices.reshape(-1))
        arrived = convert(sent.view(*sizes, capacity, -1), travel, travel).flatten(0, -2)
        numbers = run(travel, numbers.view(*sizes, capacity)).flatten()
        made = expert_rows(arrived, numbers, gate_up, down, gate_up_bias, gated, experts)
        outputs = convert(made.view(*sizes, capacity, -1), travel, travel).flatten(0, -2)[slots]
    else:
        outputs = expert_rows(rows, indices.reshape(-1), gate_up, down, gate_up_bias, gated, experts)
    return (outputs.view(*indices.shape, -1) * weights.unsqueeze(-1)).sum(1)


def slots_of(numbers, destinations, ranks, capacity):
    """Where in the buffer each expert's row goes: `capacity` rows for each rank, in order."""
    rank = torch.tensor(destinations, device=numbers.device)[numbers]
    ones = F.one_hot(rank, ranks)
    before = (ones.cumsum(0) * ones).sum(1) - 1
    torch._assert_async((before < capacity).all(), "more tokens chose the experts of one rank than its buffer has room "
                        "for; raise capacity_factor in [ops.experts], or set it to 0, and plan again")
    return rank * capacity + before


def gated_halves(both, activation, interleaved, alpha, limit):
    """The gate's half times the other one; see experts."""
    gate, up = (both[..., ::2], both[..., 1::2]) if interleaved else both.chunk(2, -1)
    if activation == "clamped":
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return (up + 1) * gate * torch.sigmoid(alpha * gate)
    return ACTIVATIONS[activation](gate) * up


def expert_rows(rows, numbers, gate_up, down, bias, gated, experts):
    """Each row as the expert with its number makes it; zeros where that is another rank's, or -1.

    gate_up [e, h, 2i], down [e, i, h], bias [e, 2i] or None
    """
    local = numbers if experts is None else experts.local(numbers)
    order = local.argsort(stable=True)
    elsewhere, *counts = torch.bincount(local + 1, minlength=gate_up.shape[0] + 1).tolist()
    order = order[elsewhere:]
    made = []
    for expert, x in enumerate(rows[order].split(counts)):
        both = x @ gate_up[expert]
        made.append(gated(both if bias is None else both + bias[expert]) @ down[expert])
    return rows.new_zeros(rows.shape[0], down.shape[2]).index_put((order,), torch.cat(made))
