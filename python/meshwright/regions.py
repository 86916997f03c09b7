"""Parts of a forward that run without gradients: ``torch.no_grad()``, ``set_grad_enabled(False)``.

``torch.export`` keeps such a part as a graph of its own, and ``run_decompositions`` puts that in the place of its call,
where nothing says any more that no gradient goes through it. So what it reads is detached first.
"""

from __future__ import annotations

import torch


def detach_regions(program: torch.export.ExportedProgram) -> None:
    """In every part that runs without gradients, detach the floating-point tensors that it computes with.

    A tensor that passes through such a part and that nothing is computed of keeps its gradient, as in PyTorch.
    """
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.wrap_with_set_grad_enabled):
            enabled, region, *_ = node.args
            if not enabled:
                _detach_inputs(getattr(module, region.target))


def _detach_inputs(region: torch.fx.GraphModule) -> None:
    for node in region.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        users = [user for user in node.users if user.op != "output"]
        if not users or not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            continue
        last = list(region.graph.find_nodes(op="placeholder"))[-1]
        with region.graph.inserting_after(last):
            detached = region.graph.call_function(torch.ops.aten.detach.default, (node,))
        detached.meta["val"] = value.detach()
        node.replace_all_uses_with(detached, delete_user_cb=lambda user: user in users)
    region.recompile()
