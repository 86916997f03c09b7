import atexit
import itertools
import math
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

from .layout import whole_of
from .loads import computed_dtype
from .mesh import MESHES, axes, device, forget_meshes, join, refuse
from .moves import numbers, waited
from .random import RANDOM
from .reductions import STEP, SUMS
from .state import Planned

STAGES = ((),)  # the axes of each stage's mesh; an emitted pipeline has its own

STAGE = 0  # that of this rank


def start_stages():
    """Joins the other ranks, unless that was done before, and makes the process groups: of the ranks at one place of all stages, of each stage, and
    of some axes of its mesh. All ranks make all of them: who makes another number of groups than the others can make none with them any more.
    """
    count = math.prod(axes())
    if not dist.is_initialized():
        join(count * len(STAGES))
    if dist.get_world_size() != count * len(STAGES):
        refuse(count * len(STAGES), f"{len(STAGES)} stages of {count}")
    if "stage" in MESHES:
        return
    if not MESHES:
        atexit.register(forget_meshes)
    ranks = torch.arange(count * len(STAGES), device="cpu").view(len(STAGES), count)
    MESHES["places"] = row_group(ranks.t())
    MESHES["stage"] = row_group(ranks)
    for stage, sizes in enumerate(STAGES):
        mesh = ranks[stage].view(sizes or (1,))
        made = {over: row_group(rows_over(mesh, over)) for over in some_axes(len(sizes))}
        if stage == STAGE:
            MESHES.update({(sizes, over): group for over, group in made.items() if len(over) > 1})
            names = tuple(f"axis{axis}" for axis in range(mesh.dim()))
            groups = [made[axis,] for axis in range(len(sizes))] if len(sizes) > 1 else MESHES["stage"]
            MESHES[sizes] = dist.device_mesh.DeviceMesh.from_group(groups, device().type, mesh=mesh, mesh_dim_names=names)


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


def sent(x):
    """x as the next stage receives it: its elements in a row, and never what was itself received, which has no way back."""
    return x.view_as(x) if x.is_contiguous() else x.contiguous()


class Staged(Planned):
    """The part of a model that one stage of a pipeline computes, of which each rank of the stage has its part.

    Its stages take a step together: `step`, forwards and backwards of all microbatches, run by torch.distributed.pipelining. All else is as of a
    Planned model: parameters, their optimizer and checkpoints are those of the stage, whole state dicts, norms and losses those of the model.

    SCHEDULE      of torch.distributed.pipelining, by its name; or by stage what it runs, as in a row of its CSV files
    MODEL_INPUTS  names of all inputs; INPUTS are those of this stage
    RECEIVED      names of what comes from the stage before, as arguments of `forward` before the inputs, with the shape and dtype of a rank's part
    SENT          of what `forward` returns for the next stage, likewise
    SHARED        by name of a parameter that several stages compute with, these stages, and whether ranks at one place have the same part of it
    """
    SCHEDULE = "Schedule1F1B"
    MODEL_INPUTS = ()
    RECEIVED = {}
    SENT = {}
    SHARED = {}

    def __init__(self):
        start_stages()
        super().__init__()
        self._pipelines = {}  # by dtype of the parameters: the schedule that runs
        self._draws = [None] * self.MICROBATCHES
        self._planned_dtype = self.parameter_dtype()

    def __call__(self, *_, **__):
        raise TypeError("the stages of a pipeline compute together; call model.step(...), or model.evaluate(...) for a forward alone")

    # --- a step ---

    def step(self, parts):
        """The gradients of a step, given its microbatches as `local_batch` cuts them. Returns the loss, which is the mean of theirs, on every rank."""
        SUMS.clear()  # of a step that was left
        before = self.take_gradients()
        losses = self.run(parts, self.pipeline().step, return_outputs=False)
        self.exchange_gradients(before)
        return self.mean_of(losses)

    @torch.no_grad()
    def evaluate(self, parts):
        """The mean of the losses of microbatches, without gradients, on every rank."""
        return self.mean_of(self.run(parts, self.pipeline().eval, return_outputs=False))

    def run(self, parts, schedule, **settings):
        """Lets the schedule run; gives what the losses of the microbatches add to their mean, in the last stage."""
        if len(parts) != self.MICROBATCHES:
            raise ValueError(f"a step has {self.MICROBATCHES} microbatches, not {len(parts)}")
        self.draw()
        inputs = [{"inputs": self.in_order(part), "number": number} for number, part in enumerate(parts)]
        losses, is_last = [], STAGE + 1 == len(STAGES)
        last = {"target_mbs": [None] * len(parts), "losses": losses} if is_last else {}
        schedule(arg_mbs=[()] * len(parts), kwarg_mbs=inputs, **last, **settings)
        return losses

    def in_order(self, part):
        """The inputs of this stage, of a dict of them or of a tuple in the order of INPUTS."""
        return tuple(part[name] for name in self.INPUTS) if isinstance(part, dict) else tuple(part)

    def draw(self):
        """Draws what the random numbers of the microbatches depend on, with rank 0's generator, as their forwards would one after the other."""
        if self.DRAWS:
            drawn = torch.stack([torch.randint(1 << 62, ()) for _ in self._draws]).to(device())
            self._draws = [*waited(torch.ops._c10d_functional.broadcast(drawn, 0, dist.group.WORLD.group_name))]

    def begin_draws(self):
        """`compute` did it."""

    def compute(self, received, inputs, number):
        """The forward of one microbatch."""
        RANDOM["step"] = self._draws[number]
        return Planned.__call__(self, *received, *inputs)

    def mean_of(self, losses):
        """The sum of what the last stage has, on every rank."""
        total = torch.zeros((), dtype=torch.float64, device=device())
        for loss in losses:
            total += loss.detach()
        dist.broadcast(total, group=MESHES["places"], group_src=len(STAGES) - 1)
        return total

    def microbatches(self):
        raise TypeError("the stages of a pipeline compute a step's microbatches together: model.step([model.local_batch(...) of each])")

    # --- the schedule ---

    def pipeline(self):
        """The schedule of torch.distributed.pipelining that runs this rank's stage."""
        dtype = self.parameter_dtype()
        if dtype not in self._pipelines:
            received, sends = ([self.example(*each) for each in ends.values()] for ends in (self.RECEIVED, self.SENT))
            outputs = sends or [self.example((), dtype)]
            stage = RunningStage(Running(self), STAGE, len(STAGES), device(), tuple(received), tuple(outputs), group=MESHES["places"])
            self._pipelines[dtype] = schedule_of(self.SCHEDULE, stage, self.MICROBATCHES)
        return self._pipelines[dtype]

    def example(self, shape, dtype):
        """A tensor like one that is sent: where the parameters' dtype is another one than planned, so is its."""
        dtype = self.parameter_dtype() if dtype == self._planned_dtype else dtype
        return torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)

    def parameter_dtype(self):
        """The dtype in which the first parameter is computed with."""
        return next((computed_dtype(shard) for shard in self.parameters() if shard.is_floating_point()), torch.float32)

    # --- parameters of several stages ---

    def shared_here(self):
        """Of the parameters that this stage shares with others: the shard, the stages, and whether parts are the same; in one order for all stages."""
        shards = dict(self.named_parameters())
        return [(shards[name], stages, alike) for name, (stages, alike) in self.SHARED.items() if STAGE in stages]

    def take_gradients(self):
        """Puts the gradients of earlier steps aside, where those of this one are still to be added up over the stages."""
        before = []
        for shard, _, _ in self.shared_here():
            before.append(shard.grad)
            shard.grad = None
        return before

    @torch.no_grad()
    def exchange_gradients(self, before):
        """Adds up the gradients of shared parameters: the first stage that has one does, in the order of the stages, for all of them."""
        for (shard, stages, alike), earlier in zip(self.shared_here(), before, strict=True):
            gradient = torch.zeros_like(shard) if shard.grad is None else shard.grad
            part = (gradient if alike else whole_of(gradient, shard.sharding)).contiguous()
            part = sum_of_stages(part, stages)
            gradient = part if alike else shard.sharding.cut(part)
            shard.grad = gradient if earlier is None else earlier.add_(gradient)

    def counted_gradients(self):
        shared = {id(shard) for shard, stages, _ in self.shared_here() if stages[0] != STAGE}
        return [shard.grad for shard in self.parameters() if shard.grad is not None and id(shard) not in shared]

    def step_in_backward(self, optimizer):
        """As of a Planned model, where no stage shares parameters with others, whose gradients meet behind the backward."""
        if self.SHARED:
            raise ValueError(f"the stages share parameters ({', '.join(self.SHARED)}), whose gradients are added up behind the backward; call "
                             "optimizer.step()")
        super().step_in_backward(optimizer)

    # --- the whole model ---

    def local_batch(self, inputs):
        """This rank's parts of what its stage needs of a whole microbatch: a dict, or a tuple in the order of MODEL_INPUTS."""
        named = inputs if isinstance(inputs, dict) else dict(zip(self.MODEL_INPUTS, inputs, strict=True))
        for name in named:
            if name not in self.MODEL_INPUTS:
                raise ValueError(f"the model has no input {name}; its inputs are {', '.join(self.MODEL_INPUTS)}")
        return {name: self.local_input(name, named[name]) for name in self.INPUTS}

    def of_all_stages(self, value):
        """By stage what each rank at this place gives. All ranks call it."""
        values = [None] * len(STAGES)
        dist.all_gather_object(values, value, group=MESHES["places"])
        return values

    def whole_state_dict(self):
        """The state dict of the model on one device, on every rank, in its memory; tensors are gathered one by one."""
        own, whole = super().whole_state_dict(), {}
        for stage, entries in enumerate(self.of_all_stages([(name, value.shape, value.dtype) for name, value in own.items()])):
            for name, shape, dtype in entries:
                value = own[name].to(device()) if stage == STAGE else torch.empty(shape, dtype=dtype, device=device())
                dist.broadcast(numbers(value), group=MESHES["places"], group_src=stage)
                whole[name] = value.cpu()
        return whole

    def load_whole(self, state_dict, strict=True):
        """As of a Planned model: each stage takes what it has of the state dict of the whole model."""
        own = {*self.named_shards(), *self.TIED}
        known = {name for names in self.of_all_stages(own) for name in names}
        super().load_whole({name: value for name, value in state_dict.items() if name in own or name not in known}, strict)

    @torch.no_grad()
    def draw_weights(self, seed=0):
        """As of a Planned model, the same for a parameter in all stages that have it."""
        own = dict(self.named_parameters())
        known = dict.fromkeys(name for names in self.of_all_stages([*own]) for name in names)
        for number, name in enumerate(known):
            if name in own:
                self.draw_weight(name, own[name], seed + number)


class Running(nn.Module):
    """A stage as torch.distributed.pipelining calls it."""

    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, *received, inputs, number):
        return self.stage.compute(received, inputs, number)


class RunningStage(pipelining.PipelineStage):
    """One that tells whose turn a backward is: gradients of microbatches add up, and those of the last one are reduced."""

    def clear_runtime_states(self):
        super().clear_runtime_states()
        self.turns = 0

    def backward_one_chunk(self, *arguments, **named):
        STEP.update(microbatch=self.turns, microbatches=self.chunks)
        self.turns += 1
        try:
            super().backward_one_chunk(*arguments, **named)
        finally:
            STEP.update(microbatch=0, microbatches=1)


def schedule_of(schedule, stage, microbatches):
    """A schedule of torch.distributed.pipelining, for a stage whose model returns its loss."""
    stage.chunks = microbatches
    settings = {"n_microbatches": microbatches, "loss_fn": lambda loss, _: loss / microbatches, "scale_grads": False}
    if isinstance(schedule, str):
        return getattr(pipelining, schedule)(stage, **settings)
    made = pipelining.schedules._PipelineScheduleRuntime([stage], **settings)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "schedule.csv"
        rows.write_text("\n".join(schedule) + "\n")
        made._load_csv(str(rows))
    return made


def sum_of_stages(x, stages):
    """The sum of what the ranks at this place have in these stages, on all of them."""
    places = MESHES["places"]
    if STAGE != stages[0]:
        dist.send(x, group=places, group_dst=stages[0])
        x = torch.empty_like(x)
        dist.recv(x, group=places, group_src=stages[0])
        return x
    for stage in stages[1:]:
        addend = torch.empty_like(x)
        dist.recv(addend, group=places, group_src=stage)
        x = x + addend
    for stage in stages[1:]:
        dist.send(x, group=places, group_dst=stage)
    return x
