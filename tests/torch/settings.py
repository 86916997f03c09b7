#!/usr/bin/env python3
"""Runs emitted programs as their plans set the training: configs/demo.toml and configs/microbatches.toml as they are, and other
microbatches, types and stages of ZeRO. Four ranks must do what one device does with the same settings.

    tests/torch/settings.py --program build/bin/meshwright -o FOLDER [CASE...]
    torchrun --nproc-per-node 4 tests/torch/settings.py FOLDER [CASE...]

A model that stays in the type of its export runs in float64 and is held within 1e-5, like those of equal.py. One in bfloat16 rounds
otherwise on every mesh: its losses, its gradients and what the steps change are held within a few hundredths, and the types of
masters, values and gradients exactly.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

from equal import ROOT, distance_of_numbers, emitted, export, run_cases, sample, worst
from prepare import CLUSTER, run

RANKS, STEPS = 4, 3
EXACT = 1e-5
ROUNDED = 0.04  # of a loss, and of the norm of a difference
SLOW = 1e-4  # a learning rate with which no step reaches the next number of bfloat16


@dataclass
class Case:
    model: str
    settings: list[str] = field(default_factory=list)
    config: str = ""  # in configs


PARTS = ["model.batch=16", "train.microbatches=4"]
CASES = {
    "demo": Case("gpt2", config="demo.toml"),
    "microbatches": Case("gpt2", config="microbatches.toml"),
    "zero3": Case("llama", config="zero3.toml"),
    "kept": Case("gpt2", [*PARTS, "search.zero=1"]),
    "reduced": Case("llama", [*PARTS, "train.gradients=reduced", "search.zero=1"]),
    "reduced_shards": Case("gpt2", [*PARTS, "search.zero=3", "search.regather=always", "search.batch_axes=all"]),
    "ops_again": Case("gpt2", [*PARTS, "search.zero=3", *[f'pins.{op}="recompute"' for op in ("layer_norm_1", "addmm_2", "mul_3", "scaled_dot_product_attention_1")]]),
    "sharded_weights": Case("gpt2", [*PARTS, "search.weights=sharded", "search.zero=0"]),
    "buffers": Case("resnet", ["model.batch=16", "train.microbatches=2", "train.batch_coupling=allow", "search.zero=0", "search.batch_axes=all"]),
}

# Settings that no emitted program honours, and what is said of them.
REFUSED = {"narrow_master": (Case("gpt2", ["train.master_dtype=bf16"]), "[train] master_dtype: the optimizer's copy of 'inner.transformer.")}


class Serial:
    """One device with the same settings: a master, values that are copies of it, gradients that add up in their own type."""

    def __init__(self, name: str, program, training: dict):
        torch.manual_seed(0)
        self.model, inputs = export.MODELS[f"{name}_tiny"]()
        self.model.train()
        export.fill(self.model)
        self.half = training["param_dtype"] == "bfloat16"
        self.parts = program.Model.MICROBATCHES
        kind = torch.bfloat16 if self.half else torch.float64
        self.masters = {key: value.detach().to(torch.float32 if self.half else kind).clone() for key, value in self.model.named_parameters()}
        self.model.to(kind)
        name_of = {value: key for key, value in self.model.named_parameters()}
        tied = {key: self.masters[name_of[value]] for key, value in self.model.named_parameters(remove_duplicate=False)}
        self.start = {key: value.clone() for key, value in {**dict(self.model.named_buffers()), **self.model.state_dict(), **tied}.items()}
        self.summed = getattr(torch, training["reduce_dtype"]) if training["reduce_dtype"] else kind
        self.inputs = {key: torch.zeros(layout.shape, dtype=kind if inputs[key].is_floating_point() else inputs[key].dtype)
                       for key, layout in program.Model.INPUTS.items()}
        self.optimizer = optimizer_of(self.masters.values(), self.half)

    def batch(self, step: int, part: int) -> dict[str, torch.Tensor]:
        return sample(self.inputs, step * self.parts + part)

    def step(self, number: int) -> float:
        """The loss; gradients are the masters' then."""
        with torch.no_grad():
            for key, value in self.model.named_parameters():
                value.copy_(self.masters[key])
        total, sums = 0.0, {}
        for part in range(self.parts):
            loss = self.model(**self.batch(number, part)) / self.parts
            loss.backward()
            total += loss.item()
            for key, value in self.model.named_parameters():
                if value.grad is not None:
                    here = value.grad.to(self.summed)
                    sums[key] = here if key not in sums else sums[key] + here
                    value.grad = None
        for key, value in sums.items():
            self.masters[key].grad = value.to(self.masters[key].dtype)
        return total


def optimizer_of(parameters, half: bool) -> torch.optim.Optimizer:
    if half:  # AdamW would make a sign of what is rounded
        return torch.optim.SGD(parameters, lr=SLOW, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=1e-3, eps=1e-5, weight_decay=0.01)


def far(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """The norm of all differences over that of what is wanted."""
    difference = sum((found[key].double() - value.double()).square().sum() for key, value in wanted.items())
    return float((difference / sum(value.double().square().sum() for value in wanted.values())).sqrt())


def check(folder: Path, name: str, training: dict) -> str:
    """What is wrong; empty: nothing."""
    program, sharding = emitted(folder)
    serial = Serial(name, program, training)
    model = program.Model() if serial.half else program.Model().to(torch.float64)
    known = {*model.state_dict(), *model.TIED}
    model.load_whole({key: value for key, value in serial.start.items() if key in known})
    ours = optimizer_of(model.parameters(), serial.half)
    serial_name = {key: next(name for name in model.names_of(key) if name in serial.masters) for key, _ in model.named_parameters()}
    masters = {key: serial.masters[name] for key, name in serial_name.items()}
    for step in range(STEPS):
        wanted, total = serial.step(step), 0.0
        for part in model.microbatches():
            loss = model(*model.local_batch(serial.batch(step, part)).values()) / model.MICROBATCHES
            loss.backward()
            total += loss.item()
        if (difference := distance_of_numbers(total, wanted, floor=1e-3)) > (ROUNDED if serial.half else EXACT):
            return f"the loss of step {step} is {total}, not {wanted}: {difference:.1e}"
        trained = {key: value for key, value in model.named_parameters() if value.grad is not None}
        gradients = {key: sharding.whole_of(value.grad, value.sharding) for key, value in trained.items()}
        expected = {key: value.grad for key, value in masters.items() if value.grad is not None}
        if set(gradients) != set(expected):
            return f"gradients of {sorted(set(gradients) ^ set(expected))[0]} are on one side alone"
        if serial.half:
            kinds = {(value.dtype, value.grad.dtype) for value in trained.values()}
            if kinds != {(torch.float32, torch.float32)}:
                return f"masters and gradients are {kinds}"
            values = {sharding.used(value).dtype for value in trained.values()}
            if values != {torch.bfloat16}:
                return f"what is computed with is {values}"
        difference, where = (far(gradients, expected), "all") if serial.half else worst(gradients, expected)
        if not difference <= (ROUNDED if serial.half else EXACT):
            return f"gradients of step {step} differ by {difference:.1e} ({where})"
        for optimizer in (ours, serial.optimizer):
            optimizer.step()
            optimizer.zero_grad()
    whole = model.whole_state_dict()
    if not serial.half:
        end = {**serial.model.state_dict(), **masters}
        difference, where = worst(whole, {key: value for key, value in end.items() if key not in model.TIED})
        return "" if difference <= EXACT else f"{where} differs by {difference:.1e} at the end"
    difference = far({key: whole[key] - serial.start[name] for key, name in serial_name.items()},
                     {key: masters[key] - serial.start[name] for key, name in serial_name.items()})
    return "" if difference <= ROUNDED else f"what the steps changed differs by {difference:.1e}"


def on_ranks(folder: Path, cases: list[str]) -> int:
    torch.set_num_threads(1)
    wrong = 0
    for case in cases:
        training = json.loads((folder / f"{case}.json").read_text())["training"]
        try:
            problem = check(folder / case, CASES[case].model, training)
        except Exception as error:  # on every rank: the line says what it was
            if len(cases) == 1:
                raise
            problem = f"{type(error).__name__}: {error}"
        if dist.get_rank() == 0:
            print(f"{case:20} {'FAILED: ' + problem if problem else 'ok'}", flush=True)
        wrong += bool(problem)
    dist.destroy_process_group()
    return wrong > 0


def plan(program: Path, folder: Path, name: str, case: Case) -> Path:
    config = ["--config", ROOT / "configs" / case.config] if case.config else []
    more = [part for each in case.settings for part in ("--set", each)]
    run(program, "plan", ROOT / "tests/models" / f"{case.model}_tiny.pt2", "--cluster", folder / "cluster.toml", "--mesh", "2x2", *config, *more,
        "-o", folder / f"{name}.json")
    return folder / f"{name}.json"


def prepare(program: Path, folder: Path, cases: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.toml").write_text(CLUSTER.format(ranks=RANKS, root=ROOT))
    for name in cases:
        run(program, "emit", plan(program, folder, name, CASES[name]), "--backend", "torch", "-o", folder / name)


def refuse(program: Path, folder: Path) -> int:
    """How many settings that can't be honoured are emitted, or refused with other words."""
    wrong = 0
    for name, (case, words) in REFUSED.items():
        done = subprocess.run([program, "emit", plan(program, folder, name, case), "--backend", "torch", "-o", folder / name], capture_output=True, text=True)
        refused = done.returncode == 2 and words in done.stderr
        print(f"{name:20} {'refused' if refused else f'FAILED: exit code {done.returncode}, {done.stderr}'}", flush=True)
        wrong += not refused
    return wrong


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, RANKS, CASES, prepare, on_ranks, refuse))
