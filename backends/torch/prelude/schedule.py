import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.distributed import pipelining

from .parameters import autograd_leaf


class Received(torch.autograd.Function):
    """What was received; its gradient goes back with its elements in a row."""

    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous()


class Behind(torch.autograd.Function):
    """x, behind what a stage received, whether it was made of that or not. A backward in two parts finds gradients of parameters where their ways
    branch off from ways to what was received; and it cuts x off from what it was made of, which can't be done to a view.
    """

    @staticmethod
    def forward(ctx, x, received):
        return x.detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Running(nn.Module):
    """A stage as torch.distributed.pipelining calls it."""

    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, *received, inputs, drawn):
        made = self.stage.compute(tuple(map(Received.apply, received)), inputs[self.stage.STAGE], drawn)
        if not received:
            return made
        return tuple(Behind.apply(x, received[0]) for x in made) if isinstance(made, tuple) else Behind.apply(made, received[0])

    def parameters(self, recurse=True):
        """What autograd knows the parameters as, whose gradients a backward in two parts computes."""
        return (autograd_leaf(shard) for shard in self.stage.parameters() if shard.requires_grad)


class RunningStage(pipelining.PipelineStage):
    """One that tells whose turn a backward is: gradients of microbatches add up, and those of the last one are reduced."""

    def clear_runtime_states(self):
        super().clear_runtime_states()
        self.turns = 0

    def backward_one_chunk(self, *arguments, full_backward=True, **named):
        with self.submod.stage.backward(self.take_turn() if full_backward else self.turns, self.chunks):
            super().backward_one_chunk(*arguments, full_backward=full_backward, **named)

    def backward_weight_one_chunk(self, *arguments, **named):
        """The second part of a backward, in which all gradients of parameters are made."""
        with self.submod.stage.backward(self.take_turn(), self.chunks):
            super().backward_weight_one_chunk(*arguments, **named)
            self.submod.stage.take_leaf_gradients()

    def take_turn(self):
        self.turns += 1
        return self.turns - 1

    # Between stages of one rank gradients are handed over, and the runtime does so in a forward alone too, in which there are none.

    def get_local_bwd_output(self, microbatch):
        return super().get_local_bwd_output(microbatch) if self.has_backward else ()

    def set_local_bwd_input(self, gradients, microbatch):
        if self.has_backward:
            super().set_local_bwd_input(gradients, microbatch)


def schedule_of(schedule, stages, microbatches):
    """A schedule of torch.distributed.pipelining for this rank's stages, of a model that returns its loss."""
    settings = {"n_microbatches": microbatches, "loss_fn": lambda loss, _: loss / microbatches, "scale_grads": False}
    if isinstance(schedule, str):
        return getattr(pipelining, schedule)(*stages, **settings)
    made = pipelining.schedules._PipelineScheduleRuntime(stages, **settings)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "schedule.csv"
        rows.write_text("\n".join(schedule) + "\n")
        made._load_csv(str(rows))
    return made
