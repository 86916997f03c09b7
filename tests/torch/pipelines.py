#!/usr/bin/env python3
"""Holds emitted pipelines against the models that they came from: on ranks in several stages the loss of each step, every gradient and every
parameter and buffer behind the steps are those of one device that adds up the gradients of the same microbatches, in float64.

    tests/torch/pipelines.py --program build/bin/meshwright --ranks 4 -o FOLDER [CASE...]
    torchrun --nproc-per-node 4 tests/torch/pipelines.py FOLDER [CASE...]

The first form plans and emits the cases, starts the ranks, and says for one case that a rank that dies ends all.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

import forked
from equal import ROOT, distance_of_numbers, emitted, export, optimizer_of, sample, worst
from prepare import CLUSTER, run

STEPS = 2  # at most
EXACT = 1e-5  # as in equal.py
LIMIT_SECONDS_OF_ALL = 1000
LIMIT_SECONDS = 120  # for a run to end of which a rank dies
SCHEDULES = ["gpipe", "one_f_one_b"]
INTERLEAVED, LOOPED = "interleaved", "looped_bfs"
BACK_AND_FORTH = f"search.from_csv.file={ROOT / 'tests/e2e/back_and_forth.csv'}"  # stages 0 and 3 on one group of ranks, 1 and 2 on the other
COUPLED = ["train.batch_coupling=allow"]
MODELS = {"gpt2": [], "llama": [], "t5": [], "resnet": COUPLED}
# Only with --nightly: the others of the cases that are each model's by each schedule. gpt2 has them all.
STANDING_FOR_OTHERS = {4: {"llama-one_f_one_b-4", "llama-zb_v", "t5-gpipe-2", "t5-interleaved", "resnet-one_f_one_b-2"},
                       8: {"llama-interleaved", "t5-zb_v", "resnet-one_f_one_b"}}


@dataclass
class Case:
    model: str
    stages: int  # or groups of ranks, which have `chunks` of the stages each
    settings: list[str] = field(default_factory=list)
    schedule: str = "one_f_one_b"
    checks: tuple[str, ...] = ("trains",)  # names of functions below
    parts: int = 4                         # microbatches
    steps: int = 2
    others: list[str] | None = None        # settings of another plan of the same stages, of which those behind the first one are taken
    chunks: int = 0


MORE = ("trains", "clips", "adds_up", "evaluates", "keeps_checkpoints")
DATA, MEGATRON = ["search.batch_axes=all", "search.zero=1"], ["search.batch_axes=0", "search.weights=sharded", "search.zero=0"]


def cases_on(ranks: int) -> dict[str, Case]:
    if ranks == 8:
        made = {f"{model}-{schedule}": Case(model, stages, settings, schedule, steps=1 if model == "resnet" else 2, chunks=chunks)
                for model, settings in MODELS.items()
                for schedule, stages, chunks in (("gpipe", 2, 0), ("one_f_one_b", 4, 0), (INTERLEAVED, 2, 2), ("zb_v", 2, 2))}
        made["gpt2-meshes"] = Case("gpt2", 2, ["--mesh", "2x2", *MEGATRON], others=["--mesh", "4"])
        made["t5-meshes"] = Case("t5", 2, ["--mesh", "4"], others=["--mesh", "2x2"])
        made["gpt2-interleaved-meshes"] = Case("gpt2", 2, ["--mesh", "2x2"], INTERLEAVED, MORE[:2], chunks=2, others=["--mesh", "4"])
        return made
    made = {f"{model}-{schedule}-{stages}": Case(model, stages, settings, schedule)
            for model, settings in MODELS.items() for schedule in SCHEDULES for stages in (2, 4)}
    for schedule in SCHEDULES:  # the largest by far
        made[f"resnet-{schedule}-2"].steps = 1
    for model, settings in MODELS.items():
        made[f"{model}-interleaved"] = Case(model, 2, settings, INTERLEAVED, steps=1 if model == "resnet" else 2, chunks=2)
        made[f"{model}-zb_v"] = Case(model, 2, settings, "zb_v", steps=1 if model == "resnet" else 2, chunks=2)
    made["gpt2-zb_h1-zero3"] = Case("gpt2", 2, ["search.batch_axes=all", "search.zero=3", "search.regather=always"], "zb_h1")
    made["gpt2-deep-zb_h1"] = Case("gpt2_deep", 4, schedule="zb_h1", parts=8)
    made["gpt2-deep-dualpipe_v"] = Case("gpt2_deep", 2, DATA, "dualpipe_v", chunks=2)
    made["gpt2-deep-interleaved"] = Case("gpt2_deep", 4, schedule=INTERLEAVED, chunks=2)
    made["gpt2-deep-looped"] = Case("gpt2_deep", 2, DATA, LOOPED, chunks=2)
    made["gpt2-back-and-forth"] = Case("gpt2", 2, [*DATA, BACK_AND_FORTH], "from_csv", chunks=2)  # a weight is in two stages of a rank
    made["unet-interleaved"] = Case("unet", 2, COUPLED, INTERLEAVED, chunks=2)
    made["vgg-interleaved-draws"] = Case("vgg", 2, schedule=INTERLEAVED, checks=("draws_alike",), chunks=2)
    made["gpt2-interleaved"].checks = made["gpt2-back-and-forth"].checks = made["gpt2-zb_v"].checks = MORE
    made["gpt2-one_f_one_b-2"].checks = made["gpt2-gpipe-4"].checks = MORE
    made["gpt2-zero3"] = Case("gpt2", 2, ["search.batch_axes=all", "search.zero=3", "search.regather=always"])
    made["gpt2-unlike"] = Case("gpt2", 2, DATA, others=MEGATRON)
    made["t5-unlike"] = Case("t5", 2, MEGATRON, others=DATA)
    made["gpt2-csv"] = Case("gpt2", 4, parts=2)  # PyTorch's 1F1B wants as many microbatches as stages
    made["llama-again"] = Case("llama", 2, ["search.recompute=all"])
    made["unet-skips"] = Case("unet", 4, COUPLED)
    made["vgg-draws"] = Case("vgg", 2, checks=("draws_alike",))
    return made


def names_of(ranks: int, nightly: bool) -> list[str]:
    twins = [f"{model}-" for model in MODELS if model != "gpt2"]
    schedules = [*SCHEDULES, INTERLEAVED, "zb_v"]

    def wanted(name: str) -> bool:
        is_twin = any(name.startswith(model + schedule) for model in twins for schedule in schedules)
        return nightly or not is_twin or name in STANDING_FOR_OTHERS[ranks]

    return [name for name in cases_on(ranks) if wanted(name)]


class Serial:
    """One device. By step: its losses, its gradients, and what is left behind it."""

    def __init__(self, name: str, count: int):
        torch.manual_seed(0)
        model, inputs = export.MODELS[f"{name}_tiny"]()
        model.train()
        export.fill(model)
        model.to(torch.float64)
        self.count = count
        parts = {key: value[:len(value) // count] for key, value in inputs.items()}
        self.inputs = {key: value.double() if value.is_floating_point() else value for key, value in parts.items()}
        self.start = copy.deepcopy({**dict(model.named_buffers()), **model.state_dict()})
        optimizer = optimizer_of(model.parameters())
        self.losses, self.gradients, self.ends = [], [], []
        for step in range(STEPS):
            total = 0.0
            for part in range(count):
                loss = model(**self.batch(step, part)) / count
                loss.backward()
                total += loss.item()
            self.losses.append(total)
            self.gradients.append({key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None})
            optimizer.step()
            optimizer.zero_grad()
            self.ends.append(copy.deepcopy(model.state_dict()))

    def batch(self, step: int, part: int) -> dict[str, torch.Tensor]:
        return sample(self.inputs, step * self.count + part)

    @staticmethod
    def of_all(keys: list[tuple[str, int]]) -> dict[tuple[str, int], Serial]:
        """Of these models and numbers of microbatches: each rank computes some of them, and has all."""
        everything: list = [None] * dist.get_world_size()
        dist.all_gather_object(everything, {key: Serial(*key) for key in keys[dist.get_rank()::dist.get_world_size()]})
        return {name: serial for some in everything for name, serial in some.items()}


class Run:
    """An emitted program and where it is held against."""

    def __init__(self, folder: Path, serial: Serial):
        self.program, self.sharding = pipeline_of(folder)
        self.serial = serial
        self.model = self.program.Model().to(torch.float64)
        self.model.load_whole({key: value for key, value in serial.start.items() if key in self.known()})

    def known(self) -> set[str]:
        return {name for names in self.model.of_all_groups([*self.model.state_dict(), *self.model.TIED]) for name in names}

    def step(self, number: int) -> float:
        return self.model.step(self.parts(number)).item()

    def parts(self, number: int) -> list:
        return [self.model.local_batch(self.serial.batch(number, part)) for part in range(self.serial.count)]

    def gradients(self) -> dict[str, torch.Tensor]:
        """By name; of a parameter that is here twice, of each of them."""
        found = {}
        for name, value in self.model.named_parameters():
            if value.grad is not None:
                found[name + " again" * (name in found)] = self.sharding.whole_of(value.grad, value.sharding)
        return found

    def own(self, of_all: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Of all parameters those of this rank's stages, as `gradients` has them."""
        found = {}
        for name, _ in self.model.named_parameters():
            found[name + " again" * (name in found)] = next(of_all[other] for other in self.model.names_of(name) if other in of_all)
        return found

    def equal_behind(self, step: int) -> str:
        """What is wrong with what a step leaves, buffers too."""
        known = self.known()
        return equal("what is left", *worst(self.model.whole_state_dict(), {key: value for key, value in self.serial.ends[step].items() if key in known}))

    def optimizer(self) -> torch.optim.Optimizer:
        return optimizer_of(self.model.parameters())


def pipeline_of(folder: Path):
    for name in [name for name in sys.modules if name.startswith("stage_")]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        return emitted(folder)
    finally:
        del sys.path[0]


def equal(what: str, difference: float, where: str = "") -> str:
    return "" if difference <= EXACT else f"{what} differs by {difference:.1e}{where and f' ({where})'}"


def trains(folder: Path, serial: Serial) -> str:
    """What is wrong; empty: nothing."""
    run_ = Run(folder, serial)
    optimizer = run_.optimizer()
    steps = cases_on(dist.get_world_size())[folder.name].steps
    for step in range(steps):
        loss = run_.step(step)
        if problem := equal(f"the loss of step {step}, {loss},", distance_of_numbers(loss, serial.losses[step], floor=1e-3)):
            return problem
        found = run_.gradients()
        if problem := equal(f"a gradient of step {step}", *worst(found, run_.own(serial.gradients[step]))):
            return problem
        optimizer.step()
        optimizer.zero_grad()
    return run_.equal_behind(steps - 1)


def clips(folder: Path, serial: Serial) -> str:
    """The norm is that of the whole model, in which a parameter of several stages counts once."""
    run_ = Run(folder, serial)
    run_.step(0)
    norm = run_.model.clip_grad_norm_(0.5)
    wanted = torch.stack([value.square().sum() for value in serial.gradients[0].values()]).sum().sqrt()
    scaled = {key: value * min(1.0, 0.5 / (wanted.item() + 1e-6)) for key, value in serial.gradients[0].items()}
    return equal("the norm", distance_of_numbers(norm.item(), wanted.item(), floor=1e-3)) or equal("a clipped gradient", *worst(run_.gradients(), run_.own(scaled)))


def adds_up(folder: Path, serial: Serial) -> str:
    """Gradients of two steps without an update between them."""
    run_ = Run(folder, serial)
    run_.step(0)
    run_.step(0)
    return equal("the sum of two gradients", *worst(run_.gradients(), run_.own({key: 2 * value for key, value in serial.gradients[0].items()})))


def evaluates(folder: Path, serial: Serial) -> str:
    """A forward alone, before and behind steps, in eval mode."""
    run_ = Run(folder, serial)
    for _ in range(2):
        run_.model.eval()
        loss = run_.model.evaluate(run_.parts(0)).item()
        if problem := equal(f"the loss without gradients, {loss},", distance_of_numbers(loss, serial.losses[0], floor=1e-3)):
            return problem
        if any(value.grad is not None for value in run_.model.parameters()):
            return "there is a gradient"
        run_.model.train()
        run_.step(0)
        run_.model.zero_grad()
    return ""


def keeps_checkpoints(folder: Path, serial: Serial) -> str:
    """What one plan saves, with its optimizer, another plan goes on with."""
    first = Run(folder, serial)
    optimizer = first.optimizer()
    first.step(0)
    optimizer.step()
    optimizer.zero_grad()
    path = folder / "checkpoint"
    first.model.save_checkpoint(str(path), optimizer)
    for other in ("gpt2-gpipe-2", "gpt2-one_f_one_b-4"):
        second = Run(folder.parent / other, serial)
        again = second.optimizer()
        second.model.load_checkpoint(str(path), again)
        loss = second.step(1)
        if problem := equal(f"the loss in {other}, {loss},", distance_of_numbers(loss, serial.losses[1], floor=1e-3)):
            return problem
        again.step()
        if problem := second.equal_behind(1):
            return problem
    return ""


def draws_alike(folder: Path, serial: Serial) -> str:
    """The dropout of a plan of several stages is that of a plan of one, which no plain model draws."""
    one, sharding = emitted(folder.parent / f"{folder.name}-one")
    whole = one.Model().to(torch.float64)
    run_ = Run(folder, serial)
    whole.load_whole({key: value for key, value in serial.start.items() if key in {*whole.state_dict(), *whole.TIED}})
    for step in range(STEPS):
        torch.manual_seed(step)
        wanted = 0.0
        for part in whole.microbatches():
            loss = whole(*whole.local_batch(serial.batch(step, part)).values()) / whole.MICROBATCHES
            loss.backward()
            wanted += loss.item()
        torch.manual_seed(step)
        loss = run_.step(step)
        if problem := equal(f"the loss of step {step}, {loss},", distance_of_numbers(loss, wanted, floor=1e-3)):
            return problem
        gradients = {name: sharding.whole_of(value.grad, value.sharding) for name, value in whole.named_parameters()}
        if problem := equal("a gradient", *worst(run_.gradients(), run_.own(gradients))):
            return problem
        whole.zero_grad()
        run_.model.zero_grad()
    return "" if distance_of_numbers(wanted, serial.losses[STEPS - 1], floor=1e-3) > EXACT else "nothing is drawn"


def on_ranks(folder: Path, names: list[str]) -> int:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    cases = cases_on(dist.get_world_size())
    serial = Serial.of_all(sorted({(cases[name].model, cases[name].parts) for name in names}))
    wrong = 0
    for name in names:
        for check in (globals()[each] for each in cases[name].checks):
            began = time.monotonic()
            torch.manual_seed(0)
            try:
                problem = check(folder / name, serial[cases[name].model, cases[name].parts])
            except Exception as error:
                if dist.get_rank() == 0 or len(names) == 1:
                    print(f"{name} {check.__name__}: {type(error).__name__}: {error}", flush=True)
                raise  # Other ranks may wait for this one: all end.
            problems: list = [None] * dist.get_world_size()
            dist.all_gather_object(problems, problem)
            found = [f"rank {rank}: {each}" for rank, each in enumerate(problems) if each]
            if dist.get_rank() == 0:
                print(f"{name:24} {check.__name__:18} {time.monotonic() - began:5.1f} s  {'FAILED: ' + found[0] if found else 'ok'}", flush=True)
            wrong += bool(found)
    dist.destroy_process_group()
    return wrong > 0


def dying(folder: Path) -> int:
    """A rank of the last stage dies in a step of train.py; nobody may wait for it."""
    script = folder / "dying.py"
    script.write_text("import os\nimport train\n\nwhole = train.batch\n\n\ndef batch(step, part):\n"
                      "    if step == 1 and part == 2 and os.environ['RANK'] == '3':\n        os._exit(7)\n    return whole(step, part)\n\n\n"
                      "train.batch = batch\ntrain.main()\n")
    run_ = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", script.name], cwd=folder,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = run_.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        run_.terminate()  # it ends the ranks
        run_.communicate()
        said = f"the others did not end in {LIMIT_SECONDS} s"
    wrong = run_.returncode == 0 or "step 0: loss" not in said or "step 1: loss" in said or "did not end" in said
    print(f"{'a rank that dies':24} {'FAILED: ' + said if wrong else 'ends all'}", flush=True)
    return int(wrong)


def plan(program: Path, folder: Path, file: Path, case: Case, stages: int, settings: list[str]) -> None:
    more = settings if settings[:1] != ["--mesh"] else settings[2:]
    chunks = [f"search.chunks={case.chunks}"] if case.chunks else []
    more = [f"train.microbatches={case.parts}", *more, *([f"search.stages={stages}", f'search.schedule="{case.schedule}"', *chunks] if stages > 1 else [])]
    run(program, "plan", ROOT / "tests/models" / f"{case.model}_tiny.pt2", "--cluster", folder / "cluster.toml", "-o", file,
        *(settings[:2] if settings[:1] == ["--mesh"] else []), *[part for each in more for part in ("--set", each)])


def prepare(program: Path, folder: Path, ranks: int, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.toml").write_text(CLUSTER.format(ranks=ranks, root=ROOT))
    cases = cases_on(ranks)
    for name in names:
        case, file = cases[name], folder / f"{name}.json"
        shutil.rmtree(folder / name, ignore_errors=True)
        plan(program, folder, file, case, case.stages, case.settings)
        if case.others is not None:
            plan(program, folder, folder / "others.json", case, case.stages, case.others)
            mixed = json.loads(file.read_text())
            mixed["stages"][1:] = json.loads((folder / "others.json").read_text())["stages"][1:]
            file.write_text(json.dumps(mixed))
        run(program, "emit", file, "--backend", "torch", "-o", folder / name)
        if "draws_alike" in case.checks:
            plan(program, folder, folder / "one.json", case, 1, case.settings)
            run(program, "emit", folder / "one.json", "--backend", "torch", "-o", folder / f"{name}-one")


def main() -> int:
    if "--program" not in sys.argv:
        return on_ranks(Path(sys.argv[1]), sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--nightly", action="store_true", help="each model by each schedule")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    names = options.cases or names_of(options.ranks, options.nightly)
    prepare(options.program, options.output, options.ranks, names)
    wrong = forked.on_ranks(options.ranks, lambda: on_ranks(options.output, names), LIMIT_SECONDS_OF_ALL)
    return wrong + (dying(options.output / "gpt2-one_f_one_b-2") if options.ranks == 4 and not options.cases else 0)


if __name__ == "__main__":
    sys.exit(main())
