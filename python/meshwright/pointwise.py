"""Which of a model's autograd functions are element-wise, forward and backward: they may run on shards.

Both are traced, without numbers. Each op of the trace must be one of PyTorch's element-wise ops on tensors of the one shape
that the function's tensors have, or on single numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

_ATEN = torch.ops.aten
# These have no tag, and keep elements where they are if they keep the shape.
_KEEPING = {_ATEN.detach.default, _ATEN.alias.default, _ATEN.clone.default, _ATEN.view.default, _ATEN._unsafe_view.default, _ATEN._to_copy.default,
            _ATEN.lift_fresh_copy.default, _ATEN.ones_like.default, _ATEN.zeros_like.default, _ATEN.full_like.default, _ATEN.scalar_tensor.default}


def is_pointwise(call: Callable[..., Any], given: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> bool:
    """Whether ``call`` is element-wise, of tensors like ``given`` to tensors like ``made``; False where it can't be seen."""
    shape = given[0].shape
    if len(shape) == 0 or any(one.shape != shape for one in (*given, *made)):
        return False

    def both(*tensors: torch.Tensor) -> list[torch.Tensor]:
        inputs = [one.detach().requires_grad_(one.is_floating_point()) for one in tensors[:len(given)]]
        results = call(*inputs)
        results = list(results) if isinstance(results, tuple) else [results]
        differentiable = [(one, cotangent) for one, cotangent in zip(results, tensors[len(given):]) if one.requires_grad]
        wanted = [one for one in inputs if one.requires_grad]
        gradients = torch.autograd.grad([one for one, _ in differentiable], wanted, [one for _, one in differentiable], allow_unused=True)
        return results + [one for one in gradients if one is not None]

    try:
        with FakeTensorMode(), torch.enable_grad():
            samples = [torch.empty(one.shape, dtype=one.dtype) for one in (*given, *made)]
            traced = make_fx(both)(*samples)
        return all(_keeps_elements(node, shape, traced) for node in traced.graph.nodes)
    except Exception:  # what can't be traced is not known
        return False


def _keeps_elements(node: torch.fx.Node, shape: torch.Size, traced: torch.fx.GraphModule) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    if node.op == "get_attr":
        return getattr(traced, node.target).numel() == 1
    tags = getattr(node.target, "tags", ())
    known = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
    value = node.meta.get("val")
    return (known or node.target in _KEEPING) and isinstance(value, torch.Tensor) and value.shape in (shape, torch.Size([]))
