import atexit
import contextlib
import importlib
import itertools
import math

import torch
import torch.distributed as dist
from torch import nn

from .layout import whole_of
from .loads import computed_dtype
from .mesh import MESHES, axes, device, forget_meshes, join, on_mesh, refuse
from .moves import numbers, waited
from .parameters import autograd_leaf
from .random import RANDOM
from .reductions import STEP, SUMS, Reductions
from .schedule import Running, RunningStage, schedule_of
from .state import Planned

STAGES = ((),)  # the axes of each stage's mesh; an emitted pipeline has its own

GROUPS = ((0,),)  # the stages of each group of ranks

GROUP = 0  # that of this rank


def start_stages():
    """Joins the other ranks, unless that was done before, and makes the process groups: of the ranks at one place of all groups, of each group of
    ranks, and of some axes of its meshes. All ranks make all of them: who makes another number of groups than the others can make none with them any
    more.
    """
    count = math.prod(axes())
    if not dist.is_initialized():
        join(count * len(GROUPS))
    if dist.get_world_size() != count * len(GROUPS):
        refuse(count * len(GROUPS), f"{len(STAGES)} stages on {len(GROUPS)} groups of {count}")
    if "stage" in MESHES:
        return
    if not MESHES:
        atexit.register(forget_meshes)
    ranks = torch.arange(count * len(GROUPS), device="cpu").view(len(GROUPS), count)
    MESHES["places"] = row_group(ranks.t())
    MESHES["stage"] = row_group(ranks)
    for group, stages in enumerate(GROUPS):
        for sizes in dict.fromkeys(STAGES[stage] for stage in stages):
            make_mesh(ranks[group].view(sizes or (1,)), sizes, group == GROUP)


def make_mesh(ranks, sizes, is_here):
    """The process groups of a mesh of some axes, and the mesh itself on its own ranks."""
    made = {over: row_group(rows_over(ranks, over)) for over in some_axes(len(sizes))}
    if is_here:
        MESHES.update({(sizes, over): group for over, group in made.items() if len(over) > 1})
        names = tuple(f"axis{axis}" for axis in range(ranks.dim()))
        groups = [made[axis,] for axis in range(len(sizes))] if len(sizes) > 1 else MESHES["stage"]
        MESHES[sizes] = dist.device_mesh.DeviceMesh.from_group(groups, device().type, mesh=ranks, mesh_dim_names=names)


def some_axes(count):
    """Of so many axes one or several, but not all."""
    return [over for size in range(1, count) for over in itertools.combinations(range(count), size)]


def rows_over(mesh, over):
    """The ranks of a mesh in rows of those that differ along these axes only."""
    last = mesh.movedim(over, tuple(range(-len(over), 0)))
    return last.reshape(-1, math.prod(mesh.shape[axis] for axis in over))


def row_group(rows):
    """The process group of the row that this rank is in; None if it is in none."""
    return dist.new_subgroups_by_enumeration(rows.tolist())[0]


def group_of(stage):
    """The group of ranks that has a stage."""
    return next(group for group, stages in enumerate(GROUPS) if stage in stages)


def models_here():
    """The classes of the models of this rank's stages: each in the file of its stage, whose layouts are on the stage's mesh."""
    found = []
    for stage in GROUPS[GROUP]:
        with on_mesh(STAGES[stage]):
            found.append(importlib.import_module(f"stage_{stage}").Model)
    return tuple(found)


def made_of(kind):
    """A stage's model, whose layouts are on the stage's mesh."""
    with on_mesh(STAGES[kind.STAGE]):
        return kind()


def sent(x):
    """x as the next stage receives it: its elements in a row, and never what was itself received, which has no way back."""
    return x.view_as(x) if x.is_contiguous() else x.contiguous()


class Stage(Planned):
    """The part of a model that one stage of a pipeline computes, of which each rank of the stage has its part.

    STAGE     its number
    RECEIVED  names of what comes from the stage before, as arguments of `forward` before the inputs, with the shape and dtype of a rank's part
    SENT      of what `forward` returns for the next stage, likewise
    """
    STAGE = 0
    RECEIVED = {}
    SENT = {}

    def __init__(self):
        super().__init__()
        self.sums = {}  # SUMS, while other stages compute

    def begin_draws(self):
        """`Staged` did it."""

    def here(self):
        """A context for what is computed: on the mesh of this stage."""
        return on_mesh(STAGES[self.STAGE])

    def compute(self, received, inputs, drawn):
        """The forward of one microbatch, whose random numbers depend on what was drawn."""
        RANDOM["step"] = drawn
        with self.here():
            return self(*received, *inputs)

    @contextlib.contextmanager
    def backward(self, microbatch, microbatches):
        """A context for the backward of a microbatch, which adds up gradients of this stage alone."""
        SUMS.update(self.sums)
        STEP.update(microbatch=microbatch, microbatches=microbatches)
        try:
            with self.here():
                yield
        finally:
            STEP.update(microbatch=0, microbatches=1)
            self.sums = dict(SUMS)
            SUMS.clear()

    def take_leaf_gradients(self):
        """Sends what a runtime has left in the leaves of parameters on its way: it computes gradients of leaves without autograd's hooks."""
        found = Reductions()
        for shard in self.parameters():
            leaf = autograd_leaf(shard)
            if leaf is shard or leaf.grad is None:
                continue
            gradient, leaf.grad = leaf.grad, None
            if not shard.storing.loaded:  # else it was the token's
                found.begin(shard, gradient, own=True)
        found.end()

    def holds(self, name):
        """Whether a tensor of this name is here."""
        path, _, last = name.rpartition(".")
        try:
            module = self.get_submodule(path)
        except AttributeError:
            return False
        return last in module._parameters or last in module._buffers


class Staged(Planned):
    """What a rank has of a model in stages of a pipeline: its parts of one stage, or of several.

    The stages take a step together: `step`, forwards and backwards of all microbatches, run by torch.distributed.pipelining. All else is as of a
    Planned model: parameters, their optimizer and checkpoints are those of the rank's stages, whole state dicts, norms and losses those of the model.
    A parameter with which several stages compute is in each of them, by the same name, on one rank too.

    MODELS        the classes of this rank's stages
    SCHEDULE      of torch.distributed.pipelining, by its name; or by group of ranks what it runs, as in a row of its CSV files
    MODEL_INPUTS  names of all inputs
    SHARED        by name of a parameter that several stages compute with, these stages, and whether ranks at one place have the same part of it
    """
    MODELS = ()
    SCHEDULE = "Schedule1F1B"
    MODEL_INPUTS = ()
    SHARED = {}

    def __init__(self):
        start_stages()
        super().__init__()
        self.stages = tuple(map(made_of, self.MODELS))  # no children by name: what they have is the model's, by its names there
        self._pipelines = {}  # by dtype of the parameters: the schedule that runs
        self._draws = [None] * self.MICROBATCHES
        self._planned_dtype = self.parameter_dtype()

    def __call__(self, *_, **__):
        raise TypeError("the stages of a pipeline compute together; call model.step(...), or model.evaluate(...) for a forward alone")

    # --- a step ---

    def step(self, parts):
        """The gradients of a step, given its microbatches as `local_batch` cuts them. Returns the loss, the mean of theirs, on every rank."""
        for stage in self.stages:
            stage.sums.clear()  # of a step that was left
        before = self.take_gradients()
        losses = self.run(parts, self.pipeline().step, return_outputs=False)
        self.exchange_gradients(before)
        return self.mean_of(losses)

    @torch.no_grad()
    def evaluate(self, parts):
        """The mean of the losses of microbatches, without gradients, on every rank."""
        return self.mean_of(self.run(parts, self.pipeline().eval, return_outputs=False))

    def run(self, parts, schedule, **settings):
        """Lets the schedule run; gives what the losses of the microbatches add to their mean, where the last stage is."""
        if len(parts) != self.MICROBATCHES:
            raise ValueError(f"a step has {self.MICROBATCHES} microbatches, not {len(parts)}")
        self.draw()
        inputs = [{"inputs": part, "drawn": drawn} for part, drawn in zip(parts, self._draws)]
        losses, has_last = [], len(STAGES) - 1 in GROUPS[GROUP]
        last = {"target_mbs": [None] * len(parts), "losses": losses} if has_last else {}
        schedule(arg_mbs=[()] * len(parts), kwarg_mbs=inputs, **last, **settings)
        return losses

    def draw(self):
        """Draws what the random numbers of the microbatches depend on, with rank 0's generator, as their forwards would one after the other."""
        if any(stage.DRAWS for stage in self.stages):
            drawn = torch.stack([torch.randint(1 << 62, (), device="cpu") for _ in self._draws]).to(device())
            self._draws = [*waited(torch.ops._c10d_functional.broadcast(drawn, 0, dist.group.WORLD.group_name))]

    def mean_of(self, losses):
        """The sum of what the ranks with the last stage have, on every rank."""
        total = torch.zeros((), dtype=torch.float64, device=device())
        for loss in losses:
            total += loss.detach()
        dist.broadcast(total, group=MESHES["places"], group_src=group_of(len(STAGES) - 1))
        return total

    def microbatches(self):
        raise TypeError("the stages of a pipeline compute a step's microbatches together: model.step([model.local_batch(...) of each])")

    # --- the schedule ---

    def pipeline(self):
        """The schedule of torch.distributed.pipelining that runs this rank's stages."""
        dtype = self.parameter_dtype()
        if dtype not in self._pipelines:
            self._pipelines[dtype] = schedule_of(self.SCHEDULE, [self.running(stage) for stage in self.stages], self.MICROBATCHES)
        return self._pipelines[dtype]

    def running(self, stage):
        """A stage for torch.distributed.pipelining."""
        received, sends = ([self.example(*each) for each in ends.values()] for ends in (stage.RECEIVED, stage.SENT))
        outputs = sends or [self.example((), self.parameter_dtype())]
        made = RunningStage(Running(stage), stage.STAGE, len(STAGES), device(), tuple(received), tuple(outputs), group=MESHES["places"])
        made.chunks = self.MICROBATCHES
        return made

    def example(self, shape, dtype):
        """A tensor like one that is sent: where the parameters' dtype is another one than planned, so is its."""
        dtype = self.parameter_dtype() if dtype == self._planned_dtype else dtype
        return torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)

    def parameter_dtype(self):
        """The dtype in which the first parameter is computed with."""
        return next((computed_dtype(shard) for shard in self.parameters() if shard.is_floating_point()), torch.float32)

    # --- parameters of several stages ---

    def shared_here(self):
        """Of the parameters that several stages share, by name, in one order for all ranks: the shards of this rank's stages, by stage."""
        found = {}
        for name, (stages, _) in self.SHARED.items():
            shards = {stage.STAGE: stage.get_parameter(name) for stage in self.stages if stage.STAGE in stages}
            if any(shard.requires_grad for shard in shards.values()):
                found[name] = shards
        return found

    def take_gradients(self):
        """Puts the gradients of earlier steps aside, where those of this one are still to be added up over the stages."""
        before = {}
        for shards in self.shared_here().values():
            for shard in shards.values():
                before[shard], shard.grad = shard.grad, None
        return before

    @torch.no_grad()
    def exchange_gradients(self, before):
        """Adds up the gradients of shared parameters, in the order of the stages, for all of them."""
        for name, shards in self.shared_here().items():
            stages, alike = self.SHARED[name]
            parts = {}
            for stage, shard in shards.items():
                gradient = torch.zeros_like(shard) if shard.grad is None else shard.grad
                parts[stage] = (gradient if alike else whole_of(gradient, shard.sharding)).contiguous()
            total = sum_of_stages(parts, stages)
            for shard in shards.values():
                gradient = total.clone() if alike else shard.sharding.cut(total)
                shard.grad = gradient if before[shard] is None else before[shard].add_(gradient)

    def counted_gradients(self):
        shared = {id(shard) for name, shards in self.shared_here().items() for stage, shard in shards.items() if stage != self.SHARED[name][0][0]}
        return [shard.grad for shard in self.parameters() if shard.grad is not None and id(shard) not in shared]

    def step_in_backward(self, optimizer):
        """As of a Planned model, where no stage shares parameters with others, whose gradients meet behind the backward."""
        if self.SHARED:
            raise ValueError(f"the stages share parameters ({', '.join(self.SHARED)}), whose gradients are added up behind the backward; call "
                             "optimizer.step()")
        super().step_in_backward(optimizer)

    # --- what the stages have, as one module ---

    def named_children(self):
        """The stages: what goes through a module, such as `train` and `to`, goes through them."""
        for stage in self.stages:
            yield f"stage_{stage.STAGE}", stage

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """This one, and the modules of the stages, by the names that the model has for them."""
        yield prefix, self
        for stage in self.stages:
            yield from stage.named_modules(memo, prefix, remove_duplicate)

    def __getattr__(self, name):
        """A member of the first stage that has one of this name."""
        for stage in self.__dict__.get("stages", ()):
            if hasattr(stage, name):
                return getattr(stage, name)
        return super().__getattr__(name)

    def __repr__(self):
        return "\n".join(map(repr, self.stages))

    def _apply(self, function, recurse=True):
        """As nn.Module has it; of layouts each stage takes care."""
        return nn.Module._apply(self, function, recurse)

    @property
    def TIED(self):
        return {other: own for stage in self.stages for other, own in stage.TIED.items()}

    def set_shard(self, name, whole):
        for stage in self.stages:
            if stage.holds(name):
                stage.set_shard(name, whole)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """As nn.Module has it: each stage takes what it has of it."""
        missing, known = [], set()
        for stage in self.stages:
            own = {*stage.named_shards(), *stage.TIED}
            known |= own
            missing += stage.load_state_dict({name: value for name, value in state_dict.items() if name in own}, strict, assign).missing_keys
        unexpected = [name for name in state_dict if name not in known]
        if strict and unexpected:
            raise RuntimeError(f"the state dict has what no stage of this rank has: {', '.join(unexpected)}")
        return nn.modules.module._IncompatibleKeys(missing, unexpected)

    # --- the whole model ---

    def local_batch(self, inputs):
        """This rank's parts of what its stages need of a whole microbatch, which is a dict or a tuple in the order of MODEL_INPUTS: by stage, in the
        order of its INPUTS.
        """
        named = inputs if isinstance(inputs, dict) else dict(zip(self.MODEL_INPUTS, inputs, strict=True))
        for name in named:
            if name not in self.MODEL_INPUTS:
                raise ValueError(f"the model has no input {name}; its inputs are {', '.join(self.MODEL_INPUTS)}")
        return {stage.STAGE: tuple(stage.local_input(name, named[name]) for name in stage.INPUTS) for stage in self.stages}

    def of_all_groups(self, value):
        """By group what each rank at this place gives. All ranks call it."""
        values = [None] * len(GROUPS)
        dist.all_gather_object(values, value, group=MESHES["places"])
        return values

    def whole_state_dict(self):
        """The state dict of the model on one device, on every rank, in its memory; tensors are gathered one by one."""
        own, whole = super().whole_state_dict(), {}
        for group, entries in enumerate(self.of_all_groups([(name, value.shape, value.dtype) for name, value in own.items()])):
            for name, shape, dtype in entries:
                value = own[name].to(device()) if group == GROUP else torch.empty(shape, dtype=dtype, device=device())
                dist.broadcast(numbers(value), group=MESHES["places"], group_src=group)
                whole[name] = value.cpu()
        return whole

    def load_whole(self, state_dict, strict=True):
        """As of a Planned model: each stage takes what it has of the state dict of the whole model."""
        own = {*self.named_shards(), *self.TIED}
        known = {name for names in self.of_all_groups(own) for name in names}
        super().load_whole({name: value for name, value in state_dict.items() if name in own or name not in known}, strict)

    @torch.no_grad()
    def draw_weights(self, seed=0):
        """As of a Planned model, the same for a parameter in all stages that have it."""
        own = dict(self.named_parameters())
        known = dict.fromkeys(name for names in self.of_all_groups([*own]) for name in names)
        for number, name in enumerate(known):
            if name in own:
                self.draw_weight(name, own[name], seed + number)


def sum_of_stages(parts, stages):
    """The sum of what the ranks at this place have in these stages, on all of them; `parts` are those of this rank, by stage. The group that has the
    first stage adds up, in the order of the stages.
    """
    places, first = MESHES["places"], group_of(stages[0])
    like = next(iter(parts.values()))

    def received(group):
        x = torch.empty_like(like)
        dist.recv(x, group=places, group_src=group)
        return x

    if GROUP != first:
        for part in parts.values():
            dist.send(part, group=places, group_dst=first)
        return received(first)
    total = parts[stages[0]]
    for stage in stages[1:]:
        total = total + (parts[stage] if stage in parts else received(group_of(stage)))
    for group in sorted({group_of(stage) for stage in stages} - {first}):
        dist.send(total, group=places, group_dst=group)
    return total
