import torch
import torch.distributed as dist
from torch import nn

from .layout import whole_of
from .mesh import axes, coordinates, device, start
from .moves import waited


class Planned(nn.Module):
    """A model of which each rank has its part: what does not depend on the plan.

    INPUTS and OUTPUTS name the arguments and the results of `forward`, with their layouts; TIED gives, for other names
    of a parameter, the name that it has here.
    """
    INPUTS = {}
    OUTPUTS = {}
    TIED = {}

    def __init__(self):
        start()
        super().__init__()

    def shards(self):
        """By name the parameters and buffers that a state dict has."""
        return self.state_dict(keep_vars=True)

    def local_batch(self, inputs):
        """This rank's parts of whole inputs: a tuple in the order of INPUTS, or a dict."""
        if isinstance(inputs, dict):
            return {name: layout.cut(inputs[name]).to(device()) for name, layout in self.INPUTS.items() if name in inputs}
        return tuple(layout.cut(x).to(device()) for layout, x in zip(self.INPUTS.values(), inputs))

    def gather_output(self, name, local):
        """The whole of what `forward` returned under this name, on every rank."""
        return whole_of(local, self.OUTPUTS[name])

    @torch.no_grad()
    def load_whole(self, state_dict, strict=True):
        """Takes each rank's part of the state dict of the model on one device.

        Raises ValueError that names what is missing, not known or of another shape; not `strict`, it leaves out what is
        missing or not known.
        """
        found, problems, known = {}, [], set(self.TIED)
        for name, shard in self.shards().items():
            names = [name] + [other for other, own in self.TIED.items() if own == name]
            given = next((other for other in names if other in state_dict), None)
            known.add(name)
            if given is None:
                problems += [f"missing {name}"] if strict else []
            elif tuple(state_dict[given].shape) != shard.sharding.shape:
                problems.append(f"{given} is {tuple(state_dict[given].shape)}, not {shard.sharding.shape}")
            else:
                found[name] = state_dict[given]
        problems += [f"not known {name}" for name in state_dict if strict and name not in known]
        if problems:
            raise ValueError("the state dict does not fit the model: " + "; ".join(problems))
        for name, whole in found.items():
            self.set_shard(name, whole)

    def set_shard(self, name, whole):
        """Puts this rank's part of a whole tensor where the name says; makes what a meta tensor stands for."""
        path, _, last = name.rpartition(".")
        module = self.get_submodule(path)
        shard = getattr(module, last)
        part = shard.sharding.cut(whole)
        if shard.is_meta:
            made = part.to(device(), shard.dtype)
            made = nn.Parameter(made, shard.requires_grad) if isinstance(shard, nn.Parameter) else made
            made.__dict__.update(shard.__dict__)
            for owner in self.modules():
                for held in (owner._parameters, owner._buffers):
                    held.update({key: made for key, value in held.items() if value is shard})
        else:
            shard.copy_(part)

    def whole_state_dict(self):
        """The state dict of the model on one device, on every rank, in its memory; tensors are gathered one by one."""
        whole = {name: whole_of(shard.detach(), shard.sharding).cpu() for name, shard in self.shards().items()}
        whole.update({name: whole[own] for name, own in self.TIED.items()})
        return whole

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm):
        """Scales the gradients so that their norm, over all ranks, is at most max_norm; gives the norm before that."""
        gradients = [(p.grad, p.sharding) for p in self.parameters() if p.grad is not None]
        total = torch.zeros((), dtype=torch.float64 if any(g.dtype == torch.float64 for g, _ in gradients) else torch.float32,
                            device=device())
        for gradient, layout in gradients:
            # Of ranks with the same part the first one counts it.
            if all(here == 0 for here, place in zip(coordinates(), layout.axes) if place is None):
                total += torch.linalg.vector_norm(gradient, dtype=total.dtype) ** 2
        norm = waited(torch.ops._c10d_functional.all_reduce(total, "sum", dist.group.WORLD.group_name)).sqrt()
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for gradient, _ in gradients:
            gradient.mul_(scale.to(gradient.dtype))
        return norm
