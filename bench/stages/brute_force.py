#!/usr/bin/env python3
"""Every cut of a small model at its blocks, with every number of devices of each stage and every schedule, planned and simulated; and what `[search] inter = "joint"` finds.

    bench/stages/brute_force.py --program build/bin/meshwright --cluster FILE.toml --devices N --module inner.transformer.h --blocks 6 --microbatches 4,8 [--schedules gpipe,one_f_one_b] [--set KEY=VALUE ...] MODEL

A combination is a number of microbatches, a schedule, blocks of each stage (each has one at least) and devices of each stage (parts of the cluster, all
devices used); its stages are planned by the exact search on all meshes. Prints the best combinations, then what joint finds with the same schedules and
microbatches and how many combinations are shorter, and last one JSON object. Combinations that are refused or do not fit are counted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

SHOWN = 10
SHORTER = 1 - 1e-9


@dataclass(frozen=True)
class Combination:
    microbatches: int
    schedule: str
    blocks: tuple[int, ...]   # by stage
    devices: tuple[int, ...]  # by stage

    def text(self) -> str:
        stages = " | ".join(f"{blocks} blocks on {devices}" for blocks, devices in zip(self.blocks, self.devices, strict=True))
        return f"{self.schedule or 'one stage'}, {self.microbatches} microbatches: {stages}"


def compositions(total: int, parts: int, sizes: list[int]) -> Iterator[tuple[int, ...]]:
    for chosen in itertools.product(sizes, repeat=parts):
        if sum(chosen) == total:
            yield chosen


def combinations(blocks: int, devices: int, microbatches: list[int], schedules: list[str]) -> Iterator[Combination]:
    sizes = [size for size in range(1, devices + 1) if devices % size == 0]
    for stages in range(1, min(blocks, devices) + 1):
        for cut in compositions(blocks, stages, list(range(1, blocks + 1))):
            for counts in compositions(devices, stages, sizes):
                for number in microbatches:
                    for schedule in schedules if stages > 1 else [""]:
                        yield Combination(number, schedule, cut, counts)


def planned(command: list[str]) -> tuple[float | None, dict, float]:
    """The step in seconds (nothing where there is no plan), what was printed, and the seconds that it took."""
    began = time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if run.returncode not in (0, 2, 3, 4):
        sys.exit(f"{' '.join(command)}\nexit status {run.returncode}\n{run.stderr}")
    said = json.loads(run.stdout) if run.returncode == 0 else {}
    return said.get("step_seconds"), said, seconds


def settings_of(combination: Combination, module: str) -> list[str]:
    said = [f"train.microbatches={combination.microbatches}", f"search.stages={len(combination.blocks)}"]
    if len(combination.blocks) == 1:
        return said
    said += [f'search.schedule="{combination.schedule}"', f'search.stage_devices="{",".join(map(str, combination.devices))}"']
    said.remove(f"search.stages={len(combination.blocks)}")
    block = 0
    for stage, count in enumerate(combination.blocks):
        for _ in range(count):
            said.append(f'pins."{module}.{block}"="stage {stage}"')
            block += 1
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--program", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--module", required=True, help="whose children are the blocks")
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--microbatches", default="4")
    parser.add_argument("--schedules", default="gpipe,one_f_one_b")
    parser.add_argument("--set", action="append", default=[], help="for each plan, and for joint's")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    microbatches, schedules = [int(each) for each in given.microbatches.split(",")], given.schedules.split(",")

    def command(settings: list[str]) -> list[str]:
        made = [given.program, "plan", given.model, "--cluster", given.cluster, "--format", "json"]
        for setting in given.set + settings:
            made += ["--set", setting]
        return made

    every = list(combinations(given.blocks, given.devices, microbatches, schedules))
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        steps = list(pool.map(lambda each: planned(command(settings_of(each, given.module)))[0], every))
    found = sorted(((step, each) for step, each in zip(steps, every, strict=True) if step is not None), key=lambda pair: pair[0])
    print(f"{len(every)} combinations, {len(every) - len(found)} without a plan")
    for step, each in found[:SHOWN]:
        print(f"  {1e3 * step:9.4f} ms  {each.text()}")

    joint: list[tuple[float, str]] = []
    taken = 0.0
    for number in microbatches:
        for schedule in schedules:
            step, said, seconds = planned(command([f"train.microbatches={number}", f'search.schedule="{schedule}"', 'search.inter="joint"']))
            taken += seconds
            if step is None:
                continue
            chosen = said["stage_search"]["chosen"]
            joint.append((step, f"{chosen['stages']} stages on {chosen.get('stage_devices', 'as many each')}, {schedule}, {number} microbatches"))
    step, text = min(joint)
    shorter = sum(each < step * SHORTER for each, _ in found)
    print(f"joint: {1e3 * step:.4f} ms, {text}; {shorter} combinations are shorter ({taken:.1f} s)")
    print(json.dumps({"combinations": len(every), "planned": len(found), "best_ms": 1e3 * found[0][0], "best": found[0][1].text(), "joint_ms": 1e3 * step, "joint": text, "shorter": shorter}))


if __name__ == "__main__":
    main()
