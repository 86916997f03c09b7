import torch
from torch import nn


class Parts(nn.Module):
    """A module that only holds others: `parts.name`, or `parts[0]` where the name is a number."""

    def __getitem__(self, number):
        return getattr(self, str(number))


def parts(**members):
    """A module with these parameters, buffers and modules."""
    module = Parts()
    for name, member in members.items():
        if isinstance(member, (nn.Module, nn.Parameter)):
            setattr(module, name, member)
        else:
            module.register_buffer(name, member)
    return module


def leave(buffer, value, training=True):
    """Leaves a value in a buffer in training mode; not again where a block is recomputed in the backward.

    Through `.data`, since autograd may have kept the buffer, whose old value it does not read.
    """
    if training and torch._C._current_graph_task_id() == -1:
        buffer.data.copy_(value.detach())
