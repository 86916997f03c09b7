"""``autoparallelize``: one line between a model and its training loop."""

from __future__ import annotations

import contextlib
import itertools
import json
import linecache
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from meshwright import guards, known, ranks
from meshwright.alike import check_weights
from meshwright.arguments import Arguments, keywords_among_positions, misfit, split
from meshwright.batches import AnyBatch, OtherBatches, without_weights
from meshwright.cluster import is_known, ranks_per_host
from meshwright.errors import Error
from meshwright.known import Known
from meshwright.links import measure_links
from meshwright.measure import measure_machine
from meshwright.pages import keep_pages
from meshwright.planning import Planned, Wishes, check_wishes, make_plan, names_cluster
from meshwright.pretrained import Pretrained
from meshwright.progress import Progress
from meshwright.rows import Rows
from meshwright.sharded import OUTPUTS, Call, Sharded
from meshwright.stage_statistics import StageMeter
from meshwright.staged import Piped, StagedCall, pipeline_lines
from meshwright.statistics import Measured, Meter, count_moves
from meshwright.summary import six_lines

_numbers = itertools.count(1)
_BATCH_AXES = "search.batch_axes"
_NO_PLAN_FITS = 3  # the exit code


def autoparallelize(model: torch.nn.Module,
                    sample_inputs: Sequence[Any] | Mapping[str, Any] = (),
                    sample_kwargs: Mapping[str, Any] | None = None,
                    *,
                    cluster: str | os.PathLike[str] | None = None,
                    mesh: Sequence[int] | None = None,
                    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
                    plan: str | os.PathLike[str] | None = None,
                    memory_budget: int | str | None = None,
                    outputs: str | None = None,
                    folder: str | os.PathLike[str] | None = None,
                    measure: bool | None = None,
                    verbose: bool = True) -> torch.nn.Module:
    """Plan ``model`` for the ranks that run, and give the sharded model, with this rank's part of the weights.

    Every rank calls it with a model of the same weights. Rank 0 plans; all get the same plan. Train the result as the
    original, with any optimizer of its ``parameters()``, and feed it this rank's rows of each global batch
    (``local_batch``, or a ``Sampler``). Clip gradients with its ``clip_grad_norm_``.

    In several pipeline stages (``config={"search.stages": 2, "train.microbatches": 8}``) a step is ``loss = model.step(...)`` in place of a forward
    and ``loss.backward()``, with the whole global batch on every rank; parameters are those of the rank's stages.

    Args:
        model: any module that ``torch.export`` accepts, in the mode (train or eval) and the types in which it will run.
            One on the ``meta`` device gives a sharded one there, until ``load_whole`` brings weights.
        sample_inputs: the global batch that each step computes: positional arguments (a tuple) or keyword arguments (a
            dict). Only shapes and types matter.
        sample_kwargs: keyword arguments beside positional ones.
        cluster: a cluster file; without it, what the ranks see of their machines.
        mesh: sizes of the mesh's axes, such as ``(2, 2)``; without it, the best of all shapes.
        config: a configuration file, or a dict of its keys: ``{"search.zero": 3}``.
        plan: a plan file made before for this model; nothing is searched then.
        memory_budget: per device, in bytes or as ``"40GiB"``; without it, what the device has.
        outputs: of what the model returns besides its loss: "planned", each rank its part as the plan has it, without
            communication; "rows", this rank's rows of the batch; "gathered", all of it. By default "planned" where the model
            returns its loss, else "gathered": the loss is then computed of it, alike on all ranks. A loss that each rank
            computes of its "rows" is averaged over them, as in DistributedDataParallel.
        folder: where ``model.pt2``, ``plan.json``, ``model.py`` and ``sharding.py`` are kept; without it they are not.
        measure: without a cluster file, whether the ranks measure what their devices and links do: None, once on a machine whose
            devices nothing is known of (any CPU), and that is remembered; True, now; False, never. Links of devices whose figures
            are shipped are measured once in any case, and remembered.
        verbose: whether rank 0 says on standard error what it does, how long it took, and the plan in six lines.

    Raises:
        Error: what is wrong, in one sentence, on every rank alike.
    """
    ranks.start()
    guards.install()
    if not torch.cuda.is_available():
        keep_pages()
    if outputs is not None and outputs not in OUTPUTS:
        ranks.fail(f"outputs={outputs!r} is not one of {', '.join(map(repr, OUTPUTS))}")
    if measure is not None and not isinstance(measure, bool):
        ranks.fail(f"measure={measure!r} is none of None, True and False")
    wishes = Wishes(cluster, mesh, config, plan, memory_budget)
    args, kwargs = _sample(model, sample_inputs, sample_kwargs)
    hosts = ranks.all_gathered(ranks.this_host())
    progress = Progress(verbose)
    measured = _measured(hosts, wishes, measure, progress)

    def work() -> Planned:
        with _work_folder(folder) as path:
            try:
                return make_plan(model, args, kwargs, hosts, measured, wishes, path, progress)
            except Error as error:
                if (hint := keywords_among_positions(model.forward, args)) is None:
                    raise
                raise Error(f"{error.message}; {hint}", error.code) from error

    planned = ranks.agree(work)
    check_weights(model.state_dict())
    if planned.stages:
        staged = _built_stage(model, Arguments(model.forward, args, kwargs), planned, outputs, progress)
        for line in pipeline_lines(staged.plan):
            progress.say(line)
        return staged
    sharded = _built(model, Arguments(model.forward, args, kwargs), planned, outputs)
    _measure(sharded, progress)
    sharded._others = OtherBatches(_planner(model, sharded, hosts, measured, wishes, outputs, progress))
    return sharded


def _measured(hosts: Sequence[ranks.Host], wishes: Wishes, measure: bool | None, progress: Progress) -> Known:
    """What the ranks' machines do, measured now or before: all of it, or the links alone where a shipped file has the device's figures. Nothing where
    somebody describes the cluster.
    """
    def recalled() -> tuple[str, Known]:
        check_wishes(wishes, len(hosts))
        if wishes.plan is not None or names_cluster(wishes):
            return "", Known()
        ranks_per_host(hosts)  # refuses what is no mesh
        never = measure is False or os.environ.get("MESHWRIGHT_MEASURE") == "0"
        if not never and (measure or not is_known(hosts)):
            machine = None if measure else known.recall(hosts)
            return "machine" if machine is None else "", Known(machine)
        if len(hosts) == 1:
            return "", Known()
        if (recorded := os.environ.get("MESHWRIGHT_LINKS")) is not None:
            return "", Known(links=Path(recorded).read_text(encoding="utf-8"))
        links = known.recall_links(hosts)
        return "links" if links is None else "", Known(links=links)

    wanted, found = ranks.agree(recalled)
    if wanted == "machine":
        with progress.phase("measuring this machine, once", "measured"):
            found = Known(measure_machine(ranks.device(), ranks_per_host(hosts)))
    elif wanted == "links":
        with progress.phase("measuring the links between ranks, once", "measured"):
            found = Known(links=measure_links(ranks.device()))
    if wanted and torch.distributed.get_rank() == 0:
        known.remember(hosts, found)
    return found


def _planner(model: torch.nn.Module, sharded: Any, hosts: Sequence[ranks.Host], measured: Known, wishes: Wishes,
             outputs: str | None, progress: Progress) -> Callable[[tuple, dict[str, Any]], torch.nn.Module]:
    """What plans the model for batches of other shapes, on the same mesh. It keeps no weights."""
    skeleton = without_weights(model)
    mesh = [axis["size"] for axis in sharded.plan["mesh"]] or None
    wishes = replace(wishes, mesh=mesh, plan=None)

    def work(args: tuple, kwargs: dict[str, Any]) -> Planned:
        with _work_folder(None) as path:
            try:
                return make_plan(skeleton, args, kwargs, hosts, measured, wishes, path, progress)
            except Error as error:
                if error.code != _NO_PLAN_FITS or not isinstance(wishes.config, Mapping) or _BATCH_AXES not in wishes.config:
                    raise
                # This batch can't be cut as the planned one is.
                config = {key: value for key, value in wishes.config.items() if key != _BATCH_AXES}
                return make_plan(skeleton, args, kwargs, hosts, measured, replace(wishes, config=config), path, progress)

    def plan(args: tuple, kwargs: dict[str, Any]) -> torch.nn.Module:
        if skeleton is None:
            ranks.fail("a batch of another shape needs another program, and the model can't be copied for that (copy.deepcopy "
                       "fails); feed batches of the planned shape")
        progress.say("a batch of another shape: one more program")
        made = _built(skeleton, Arguments(skeleton.forward, args, kwargs), ranks.agree(lambda: work(args, kwargs)), outputs)
        made._meter = Meter(made.plan, Progress(False), made._call.module.device())
        return made

    return plan


def _sample(model: Any, sample_inputs: Any, sample_kwargs: Any) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call of the model; what can't be any ends all ranks, with a sentence."""
    args, kwargs, problem = (), {}, None
    if not isinstance(model, torch.nn.Module):
        problem = f"the model is a {type(model).__name__}, and must be a torch.nn.Module"
    elif isinstance(model, Sharded):
        problem = ("the model is sharded already; call autoparallelize with the original, and "
                   "load_whole(model.whole_state_dict()) afterwards")
    else:
        try:
            args, kwargs = split(sample_inputs, sample_kwargs)
            problem = misfit(model.forward, args, kwargs)
        except TypeError as error:
            problem = str(error)
    ranks.refuse_together(problem)
    return args, kwargs


def _measure(sharded: Any, progress: Progress) -> None:
    """Say what was planned, and begin to count what steps take."""
    rows = sharded._call.rows
    for line in six_lines(sharded.plan, rows.batch, rows.batch_axes()):
        progress.say(line)
    sharded._meter = Meter(sharded.plan, progress, sharded._call.module.device())
    count_moves(sharded._call.module, sharded._meter)


@contextlib.contextmanager
def _work_folder(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="meshwright_") as temporary:
            yield Path(temporary)
    else:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield Path(folder).resolve()


def _built(model: torch.nn.Module, arguments: Arguments, planned: Planned, outputs: str | None) -> torch.nn.Module:
    program, module = _imported(planned)
    traced = planned.traced
    if traced.functions:
        module.FUNCTIONS.update(traced.functions)
    kind = type(program.Model.__name__, (Measured, AnyBatch, Pretrained, Sharded, program.Model),
                {"__module__": program.__name__, "__doc__": program.Model.__doc__})
    on_meta = any(parameter.is_meta for parameter in model.parameters())
    with torch.device("meta") if on_meta else contextlib.nullcontext():
        sharded = kind()
    state = model.state_dict(keep_vars=True)
    of_plan, unused = _named_as(sharded, state)
    rows = Rows(module, [layout for name, layout in sharded.INPUTS.items() if name in traced.inputs])
    outputs = outputs or ("gathered" if traced.surrogate else "planned")
    object.__setattr__(sharded, "plan", json.loads(planned.plan))  # the model may have members of these names
    layouts = dict(zip(_output_names(sharded.plan["graph"]), sharded.OUTPUTS.values(), strict=True))
    sharded._call = Call(module, arguments, traced, rows, layouts, outputs, model.training, traced.either_mode, unused, list(state))
    object.__setattr__(sharded, "source", planned.source)
    sharded.register_state_dict_post_hook(Sharded._put_unused)
    sharded.register_load_state_dict_pre_hook(Sharded._take_unused)
    if not on_meta:
        sharded.load_whole({name: tensor.detach() for name, tensor in state.items()})
    _carry(model, sharded, of_plan, traced, module)
    return sharded.train(model.training)


def _built_stage(model: torch.nn.Module, arguments: Arguments, planned: Planned, outputs: str | None, progress: Progress) -> torch.nn.Module:
    """What this rank has of a model in several stages."""
    traced = planned.traced
    if traced.surrogate:
        raise Error("in several stages a model returns its loss, which the last one computes: let its forward return it, or plan one stage (search.stages)")
    if outputs is not None:
        raise Error(f"outputs={outputs!r}: in several stages nothing but the loss is returned; leave outputs out, or plan one stage (search.stages)")
    program, module = _imported(planned)
    if traced.functions:
        module.FUNCTIONS.update(traced.functions)
    kind = type(program.Model.__name__, (Piped, program.Model), {"__module__": program.__name__, "__doc__": program.Model.__doc__})
    on_meta = any(parameter.is_meta for parameter in model.parameters())
    with torch.device("meta") if on_meta else contextlib.nullcontext():
        staged = kind()
    state = model.state_dict(keep_vars=True)
    of_plan = [_named_as(stage, state)[0] for stage in staged.stages]
    plan = json.loads(planned.plan)
    object.__setattr__(staged, "plan", plan)  # the model may have members of these names
    object.__setattr__(staged, "source", "\n\n".join(planned.stages[stage.STAGE] for stage in staged.stages))
    values = plan["graph"]["values"]
    shapes = {source["names"][0]: values[source["value"]][2] for source in plan["graph"]["sources"] if source["kind"] == "user_input"}
    places = {name: place for name, place in traced.inputs.items() if name in shapes}
    staged._call = StagedCall(arguments, places, shapes, model.training, traced.either_mode, list(state))
    if not on_meta:
        staged.load_whole({name: tensor.detach() for name, tensor in state.items()})
    for stage, tensors in zip(staged.stages, of_plan, strict=True):
        _carry(model, stage, tensors, traced, module)
    object.__setattr__(staged, "_meter", StageMeter(staged, module, Meter(plan, progress, module.device())))
    return staged.train(model.training)


def _named_as(made: Any, state: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Gives what was made the names that the original's state dict has for its tensors. The parts that it has, by name, and the rest of the state."""
    _mark_not_saved(made, state)
    of_plan = dict(made.named_shards())
    # Of a file without weights the program guesses which names are of one tensor; here it is known.
    made.TIED = {name: own for name, own in made.TIED.items() if _place(state[name]) == _place(state[own])}
    same_name, unused = _other_names(state, {**{name: name for name in of_plan}, **made.TIED})
    made.TIED = {**made.TIED, **same_name}
    return of_plan, unused


def _carry(model: torch.nn.Module, made: Any, of_plan: dict[str, torch.Tensor], traced: Any, module: ModuleType) -> None:
    """What the original has besides its state: buffers that no state dict has, what is frozen, hooks."""
    _fill_other_buffers(made, model, traced.constants, set(of_plan))
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if not parameter.requires_grad and isinstance(shard := of_plan.get(name), torch.nn.Parameter):
            shard.requires_grad_(False)
    _carry_hooks(model, of_plan, made.TIED, module)


def _carry_hooks(model: torch.nn.Module, shards: dict[str, torch.Tensor], tied: dict[str, str], module: ModuleType) -> None:
    """Hooks on the original's parameters are called with whole gradients, on every rank; what they give is cut again."""
    for name, parameter in model.named_parameters():
        if parameter._post_accumulate_grad_hooks:
            raise Error(f"the parameter '{name}' has a hook for its accumulated gradient (register_post_accumulate_grad_hook), which is "
                        "called with the parameter itself: put it on the sharded model's parameters, behind autoparallelize")
        shard = shards.get(tied.get(name, name))
        if shard is not None and shard.requires_grad:
            for hook in (parameter._backward_hooks or {}).values():
                shard.register_hook(_OfWhole(hook, shard.sharding, module))


class _OfWhole:
    """A hook on a parameter's gradient, called with the whole of it."""

    def __init__(self, hook: Any, layout: Any, module: ModuleType):
        self._hook, self._layout, self._module = hook, layout, module

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor | None:
        changed = self._hook(self._module.whole_of(gradient, self._layout))
        return None if changed is None else self._layout.cut(changed)


def _output_names(graph: dict[str, Any]) -> list[str]:
    """What the program returns, each once, by the names that torch.export gave."""
    return list(dict.fromkeys(graph["values"][output["value"]][0] for output in graph["outputs"]
                              if output["kind"] != "buffer_mutation"))


def _imported(planned: Planned) -> tuple[ModuleType, ModuleType]:
    """The emitted program: the modules of model.py and of sharding.py, which the first one imports, as it does those of this rank's stages."""
    number = next(_numbers)
    sharding = _module(f"meshwright_sharding_{number}", planned.sharding)
    with _known_as("sharding", sharding), contextlib.ExitStack() as known:
        for stage in sharding.GROUPS[sharding.GROUP] if planned.stages else ():
            with sharding.on_mesh(sharding.STAGES[stage]):
                module = _module(f"meshwright_stage_{stage}_{number}", planned.stages[stage])
            known.enter_context(_known_as(f"stage_{stage}", module))
        return _module(f"meshwright_model_{number}", planned.source), sharding


@contextlib.contextmanager
def _known_as(name: str, module: ModuleType) -> Iterator[None]:
    """While a program is imported, the module that it finds by this name."""
    known = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        if known is None:
            del sys.modules[name]
        else:
            sys.modules[name] = known


def _module(name: str, source: str) -> ModuleType:
    """A text as a module, whose lines tracebacks show."""
    file = f"<{name}.py, from rank 0>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(source, file, "exec"), module.__dict__)
    return module


def _other_names(state: dict[str, torch.Tensor], known: dict[str, str]) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """Of the names that are not ``known``: those of a tensor that is, with the program's name for it, and the rest."""
    name_of = {_place(state[name]): own for name, own in known.items() if name in state}
    same_name, unused = {}, {}
    for name, tensor in state.items():
        if name in known:
            continue
        if (own := name_of.get(_place(tensor))) is not None:
            same_name[name] = own
        else:
            unused[name] = tensor.detach()
    return same_name, unused


def _place(tensor: torch.Tensor) -> Any:
    if tensor.is_meta or tensor.numel() == 0:
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def _mark_not_saved(sharded: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Buffers that the original's state dict leaves out, and constants, are left out of this one's too."""
    for path, module in sharded.named_modules():
        for name in module._buffers:
            if (f"{path}.{name}" if path else name) not in state:
                module._non_persistent_buffers_set.add(name)


def _fill_other_buffers(sharded: torch.nn.Module, model: torch.nn.Module, constants: dict[str, torch.Tensor],
                        done: set[str]) -> None:
    """Buffers that no state dict has, and constants."""
    given = {**constants, **dict(model.named_buffers(remove_duplicate=False))}
    for name, part in sharded.named_buffers():
        if name not in done and name in given and hasattr(part, "sharding") and not given[name].is_meta:
            sharded.set_shard(name, given[name].detach())
