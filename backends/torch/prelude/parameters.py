import torch
from torch import nn

from .mesh import device
from .moves import run


class Stored:
    """How a parameter is kept and computed with (see `parameter`)."""

    def __init__(self, stored, loaded, reduced, regather, prefetch):
        self.stored, self.loaded, self.reduced = stored, loaded, reduced
        self.regather, self.prefetch = regather, prefetch


class Use(torch.autograd.Function):
    """See used."""

    @staticmethod
    def forward(ctx, shard, plan):
        ctx.plan = plan
        return run([*plan.stored, *plan.loaded], shard) if plan.stored or plan.loaded else shard.view_as(shard)

    @staticmethod
    def backward(ctx, gradient):
        return run(ctx.plan.reduced, gradient), None


def parameter(layout, dtype=torch.float32, stored=(), loaded=(), reduced=(), regather=False, prefetch=False):
    """This rank's shard of a parameter, in the layout of what the optimizer keeps for it.

    stored    moves from the shard to what is kept from step to step
    loaded    moves from there to what is computed with, in each forward
    reduced   moves of the gradient of what is computed with, to the shard's layout
    regather  the loaded value is not kept for the backward but loaded again
    prefetch  it is loaded ahead of its use
    """
    made = nn.Parameter(empty(layout, dtype), requires_grad=dtype.is_floating_point)
    made.sharding = layout
    made.plan = Stored(tuple(stored), tuple(loaded), tuple(reduced), regather, prefetch)
    return made


def buffer(layout, dtype=torch.float32):
    """This rank's part of a buffer."""
    made = empty(layout, dtype)
    made.sharding = layout
    return made


def empty(layout, dtype):
    """Zeros for this rank's part of a tensor; on the meta device while that is the default, else where ranks compute."""
    place = torch.get_default_device()
    return torch.zeros(layout.local_shape(), dtype=dtype, device=place if place.type == "meta" else device())


def used(shard):
    """What is computed with, of a parameter; another tensor is what it is."""
    plan = getattr(shard, "plan", None)
    if plan is None or not (plan.stored or plan.loaded or plan.reduced):
        return shard
    return Use.apply(shard, plan)
