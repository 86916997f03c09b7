"""The floating-point operations of one training step of a plan's model: its products of matrices, forward and backward.

Counted as is usual for a model's utilization: a product of m x k by k x n is 2mkn; its backward is one such product for
each of the two that has a gradient. What a plan computes again or repeats on several ranks does not count, and neither
does what is no product: norms, activations, softmax.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

_Shapes = dict[str, list[int]]  # of a call's operands and, as "result", of its first result


def _linear(shapes: _Shapes, _: dict[str, Any]) -> int:
    return 2 * math.prod(shapes["result"]) * shapes["input"][-1]


def _product(left: str) -> Callable[[_Shapes, dict[str, Any]], int]:
    return lambda shapes, _: 2 * math.prod(shapes["result"]) * shapes[left][-1]


def _convolution(shapes: _Shapes, attributes: dict[str, Any]) -> int:
    # A weight is [out, in / groups, *kernel], of a transposed one [in, out / groups, *kernel]: there each input counts.
    each = "input" if attributes.get("transposed") else "result"
    return 2 * math.prod(shapes[each]) * math.prod(shapes["weight"][1:])


def _transposed_convolution(shapes: _Shapes, _: dict[str, Any]) -> int:
    return 2 * math.prod(shapes["input"]) * math.prod(shapes["weight"][1:])


def _attention(shapes: _Shapes, _: dict[str, Any]) -> int:
    *batch, queries, width = shapes["query"]
    keys, values = shapes["key"][-2], shapes["value"][-1]
    return 2 * math.prod(batch) * queries * keys * (width + values)


def _experts(shapes: _Shapes, _: dict[str, Any]) -> int:
    chosen = math.prod(shapes["indices"])  # each token goes to so many experts
    return 2 * chosen * (math.prod(shapes["gate_up"][1:]) + math.prod(shapes["down"][1:]))


# By op: the operands whose gradients are products as large as the forward's, and the forward's operations.
_COUNTS: dict[str, tuple[tuple[str, ...], Callable[[_Shapes, dict[str, Any]], int]]] = {
    "aten.linear": (("input", "weight"), _linear),
    "aten.mm": (("self", "mat2"), _product("self")),
    "aten.bmm": (("self", "mat2"), _product("self")),
    "aten.matmul": (("self", "other"), _product("self")),
    "aten.addmm": (("mat1", "mat2"), _product("mat1")),
    "aten.baddbmm": (("batch1", "batch2"), _product("batch1")),
    "aten.convolution": (("input", "weight"), _convolution),
    **{f"aten.conv{n}d{overload}": (("input", "weight"), _convolution)
       for n in (1, 2, 3) for overload in ("", ".padding")},
    "aten.conv_transpose1d": (("input", "weight"), _transposed_convolution),
    "aten.conv_transpose2d.input": (("input", "weight"), _transposed_convolution),
    "aten.conv_transpose3d.input": (("input", "weight"), _transposed_convolution),
    # Queries and keys share the forward's first product, values have the second: their gradients are one each.
    "aten.scaled_dot_product_attention": (("query", "value"), _attention),
    "meshwright.experts": (("hidden", "gate_up"), _experts),
}


def step_flops(plan: dict[str, Any]) -> Counter[str]:
    """By the type that they are computed in ("float32"): operations of a step of the global batch, over all devices."""
    graph = plan["graph"]
    values = graph["values"]
    counted: Counter[str] = Counter()
    for node in graph["nodes"]:
        known = _COUNTS.get(node["op"])
        if known is None:
            continue
        differentiated, count = known
        operands = {name: value for name, value in node["operands"]}
        _, dtype, shape, _ = values[node["results"][0]]
        shapes = {"result": shape, **{name: values[value][2] for name, value in operands.items()}}
        forward = count(shapes, node["attributes"])
        gradients = sum(bool(values[operands[name]][3]) for name in differentiated if name in operands)
        counted[dtype] += forward * (1 + gradients)
    return counted
