#!/usr/bin/env python3
"""Steps under budgets of memory, as MAP's two stages find them with each solver of chains, and as ours does.

    make recompute-rivals
    python bench/recompute/rivals.py [-o FOLDER] [--zoo FOLDER] [--program FILE] [--minutes N] [NAME ...]

Models of the zoo on 2x4 of eight A100s in pairs, in mixed precision as `make demo`. Budgets lie between the least for which
a plan is known with all blocks run again and what the fastest plan of all holds; ours hands its plans on from each to the next. A line for each budget: the step in ms, "-"
where no plan is found, "late" where the model's minutes were over. Then what does not hold of it, in words; the last line is the same as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "zoo"), str(ROOT / "tests" / "models")]

NAMES = ["gpt2", "bert", "vit", "vit_torchvision", "t5_large", "llama_8b", "mixtral_8x7b", "qwen_moe", "resnet50", "vgg16", "swin", "clip"]
OURS = {"blocks": ["search.recompute=blocks"], "free": ["search.recompute=free"]}
# Searches near the least that any plan holds are cut off by counted work, as are integer programs of checkmate, so that the answer is the same anywhere.
WORK = 100_000_000
MORE_WORK = {"t5_large": 1_000_000_000}  # with less not even the fastest plan of all is found: a bias that all layers share keeps it wide
RIVALS = {"none": [], **{solver: [f"search.checkpoint={solver}"] for solver in ("chen", "checkmate", "dtr", "rotor")}}
LIMITS = {"checkmate": ["search.checkmate.work_limit=50000000"]}
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the way from the least budget, near which searches take long, to one that does not bind
ROOMY = 1 << 50
DEVICE = 80 << 30
EQUAL = 1.0005  # steps that are called equal
LATE = "late"


@dataclass
class Model:
    """A model, and how plans of it are asked for."""

    name: str
    path: Path
    program: Path
    folder: Path
    rounds: int
    until: float  # of time.monotonic()

    def plan(self, budget: int, settings: list[str], handed_on: Path | None = None, file: Path | None = None) -> tuple[dict | None, str]:
        """The summary of a plan; None and why, where none is found. A plan in the file `handed_on`, of a tighter budget, is known; this one takes its place."""
        command = [self.program, "plan", self.path, "--cluster", ROOT / "configs/clusters/a100x8_nvlink_pairs.toml", "--config", ROOT / "configs/demo.toml", "--mesh", "2x4",
                   "--format", "json", "--memory-budget", str(budget)]
        if handed_on:
            command += ["-o", handed_on] + (["--known", handed_on] if handed_on.exists() else [])
        elif file:
            command += ["-o", file]
        work = MORE_WORK.get(self.name, WORK)
        for each in ["search.sure=false", f"search.step_rounds={self.rounds}", f"search.work_limit={work}", *settings]:
            command += ["--set", each]
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=max(0.1, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None, LATE
        if done.returncode == 0:
            return json.loads(done.stdout), ""
        if done.returncode != 3:
            print(f"{self.name}, {budget} bytes, {settings}: {done.stderr}", file=sys.stderr)
        return None, done.stderr


def export(name: str, path: Path) -> None:
    if path.exists():
        return
    import zoo

    zoo.export(zoo.ZOO[name][0], path)


def least_budget(model: Model, most: int) -> int | None:
    """The smallest for which a plan is known with all blocks run again, and a little more: what a refusal names. Where it names none, the last half of what the
    fastest plan holds that has one; None, if there is no time for it."""
    _, refusal = model.plan(1 << 20, OURS["blocks"])
    named = re.search(r"the smallest budget for which a plan is known is ([0-9.]+) (MiB|GiB)", refusal)
    if named:
        return int(1.02 * float(named[1]) * (1 << (20 if named[2] == "MiB" else 30)))
    least = most
    while refusal != LATE:
        made, refusal = model.plan(least // 2, OURS["blocks"])
        if not made:
            break
        least = made["peak_bytes"]
    return None if refusal == LATE else least


def compare(model: Model, keep: bool) -> tuple[list[dict], list[str]]:
    """A cell for each budget, and what there is to say."""
    name = model.name
    for kind in OURS:
        (model.folder / f"{name}_{kind}.json").unlink(missing_ok=True)
    fastest, why = model.plan(ROOMY, [])
    if not fastest:
        return [], [f"{name}: there is no plan of any budget: {why}"]
    most = fastest["peak_bytes"]
    least = least_budget(model, most)
    if least is None:
        return [], [f"{name}: there was no time to find the least budget"]
    said = []
    if least > DEVICE:
        said.append(f"{name}: its least known plan, with every block run again, holds {least / 2**30:.0f} GiB, which no A100 has; the budgets are of larger devices of its speed")
    elif most > DEVICE:
        said.append(f"{name}: its fastest plan holds {most / 2**30:.0f} GiB, more than an A100 has")
    if least >= most:
        said.append(f"{name}: no budget binds: the fastest plan of all holds no more than the smallest that is known")
        least = most
    cells = []
    for share in SHARES if least < most else (0.0,):
        budget = int(least + share * (most - least))
        steps, took, seen = {}, {}, {}
        for kind, settings in {**RIVALS, **OURS}.items():
            begin = time.monotonic()
            kept = model.folder / f"{name}_{budget >> 20}_{kind}.json" if keep else None
            made, why = model.plan(budget, [*settings, *LIMITS.get(kind, [])], model.folder / f"{name}_{kind}.json" if kind in OURS else None, kept)
            took[kind] = round(time.monotonic() - begin, 1)
            steps[kind] = round(made["step_seconds"] * 1e3, 3) if made else None
            if why == LATE:
                said.append(f"{name} at {budget / 2**20:.0f} MiB: {kind} was cut off after {took[kind]:.0f} s, when the model's minutes were over")
            elif made:
                seen[kind] = {key: made[key] for key in ("objective_seconds", "lower_bound_seconds", "step_seconds", "step_lower_bound_seconds", "peak_bytes", "status")}
                seen[kind]["again"] = [note for note in made["notes"] if "runs again" in note] if "notes" in made else []
            if kept and kind in OURS and made:
                kept.write_bytes((model.folder / f"{name}_{kind}.json").read_bytes())
            steps[kind] = LATE if why == LATE else steps[kind]
        cells.append({"model": name, "budget_bytes": budget, "step_ms": steps, "seconds": took, "plans": seen})
        line = " ".join(f"{steps[kind] if steps[kind] else '-':>10}" if not isinstance(steps[kind], float) else f"{steps[kind]:10.3f}" for kind in steps)
        print(f"{name:<16} {budget / 2**20:9.0f} MiB {line}", flush=True)
        if time.monotonic() > model.until:
            break
    return cells, said


def best(cell: dict, kinds: dict) -> float:
    return min((cell["step_ms"][kind] for kind in kinds if isinstance(cell["step_ms"][kind], float)), default=float("inf"))


def complaints(cell: dict) -> list[str]:
    """What is not as it must be: a plan below a bound, ours behind a rival, a solver of chains behind no solver at all, the exact ones far behind the rules of thumb."""
    where = f"{cell['model']} at {cell['budget_bytes'] / 2**20:.0f} MiB"
    said = []
    for kind, plan in cell["plans"].items():
        for of in ("objective_seconds", "step_seconds"):
            bound = plan["lower_bound_seconds" if of == "objective_seconds" else "step_lower_bound_seconds"]
            if plan[of] < bound * (1 - 1e-9):
                said.append(f"{where}: {kind} is below its own bound, {plan[of]} < {bound}")
        # Those of plans in which something may run again are of any plan.
        for other, proven in cell["plans"].items():
            if other != "none" and plan["objective_seconds"] < proven["lower_bound_seconds"] * (1 - 1e-9):
                said.append(f"{where}: {kind} has an objective below the bound of {other}, {plan['objective_seconds']} < {proven['lower_bound_seconds']}")
        if plan["peak_bytes"] > cell["budget_bytes"]:
            said.append(f"{where}: {kind} holds more than the budget")
    ours, theirs = best(cell, OURS), best(cell, RIVALS)
    if ours > EQUAL * theirs:
        said.append(f"{where}: ours {ours:.3f} ms, the best of the others {theirs:.3f} ms")
    steps = cell["step_ms"]
    for kind in steps:
        if kind != "none" and isinstance(steps["none"], float) and best(cell, {kind: None}) > EQUAL * steps["none"] and steps[kind] != LATE:
            said.append(f"{where}: {kind} is behind what keeps everything")
    for exact in ("checkmate", "rotor"):
        thumb = best(cell, {"chen": None, "dtr": None})
        if steps[exact] != LATE and best(cell, {exact: None}) > 1.005 * thumb:
            said.append(f"{where}: {exact} {steps[exact]} ms is behind chen or dtr, {thumb:.3f} ms")
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright")
    parser.add_argument("--zoo", type=Path, default=ROOT / "build" / "zoo", help="the folder of exported models")
    parser.add_argument("--rounds", type=int, default=0, help="[search] step_rounds of all of them, which take most of the time near the least budget")
    parser.add_argument("--minutes", type=float, default=600, help="for each model; plans that are later are left out")
    parser.add_argument("--keep", action="store_true", help="write every plan to the folder")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "recompute")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    options.zoo.mkdir(parents=True, exist_ok=True)
    print(f"{'model':<16} {'budget':>13} " + " ".join(f"{kind:>10}" for kind in {**RIVALS, **OURS}), flush=True)
    cells, said = [], []
    for name in options.names or NAMES:
        path = options.zoo / f"{name}.pt2"
        export(name, path)
        made, notes = compare(Model(name, path, options.program, options.output, options.rounds, time.monotonic() + 60 * options.minutes), options.keep)
        cells += made
        said += notes + [line for cell in made for line in complaints(cell)]
        (options.output / "rivals.json").write_text(json.dumps(cells, indent=1) + "\n")
    won = sum(best(cell, OURS) <= EQUAL * best(cell, RIVALS) for cell in cells)
    free = sum(best(cell, {"free": None}) <= EQUAL * best(cell, RIVALS) for cell in cells)
    print(f"ours is the fastest or equal in {won} of {len(cells)} cells, \"free\" alone in {free}")
    print(*(f"  {line}" for line in said), sep="\n", end="\n" if said else "")
    print(json.dumps({"cells": len(cells), "ours_fastest_or_equal": won, "free_fastest_or_equal": free, "table": cells}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
