"""From a model to a plan and its program, on rank 0: export, ``meshwright plan``, ``meshwright emit``."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from meshwright import program
from meshwright.cluster import write_cluster
from meshwright.errors import Error
from meshwright.known import Known
from meshwright.progress import Progress
from meshwright.ranks import Host
from meshwright.tracing import Traced, trace


@dataclass(frozen=True)
class Wishes:
    """What the caller of autoparallelize gave."""

    cluster: str | os.PathLike[str] | None
    mesh: Sequence[int] | None
    config: str | os.PathLike[str] | Mapping[str, Any] | None
    plan: str | os.PathLike[str] | None
    memory_budget: int | str | None


@dataclass(frozen=True)
class Planned:
    """What every rank gets."""

    traced: Traced
    plan: str      # the plan file's text
    source: str    # model.py's
    sharding: str  # sharding.py's
    stages: tuple[str, ...] = ()  # those of stage_0.py and so on, where the plan has several


def make_plan(model: torch.nn.Module, args: tuple, kwargs: dict[str, Any], hosts: Sequence[Host], measured: Known,
              wishes: Wishes, folder: Path, progress: Progress) -> Planned:
    """Plan the model for these ranks, or take the plan given; write everything into ``folder``. ``measured`` is what was
    measured of theirs. The wishes have been checked.
    """
    path = folder / "plan.json" if wishes.plan is None else Path(wishes.plan)
    if wishes.plan is not None:
        _check_ranks(_read(path), path, len(hosts))
    with progress.phase("exporting the model", "exported"):
        traced = trace(model, args, kwargs, folder / "model.pt2")
    try:
        if wishes.plan is None:
            with progress.phase(f"planning for {len(hosts)} rank{'s' * (len(hosts) > 1)}", "planned"):
                program.run(["plan", folder / "model.pt2", "-o", path, "--format", "json",
                             *_options(model, hosts, measured, wishes, folder, progress)])
        plan = _read(path)
        if wishes.plan is not None:
            check_model(plan, model, traced, path)
        elif (count := _ranks_of(plan)) != len(hosts):
            raise Error(f"the cluster {plan['cluster']['name']} has {count} devices, and {len(hosts)} ranks run; start torchrun for "
                        f"{count} of them, or describe with cluster= what there is")
        _check_microbatches(plan)
        with progress.phase("writing the program", "written"):
            program.run(["emit", path, "--backend", "torch", "-o", folder, *_config(wishes)])
    except Error as error:  # the folder may be a temporary one: its name says nothing
        raise Error(error.message.replace(f"{folder}/", ""), error.code) from error
    texts = (file.read_text(encoding="utf-8") for file in (path, folder / "model.py", folder / "sharding.py"))
    stages = [folder / f"stage_{number}.py" for number in range(len(plan.get("stages", [])))]
    return Planned(traced, *texts, tuple(file.read_text(encoding="utf-8") for file in stages))


def check_wishes(wishes: Wishes, ranks: int) -> None:
    """Refuse what can be refused before an export, which may take minutes."""
    mesh, budget = wishes.mesh, wishes.memory_budget
    if mesh is not None:
        sizes = list(mesh) if isinstance(mesh, Sequence) and not isinstance(mesh, (str, bytes)) else None
        if not sizes or not all(type(size) is int and size > 0 for size in sizes):
            raise Error(f"mesh={mesh!r} is not a tuple of sizes of axes; for {ranks} ranks give mesh=({ranks},), or leave it "
                        "out for the best of all shapes")
        if (count := math.prod(sizes)) != ranks:
            raise Error(f"mesh={tuple(sizes)} has {count} ranks, and {ranks} run; start torchrun with --nproc-per-node "
                        f"{count}, or give a mesh of {ranks}")
    if budget is not None and not isinstance(budget, str) and (type(budget) is not int or budget <= 0):
        raise Error(f"memory_budget={budget!r} is neither a number of bytes above 0 nor a text such as '40GiB'")
    if wishes.config is not None and not isinstance(wishes.config, (str, os.PathLike, Mapping)):
        raise Error(f"config={wishes.config!r} is neither a configuration file nor a dict of its keys, such as "
                    "{'search.zero': 3}")
    for name, path in (("cluster", wishes.cluster), ("plan", wishes.plan)):
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise Error(f"{name}={path!r} is not the path of a file")


def names_cluster(wishes: Wishes) -> bool:
    """Whether the caller says which cluster it is, as an argument or in the configuration."""
    return wishes.cluster is not None or bool(re.search(r"(?ms)^\s*\[cluster\][^\[]*^\s*file\s*=|^cluster\.file$", _config_text(wishes)))


def _config_text(wishes: Wishes) -> str:
    """The keys of the configuration, a line each, or the text of its file."""
    if isinstance(wishes.config, Mapping):
        return "\n".join(wishes.config)
    if wishes.config is not None and os.path.isfile(wishes.config):  # if not, the program says so
        return Path(wishes.config).read_text(encoding="utf-8")
    return ""


def _options(model: torch.nn.Module, hosts: Sequence[Host], measured: Known, wishes: Wishes, folder: Path, progress: Progress) -> list[str]:
    options = _config(wishes)
    text = _config_text(wishes)
    budget = wishes.memory_budget
    if wishes.cluster is not None:
        options += ["--cluster", os.fspath(wishes.cluster)]
    elif not names_cluster(wishes):
        cluster = write_cluster(hosts, measured.machine, measured.links, folder)
        for note in cluster.notes:
            progress.say(note)
        options += ["--cluster", str(cluster.path)]
        if budget is None and "memory_budget" not in text:
            budget = cluster.budget
    if budget is not None:
        options += ["--memory-budget", str(budget)]
    if wishes.mesh is not None:
        options += ["--mesh", "x".join(map(str, wishes.mesh))]
    if not re.search(r"(?m)^\s*(search\.)?inputs\b", text):
        options += ["--set", "search.inputs=rows"]
    # The user's optimizer keeps its state in the parameters' own type.
    if "master_dtype" not in text and (dtype := _one_half_type(model)):
        options += ["--set", f"train.master_dtype={dtype}"]
    return options


def _config(wishes: Wishes) -> list[str]:
    """The configuration as options of the program."""
    if wishes.config is None:
        return []
    if not isinstance(wishes.config, Mapping):
        return ["--config", os.fspath(wishes.config)]
    return [option for key, value in wishes.config.items() for option in ("--set", f"{key}={json.dumps(value)}")]


def _one_half_type(model: torch.nn.Module) -> str | None:
    types = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(types.pop()) if len(types) == 1 else None


def _read(path: Path) -> dict[str, Any]:
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Error(f"{path}: the plan can't be read: {error.strerror}") from error
    except ValueError as error:
        raise Error(f"{path}: this is no plan file: {error}; write one with: meshwright plan -o") from error
    if not isinstance(plan, dict) or plan.get("format") not in ("meshwright-plan", "meshwright-pipeline"):
        raise Error(f"{path}: this is no plan file; write one with: meshwright plan -o")
    return plan


def _ranks_of(plan: dict[str, Any]) -> int:
    stages = plan.get("stages", [plan])
    groups = len(plan.get("orders", stages))  # all of one size
    return groups * math.prod(axis["size"] for axis in stages[0]["mesh"])


def _check_ranks(plan: dict[str, Any], path: Path, ranks: int) -> None:
    if (count := _ranks_of(plan)) != ranks:
        what = f"{len(plan['stages'])} stages" if "stages" in plan else "a mesh of " + ("x".join(str(axis["size"]) for axis in plan["mesh"]) or "1")
        raise Error(f"{path}: the plan is for {count} ranks ({what}), and {ranks} run; start torchrun with "
                    f"--nproc-per-node {count}, or plan again for {ranks}")


def _check_microbatches(plan: dict[str, Any]) -> None:
    if "stages" not in plan and (count := plan["training"].get("microbatches", 1)) > 1:
        raise Error(f"the plan cuts each step into {count} microbatches, and here the training loop is yours: leave "
                    "train.microbatches out, and add up gradients by calling backward several times before the optimizer's step")


def check_model(plan: dict[str, Any], model: torch.nn.Module, traced: Traced, path: Path) -> None:
    """Refuse a plan that was made of another model, or of this one before it was changed."""
    values, nodes = plan["graph"]["values"], plan["graph"]["nodes"]
    state = {**dict(model.named_buffers(remove_duplicate=False)), **model.state_dict(keep_vars=True)}
    changes = []
    parts = plan.get("microbatches", 1)  # of a plan of several stages, whose graph is of one
    param_dtype = plan.get("stages", [plan])[0]["training"]["param_dtype"]
    for source in plan["graph"]["sources"]:
        name, (_, dtype, shape, _) = source["names"][0], values[source["value"]]
        if source["kind"] == "user_input":
            here, what = traced.shapes.get(name) or _cotangent_shape(name, traced, shape), f"input '{name}'"
            if parts > 1 and here and here != shape:
                shape = [shape[0] * parts, *shape[1:]] if shape else shape
        elif source["kind"] in ("parameter", "buffer"):
            tensor = state.get(name)
            here, what = None if tensor is None else list(tensor.shape), f"{source['kind']} '{name}'"
            if tensor is not None and (type_here := str(tensor.dtype).removeprefix("torch.")) != dtype and \
                    param_dtype is None:
                changes.append(f"{what} is {type_here}, and was {dtype}")
        else:
            continue
        if here is None:
            changes.append(f"{what} is not in the model")
        elif here != shape:
            changes.append(f"{what} is {here}, and was {shape}")
    known = {name for source in plan["graph"]["sources"] for name in source["names"]}
    known_tensors = {id(state[name]) for name in known if name in state}
    changes += [f"parameter '{name}' is not in the plan" for name, tensor in model.named_parameters(remove_duplicate=False)
                if name in traced.used and name not in known and id(tensor) not in known_tensors]
    # A frontend gathers some nodes into one and adds a loss, so a plan may have fewer of an op than the model, and not more.
    here = Counter(map(_op, traced.ops.values()))
    for node in nodes:
        if not node["op"].startswith("aten.") or node["module"] == "loss":
            continue
        here[node["op"]] -= 1
        if here[node["op"]] < 0:
            changes.append(f"nothing computes {node['op']} as node '{node['name']}' did")
    if changes:
        more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
        raise Error(f"{path}: the model has changed since the plan was made: {changes[0]}{more}; plan it again, without plan=")


def _op(target: str) -> str:
    return target.removesuffix(".default")


def _cotangent_shape(name: str, traced: Traced, shape: list[int]) -> list[int] | None:
    return shape if name in traced.cotangents.values() else None
