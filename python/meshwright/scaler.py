"""The scaling of a loss for training in float16, where the gradients are shards."""

from __future__ import annotations

import torch
import torch.distributed as dist


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler`` for a sharded model: where any rank finds an infinite gradient, all of them leave out the step.

    With PyTorch's own, only those ranks would whose shards have it, and the weights would no longer fit together.
    """

    def _unscale_grads_(self, optimizer: torch.optim.Optimizer, inv_scale: torch.Tensor, found_inf: torch.Tensor,
                        allow_fp16: bool) -> dict[torch.device, torch.Tensor]:
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        for infinite in found.values():
            dist.all_reduce(infinite, dist.ReduceOp.MAX)
        return found
