#!/usr/bin/env python3
"""Holds the simulated time line of a pipeline against torch.distributed.pipelining: in place of each forward, backward and update a rank sleeps for
as long as the simulation says, all of it longer by one factor, so that two cores do for many ranks. The step, and when each forward and backward begins
and ends, are then the simulated ones.

    tests/torch/time_line.py --program build/bin/meshwright -o FOLDER [CASE...]
    torchrun --nproc-per-node 4 tests/torch/time_line.py FOLDER [CASE...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from equal import ROOT, run_cases
from pipelines import BACK_AND_FORTH, INTERLEAVED, LOOPED, Case, pipeline_of, plan
from prepare import CLUSTER, run

RANKS = 4
STEP_SECONDS = 2.0  # so long a step is made to take: a few milliseconds that an event waits for a core are little then
SHARE = 0.1         # of a step, by which it may differ, and when an event begins and ends
TRIES = 3           # of which the best counts: a machine may be busy

CASES = {
    "one_f_one_b": Case("gpt2_deep", 4, parts=8),
    "gpipe": Case("gpt2_deep", 4, schedule="gpipe"),
    INTERLEAVED: Case("gpt2_deep", 4, schedule=INTERLEAVED, parts=8, chunks=2),
    LOOPED: Case("gpt2_deep", 2, schedule=LOOPED, chunks=2),
    "zb_h1": Case("gpt2_deep", 4, schedule="zb_h1", parts=8),
    "zb_v": Case("gpt2_deep", 2, schedule="zb_v", parts=8, chunks=2),
    "back_and_forth": Case("gpt2", 2, [BACK_AND_FORTH], "from_csv", chunks=2),
}

Times = dict[str, tuple[float, float]]  # by event ("2F0", "2B0", "2 update"): from when to when


class Sleep(torch.autograd.Function):
    """A forward that sleeps and gives tensors of these shapes, and its backward, of which each part is a backward of its own."""

    @staticmethod
    def forward(ctx, sleep: Callable[[str], None], backwards: list[str], number: int, made: list[torch.Tensor], weight: torch.Tensor, *received: torch.Tensor):
        ctx.sleep, ctx.backwards, ctx.number, ctx.used = sleep, iter(backwards), number, (weight, *received)
        sleep(f"F{number}")
        return tuple(made)

    @staticmethod
    def backward(ctx, *_):
        ctx.sleep(f"{next(ctx.backwards)}{ctx.number}")
        return None, None, None, None, *(torch.zeros_like(x) for x in ctx.used)


class Sleeper:
    """What a rank has of a pipeline, asleep. `times` are those of the last step, in seconds since it began."""

    def __init__(self, folder: Path, simulated: Times):
        self.program, self.sharding = pipeline_of(folder)
        self.model = self.program.Model()
        self.simulated, self.factor = simulated, 0.0
        self.times: Times = {}
        self.began = 0.0
        for stage in self.model.stages:
            stage.compute = self.compute_of(stage)

    def compute_of(self, stage) -> Callable:
        weight = torch.zeros((), requires_grad=True)
        stage.parameters = lambda: iter([weight])
        in_parts = f"{stage.STAGE}W0" in self.simulated
        backwards = ["B"] if not in_parts else ["I", "W"] if stage.RECEIVED else ["W"]  # PyTorch's first stage does nothing in its first part

        def compute(received, number, _):
            made = [torch.zeros(shape, dtype=dtype) for shape, dtype in stage.SENT.values()] or [torch.zeros(())]
            results = Sleep.apply(lambda event: self.sleep(f"{stage.STAGE}{event}"), backwards, number, made, weight, *received)
            return results if stage.SENT else results[0]

        return compute

    def sleep(self, event: str) -> None:
        start, end = self.simulated[event]
        begin = time.monotonic() - self.began
        time.sleep((end - start) * self.factor)
        self.times[event] = begin, time.monotonic() - self.began

    def step(self, factor: float) -> None:
        """All ranks begin at once, when the last of them is ready."""
        self.factor, self.times = factor, {}
        parts = [{stage.STAGE: number for stage in self.model.stages} for number in range(self.model.MICROBATCHES)]
        ready = torch.tensor(time.monotonic(), dtype=torch.float64)  # one clock for all processes of a machine
        dist.all_reduce(ready, dist.ReduceOp.MAX)
        self.began = ready.item()
        self.model.step(parts)
        for stage in self.model.stages:
            self.sleep(f"{stage.STAGE} update")


def simulated_by(groups: list[list[dict]]) -> Times:
    """Of what `meshwright simulate` says by group of devices; a stage that has devices of its own is not named there. Without the first parts of backwards
    of the first stage, in which it does nothing.
    """
    found = {}
    for number, events in enumerate(groups):
        for each in events:
            event = each["event"]
            found[event if event[0].isdigit() else f"{number} {event}" if event == "update" else f"{number}{event}"] = each["start_seconds"], each["end_seconds"]
    return {event: times for event, times in found.items() if not event.startswith("0I")}


def gathered(times: Times) -> Times:
    """Those of all ranks; of ranks at one place of a stage the slowest."""
    everything: list = [None] * dist.get_world_size()
    dist.all_gather_object(everything, times)
    found: Times = {}
    for of_rank in everything:
        for event, (start, end) in of_rank.items():
            before = found.get(event, (0.0, 0.0))
            found[event] = max(start, before[0]), max(end, before[1])
    return found


def furthest(measured: Times, simulated: Times, factor: float) -> tuple[float, str]:
    """By which share of a step a forward or a backward begins or ends at another time, at most. Not an update: before it ranks tell each other the loss."""
    assert measured.keys() == simulated.keys(), sorted(measured.keys() ^ simulated.keys())
    return max((abs(there - factor * here) / STEP_SECONDS, event) for event, times in simulated.items() if "update" not in event
               for here, there in zip(times, measured[event]))


def on_ranks(folder: Path, names: list[str]) -> int:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    wrong = 0
    for name in names:
        simulated = simulated_by(json.loads((folder / f"{name}_simulated.json").read_text()))
        predicted = max(end for _, end in simulated.values())
        factor = STEP_SECONDS / predicted
        sleeper = Sleeper(folder / name, simulated)
        sleeper.step(0.0)  # which makes the connections
        tries = []
        while len(tries) < TRIES and (not tries or min(tries)[0] > SHARE):
            sleeper.step(factor)
            measured = gathered(sleeper.times)
            took = max(end for _, end in measured.values())
            difference, event = furthest(measured, simulated, factor)
            tries.append((max(difference, abs(took / STEP_SECONDS - 1)), took, event))
        difference, took, event = min(tries)
        failed = difference > SHARE
        wrong += failed
        if dist.get_rank() == 0:
            print(f"{name:16} {len(simulated)} events, {len(tries)} tries: a step of {took:.3f} s for {STEP_SECONDS:.3f} s, at most {100 * difference:.1f} % of it "
                  f"off ({event})  {'FAILED' if failed else 'ok'}", flush=True)
    dist.destroy_process_group()
    return wrong > 0


def prepare(program: Path, folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.toml").write_text(CLUSTER.format(ranks=RANKS, root=ROOT))
    for name in names:
        case, file = CASES[name], folder / f"{name}.json"
        plan(program, folder, file, case, case.stages, case.settings)
        run(program, "emit", file, "--backend", "torch", "-o", folder / name)
        said = subprocess.run([program, "simulate", file, "--format", "json"], check=True, capture_output=True, text=True).stdout
        (folder / f"{name}_simulated.json").write_text(json.dumps([stage["events"] for stage in json.loads(said)["stages"]]))


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, RANKS, CASES, prepare, on_ranks))
