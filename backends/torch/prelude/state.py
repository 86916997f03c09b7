import torch
import torch.distributed as dist
from torch import nn

from .layout import whole_of
from .loads import begin_forward, regathering, travel_together
from .mesh import coordinates, device, start
from .modules import Parts
from .moves import waited
from .random import begin_step, generator_state
from .reductions import microbatches, step_in_backward
from .rows import empty_entry, empty_rows, rows_of, state_part, state_rows, whole_of_rows


class Planned(Parts):
    """A model of which each rank has its part: what does not depend on the plan.

    INPUTS and OUTPUTS name the arguments and the results of `forward`, with their layouts; TIED gives, for other names
    of a parameter, the name that it has here. `forward` computes one of a step's MICROBATCHES.
    """
    INPUTS = {}
    OUTPUTS = {}
    TIED = {}
    MICROBATCHES = 1
    DRAWS = False  # whether it draws random numbers

    def __init__(self):
        start()
        super().__init__()
        self._called = self._regathers = False
        self.register_state_dict_post_hook(put_rows)
        self.register_load_state_dict_pre_hook(take_parts)

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        if any(base.__name__ == "FSDPModule" for base in cls.__mro__):
            refuse_wrapping("fully_shard")

    @property
    def _ddp_params_and_buffers_to_ignore(self):  # DistributedDataParallel asks for it first
        refuse_wrapping("DistributedDataParallel")

    def _apply(self, function, recurse=True):
        """As nn.Module has it, for `to` and its like; buffers, which it makes anew, keep their layouts."""
        layouts = {name: buffer.sharding for name, buffer in self.named_buffers()}
        super()._apply(function, recurse)
        for name, buffer in self.named_buffers():
            buffer.sharding = layouts[name]
        return self

    def __deepcopy__(self, memo):
        raise TypeError("a model of shards can't be copied: copies of parameters don't know their layouts; make another model, and "
                        "let it load_state_dict(model.state_dict())")

    def __call__(self, *inputs, **named_inputs):
        if not self._called:
            self.begin_calls()
        if self.DRAWS:
            self.begin_draws()
        begin_forward(self._passes)
        if not self._regathers:
            return super().__call__(*inputs, **named_inputs)
        with regathering():
            outputs = super().__call__(*inputs, **named_inputs)
        for output in torch.utils._pytree.tree_leaves(outputs):
            if torch.is_tensor(output) and output.grad_fn is not None and not torch.compiler.is_compiling():
                output.register_hook(self._passes.begin_backward)
        return outputs

    def begin_draws(self):
        """Before a forward that draws random numbers."""
        begin_step()

    def begin_calls(self):
        """Before the first call: what parameters know of each other, and their names, for traces."""
        for name, shard in self.named_parameters():
            shard.storing.name = name
        self._passes = travel_together(self)
        self._regathers = any(shard.storing.regather for shard in self.parameters())
        self._called = True

    def named_shards(self):
        """By name the parameters and buffers that a state dict has."""
        return {f"{path}.{name}".lstrip("."): tensor for path, module in self.named_modules()
                for name, tensor in (*module._parameters.items(), *module._buffers.items())
                if tensor is not None and name not in module._non_persistent_buffers_set}

    def local_batch(self, inputs):
        """This rank's parts of whole inputs: a tuple in the order of INPUTS, or a dict."""
        if isinstance(inputs, dict):
            return {name: self.local_input(name, x) for name, x in inputs.items()}
        return tuple(self.local_input(name, x) for name, x in zip(self.INPUTS, inputs, strict=True))

    def local_input(self, name, whole):
        """This rank's part of an input."""
        if name not in self.INPUTS:
            raise ValueError(f"the model has no input {name}; its inputs are {', '.join(self.INPUTS)}")
        layout = self.INPUTS[name]
        if tuple(whole.shape) != layout.shape:
            raise ValueError(f"the input {name} is {tuple(whole.shape)}, but the plan was made for {layout.shape}")
        return layout.cut(whole).to(device())

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
        for name, shard in self.named_shards().items():
            given = next((other for other in self.names_of(name) if other in state_dict), None)
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

    def names_of(self, name):
        """The name that a tensor has here, and its others."""
        return [name] + [other for other, own in self.TIED.items() if own == name]

    def set_shard(self, name, whole):
        """Puts this rank's part of a whole tensor where the name says; makes what a meta tensor stands for."""
        path, _, last = name.rpartition(".")
        module = self.get_submodule(path)
        shard = module._parameters[last] if last in module._parameters else module._buffers[last]
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

    @torch.no_grad()
    def draw_weights(self, seed=0):
        """Random weights, the same on any number of ranks: normal with a deviation of 0.02; scales are 1, biases 0."""
        for number, (name, shard) in enumerate(self.named_parameters()):
            self.draw_weight(name, shard, seed + number)

    def draw_weight(self, name, shard, seed):
        """Random weights of one parameter."""
        whole = torch.zeros(shard.sharding.shape, dtype=shard.dtype, device="cpu")
        if whole.dim() > 1:
            whole.normal_(std=0.02, generator=torch.Generator().manual_seed(seed))
        elif name.endswith("weight"):
            whole.fill_(1)
        self.set_shard(name, whole)

    def whole_state_dict(self):
        """The state dict of the model on one device, on every rank, in its memory; tensors are gathered one by one."""
        whole = {name: whole_of(shard.detach(), shard.sharding).cpu() for name, shard in self.named_shards().items()}
        whole.update({name: whole[own] for name, own in self.TIED.items()})
        return whole

    def microbatches(self):
        """The numbers of a step's microbatches: the plan adds up their gradients, which are in .grad behind the last one.

            for part in model.microbatches():
                (model(*inputs[part]) / model.MICROBATCHES).backward()
        """
        return microbatches(self.MICROBATCHES)

    def step_in_backward(self, optimizer):
        """See the function of this name. Gradients are gone when `backward` returns: they can't be added up or clipped."""
        step_in_backward(optimizer)

    def counted_gradients(self):
        """Those that count in the norm of all."""
        return [p.grad for p in self.parameters() if p.grad is not None]

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm):
        """Scales the gradients so that their norm, over all ranks, is at most max_norm; gives the norm before that."""
        gradients = [(p.grad, p.sharding) for p in self.parameters() if p.grad is not None]
        counted = {id(gradient) for gradient in self.counted_gradients()}
        double = any(gradient.dtype == torch.float64 for gradient, _ in gradients)
        total = torch.zeros((), dtype=torch.float64 if double else torch.float32, device=device())
        for gradient, layout in gradients:
            # Of ranks with the same part the first one counts it.
            if id(gradient) in counted and all(here == 0 for here, place in zip(coordinates(sizes=layout.mesh), layout.axes) if place is None):
                total += torch.linalg.vector_norm(gradient, dtype=total.dtype) ** 2
        norm = waited(torch.ops._c10d_functional.all_reduce(total, "sum", dist.group.WORLD.group_name)).sqrt()
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for gradient, _ in gradients:
            gradient.mul_(scale.to(gradient.dtype))
        return norm

    def checkpoint_state_dict(self, optimizer=None):
        """The state of the model, and of an optimizer, for torch.distributed.checkpoint: whole tensors in rows.

        Any layout on any number of ranks loads what another one saved, and dcp_to_torch_save makes a plain file of it.
        """
        state = {"model": self.state_dict(), "random_state": generator_state()}
        if optimizer is not None:
            entries = {}
            for name, shard in self.named_parameters():
                entries[name] = {key: state_rows(name, key, value, shard)
                              for key, value in optimizer.state.get(shard, {}).items()}
            state["optimizer"] = {"state": entries, "param_groups": self.named_groups(optimizer)}
        return state

    def named_groups(self, optimizer):
        """The optimizer's groups with names in place of parameters."""
        names = {shard: name for name, shard in self.named_parameters()}
        return [{**each, "params": [names[shard] for shard in each["params"]]} for each in optimizer.param_groups]

    @torch.no_grad()
    def load_checkpoint_state_dict(self, state, optimizer=None):
        """Takes each rank's part of what checkpoint_state_dict() gave, there or elsewhere."""
        for name in self.named_shards():
            self.set_shard(name, whole_of_rows(state["model"][name]))
        torch.set_rng_state(state["random_state"])
        if optimizer is not None:
            self.load_optimizer(optimizer, state["optimizer"])

    def load_optimizer(self, optimizer, saved):
        """Takes each rank's part of an optimizer's state, under any name of each parameter."""
        names = {shard: name for name, shard in self.named_parameters()}
        shards = [shard for each in optimizer.param_groups for shard in each["params"]]
        found = {}
        for i, shard in enumerate(shards):
            entries = next(filter(None, map(saved["state"].get, self.names_of(names[shard]))), {})
            found[i] = {key: state_part(value, shard) for key, value in entries.items()}
        groups, first = [], 0
        for each, settings in zip(optimizer.param_groups, saved["param_groups"], strict=True):
            groups.append({**settings, "params": [*range(first, first + len(each["params"]))]})
            first += len(each["params"])
        optimizer.load_state_dict({"state": found, "param_groups": groups})

    def save_checkpoint(self, path, optimizer=None):
        """Writes a folder from which any other layout of the model can go on."""
        import torch.distributed.checkpoint as dcp

        dcp.save(self.checkpoint_state_dict(optimizer), checkpoint_id=path)

    def load_checkpoint(self, path, optimizer=None):
        """Reads what save_checkpoint wrote; a model on the meta device comes to be by it."""
        import torch.distributed.checkpoint as dcp

        saved = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
        model = {name: empty_rows(shard.sharding.shape, shard.dtype) for name, shard in self.named_shards().items()}
        state = {"model": model, "random_state": torch.get_rng_state()}
        if optimizer is not None:
            entries = {}
            for own, _ in self.named_parameters():
                for name in self.names_of(own):
                    prefix = f"optimizer.state.{name}."
                    entries[name] = {key.removeprefix(prefix): empty_entry(entry)
                                     for key, entry in saved.items() if key.startswith(prefix)}
            state["optimizer"] = {"state": entries, "param_groups": self.named_groups(optimizer)}
        dcp.load(state, checkpoint_id=path)
        self.load_checkpoint_state_dict(state, optimizer)


def refuse_wrapping(name):
    """Says why a sharded model can't be wrapped once more."""
    raise TypeError(f"{name} takes each rank's shards for whole parameters and mixes them up; train the sharded model as it is: its "
                    "backward reduces the gradients")


def put_rows(model, state, prefix, *_):
    """Makes a state dict one for torch.distributed.checkpoint, as checkpoint_state_dict has it. All ranks call state_dict()."""
    for name, shard in model.named_shards().items():
        state[prefix + name] = (empty_rows(shard.sharding.shape, shard.dtype) if shard.is_meta else
                                rows_of(shard.detach(), shard.sharding))
    state.update({prefix + other: state[prefix + own] for other, own in model.TIED.items()})


@torch.no_grad()
def take_parts(model, state, prefix, *_):
    """Makes of a state dict of whole tensors, in rows or not, one of this rank's parts."""
    for name, shard in model.named_shards().items():
        given = [state.pop(prefix + other) for other in model.names_of(name) if prefix + other in state]
        if given:
            whole = whole_of_rows(given[0])
            fits = tuple(whole.shape) == shard.sharding.shape  # else nn.Module says what does not
            if fits and shard.is_meta:
                model.set_shard(name, whole)
            state[prefix + name] = shard.sharding.cut(whole) if fits else whole
