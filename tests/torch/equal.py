#!/usr/bin/env python3
"""Holds emitted programs against the models that they came from: on several ranks the loss, every gradient and every
parameter after five steps of AdamW are those of one device.

    tests/torch/equal.py --ranks 4 FOLDER [CASE...]
    torchrun --nproc-per-node 4 tests/torch/equal.py FOLDER [CASE...]

A case is a folder in FOLDER with the emitted model.py, all of them unless some are named; its name begins with the model's ("gpt2_tiny-optimal"). One
process group serves all cases of one number of ranks. Prints a line for each case; exits with 1 if one is wrong.
`prepare.py` makes the folders. Started with --ranks it starts the ranks; those that do not end in time are ended, which is a failure.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.distributed as dist
import transformers.models.gpt2.modeling_gpt2  # noqa: F401  (what all its models need, once for all ranks)

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "models"), str(ROOT / "tests" / "closeness")]

import export  # noqa: E402  (found through the paths above)
import forked  # noqa: E402
from closeness import distance, distance_of_numbers  # noqa: E402

STEPS = 5
LIMIT_SECONDS = 480
# Of the largest element. What is exported in float32 keeps constants and casts to float32 when it computes in float64.
TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-4}


def emitted(folder: Path):
    """The modules model.py and sharding.py of a folder; each folder has its own."""
    spec = importlib.util.spec_from_file_location("sharding", folder / "sharding.py")
    sharding = sys.modules["sharding"] = importlib.util.module_from_spec(spec)  # until the next folder's
    spec.loader.exec_module(sharding)
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    model = sys.modules["model"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    return model, sharding


def sample(inputs: dict[str, torch.Tensor], step: int) -> dict[str, torch.Tensor]:
    """Inputs in the place of those that the model was exported with."""
    generator = torch.Generator().manual_seed(step)
    made = {}
    for name, like in inputs.items():
        if name == "attention_mask":
            made[name] = torch.ones(like.shape, dtype=like.dtype)
            made[name][0, -2:] = 0
        elif like.dtype.is_floating_point:
            made[name] = torch.randn(like.shape, generator=generator).to(like.dtype)
        else:
            limit = export.CLASSES if name == "labels" and "images" in inputs or "pixel_values" in inputs and name == "labels" else export.VOCABULARY
            made[name] = torch.randint(2, limit, like.shape, generator=generator)
            if name == "labels" and like.dim() == 2:
                made[name][:3, 1] = -100
    return made


def optimizer_of(parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, eps=1e-5, weight_decay=0.01)  # eps as OptimizerSettings has it


class Serial:
    """What one device computes, once for each model."""

    @staticmethod
    def shared(names: list[str]) -> dict[str, Serial]:
        """Of all these models: each rank computes some of them, and has all."""
        ranks, here = dist.get_world_size(), dist.get_rank()
        everything: list = [None] * ranks
        dist.all_gather_object(everything, {name: Serial(name) for name in names[here::ranks]})
        return {name: serial for some in everything for name, serial in some.items()}

    def __init__(self, name: str):
        torch.manual_seed(0)
        model, inputs = export.MODELS[name]()
        model.train()
        # In float32, batch norms over a handful of numbers and AdamW on gradients near zero make five steps chaotic; but
        # PyTorch multiplies by groups, as experts do, in no wider type.
        self.dtype = torch.float32 if "mixtral" in name else torch.float64
        export.fill(model)
        model.to(self.dtype)
        self.inputs = {key: value.to(self.dtype) if value.is_floating_point() else value for key, value in inputs.items()}
        self.start = copy.deepcopy({**dict(model.named_buffers()), **model.state_dict()})
        optimizer = optimizer_of(model.parameters())
        self.losses, self.gradients = [], {}
        for step in range(STEPS):
            loss = model(**sample(self.inputs, step))
            loss.backward()
            if step == 0:
                self.gradients = {key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None}
            self.losses.append(loss.item())
            optimizer.step()
            optimizer.zero_grad()
        self.end = copy.deepcopy(model.state_dict())


def worst(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> tuple[float, str]:
    """The largest difference of an element over its tensor's largest element, and where it is."""
    largest = (0.0, "-")
    for name, want in wanted.items():
        if name not in found:
            return float("inf"), name + " (missing)"
        if not want.is_floating_point():
            difference = float((found[name] != want).sum())
        else:
            difference = distance(found[name], want, floor=1e-3)
        if difference > largest[0]:
            largest = (difference, name)
    return largest


def check(folder: Path, serial: Serial) -> tuple[float, str]:
    torch.manual_seed(0)  # ranks have drawn different numbers until here
    program, sharding = emitted(folder)
    model = program.Model().to(serial.dtype)
    known = {*model.state_dict(), *model.TIED}
    model.load_whole({name: value for name, value in serial.start.items() if name in known})
    optimizer = optimizer_of(model.parameters())
    largest = (0.0, "-")

    def hold(difference: tuple[float, str]) -> None:
        nonlocal largest
        if difference[0] > largest[0]:
            largest = difference

    for step in range(STEPS):
        local = model.local_batch(sample(serial.inputs, step))
        loss = model(*local.values())
        loss.backward()
        hold((distance_of_numbers(loss.item(), serial.losses[step], floor=1e-3), f"loss of step {step}"))
        if step == 0:
            gradients = {name: sharding.whole_of(value.grad, value.sharding) for name, value in model.named_parameters() if value.grad is not None}
            hold(worst(gradients, {name: value for name, value in serial.gradients.items() if name not in model.TIED}))
        optimizer.step()
        optimizer.zero_grad()
    hold(worst(model.whole_state_dict(), serial.end))
    return largest


def run_cases(about: str | None, ranks: int, cases: Iterable[str], prepare: Callable[[Path, Path, list[str]], None], on_ranks: Callable[[Path, list[str]], int],
              besides: Callable[[Path, Path], int] = lambda *_: 0) -> int:
    """A script with two forms: with --program it prepares the cases, all if none is named, and goes on as ranks; else it is one of these.
    Where it has all cases, it does something besides, without ranks. Gives how much is wrong.
    """
    if "--program" not in sys.argv:
        return on_ranks(Path(sys.argv[1]), sys.argv[2:])
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    names = options.cases or [*cases]
    prepare(options.program, options.output, names)
    wrong = 0 if options.cases else besides(options.program, options.output)
    return wrong + forked.on_ranks(ranks, lambda: on_ranks(options.output, names), LIMIT_SECONDS)


def on_ranks(root: Path, cases: list[str]) -> int:
    torch.set_num_threads(1)
    wrong = 0
    cases = cases or sorted(path.parent.name for path in root.glob("*/model.py"))
    dist.init_process_group("gloo")
    serial = Serial.shared(sorted({case.split("-")[0] for case in cases}))
    for case in cases:
        one_device = serial[case.split("-")[0]]
        try:
            difference, where = check(root / case, one_device)
            problem = "" if difference <= TOLERANCES[one_device.dtype] else "WRONG"
        except Exception as error:  # every rank goes on with the next case, or none: the line says what it was
            if len(cases) == 1:
                raise
            difference, where, problem = float("nan"), f"{type(error).__name__}: {error}".splitlines()[0], "WRONG"
        if dist.get_rank() == 0:
            print(f"{case:44} {difference:8.1e}  {where}  {problem}", flush=True)
        wrong += bool(problem)
    dist.destroy_process_group()
    return wrong > 0


def main() -> int:
    if sys.argv[1] == "--ranks":
        return forked.on_ranks(int(sys.argv[2]), lambda: on_ranks(Path(sys.argv[3]), sys.argv[4:]), LIMIT_SECONDS)
    return on_ranks(Path(sys.argv[1]), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
