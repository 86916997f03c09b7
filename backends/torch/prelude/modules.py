import torch
from torch import nn


class Parts(nn.Module):
    """A module with members of any name: `parts.name`, or `parts[0]` and `parts["a-b"]` where that is no attribute."""

    def __getitem__(self, name):
        return nn.Module.__getattr__(self, str(name))

    def __setitem__(self, name, member):
        kinds = {nn.Parameter: self._parameters, nn.Module: self._modules}
        held = next((held for kind, held in kinds.items() if isinstance(member, kind)), self._buffers)
        held[str(name)] = member


class Uncalled(Parts):
    """Parts of a module whose forward the program spells out where it computes with them."""

    def refuse_hook(self, *_, **__):
        raise RuntimeError("the program computes with the parameters of this module itself and never calls it, so this "
                           "hook would not run; put it on a parameter, on a block that has a forward, or on the model")

    register_forward_hook = register_forward_pre_hook = refuse_hook
    register_full_backward_hook = register_full_backward_pre_hook = refuse_hook


def parts(**members):
    """A module with these parameters, buffers and modules."""
    module = Uncalled()
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
