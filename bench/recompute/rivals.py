#!/usr/bin/env python3
"""Steps under budgets of memory, as MAP's two stages find them with each solver of chains, and as ours does.

    make recompute-rivals
    python bench/recompute/rivals.py [-o FOLDER] [--zoo FOLDER] [--program FILE] [NAME ...]

Models of the zoo on 2x4 of eight A100s in pairs, in mixed precision as `make demo`. Budgets lie between the least for which
a plan is known with all blocks run again and what the fastest plan of all holds; ours hands its plans on from each to the next. A line for each budget: the step in ms, "-"
where no plan is found; the last line is the same as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "zoo"), str(ROOT / "tests" / "models")]

NAMES = ["gpt2", "bert", "vit", "vit_torchvision", "t5_large", "llama_8b", "mixtral_8x7b", "qwen_moe", "resnet50", "vgg16", "swin", "clip"]
OURS = {"blocks": ["search.recompute=blocks"], "free": ["search.recompute=free"]}
# Searches near the least that any plan holds are cut off by counted work, as are integer programs of checkmate, so that the answer is the same anywhere.
WORK = "search.work_limit=100000000"
RIVALS = {"none": [], **{solver: [f"search.checkpoint={solver}"] for solver in ("chen", "checkmate", "dtr", "rotor")}}
LIMITS = {"checkmate": ["search.checkmate.work_limit=50000000"]}
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the way from the least budget, near which searches take long, to one that does not bind
ROOMY = 1 << 50
EQUAL = 1.0005  # steps that are called equal


def export(name: str, path: Path) -> None:
    if path.exists():
        return
    import zoo

    zoo.export(zoo.ZOO[name][0], path)


def plan(program: Path, model: Path, budget: int, settings: list[str], rounds: int = 0, handed_on: Path | None = None) -> tuple[dict | None, str]:
    """The summary of a plan; None and why, where none is found. A plan in the file `handed_on`, of a tighter budget, is known; this one takes its place."""
    command = [program, "plan", model, "--cluster", ROOT / "configs/clusters/a100x8_nvlink_pairs.toml", "--config", ROOT / "configs/demo.toml", "--mesh", "2x4", "--format", "json",
               "--memory-budget", str(budget)]
    if handed_on:
        command += ["-o", handed_on] + (["--known", handed_on] if handed_on.exists() else [])
    for each in ["search.sure=false", f"search.step_rounds={rounds}", WORK, *settings]:
        command += ["--set", each]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        return None, done.stderr
    if done.returncode != 0:
        sys.exit(f"{model.name}, {settings}: {done.stderr}")
    return json.loads(done.stdout), ""


def least_budget(program: Path, model: Path) -> int:
    """The smallest for which a plan is known with all blocks run again, and a little more: what a refusal names."""
    _, refusal = plan(program, model, 1 << 20, OURS["blocks"])
    number, unit = re.search(r"the smallest budget for which a plan is known is ([0-9.]+) (MiB|GiB)", refusal).groups()
    return int(1.02 * float(number) * (1 << (20 if unit == "MiB" else 30)))


def compare(program: Path, name: str, model: Path, rounds: int, folder: Path) -> list[dict]:
    for kind in OURS:
        (folder / f"{name}_{kind}.json").unlink(missing_ok=True)
    most = plan(program, model, ROOMY, [])[0]["peak_bytes"]
    least = least_budget(program, model)
    cells = []
    for share in SHARES:
        budget = int(least + share * (most - least))
        steps, took = {}, {}
        for kind, settings in {**RIVALS, **OURS}.items():
            begin = time.monotonic()
            made, _ = plan(program, model, budget, [*settings, *LIMITS.get(kind, [])], rounds, folder / f"{name}_{kind}.json" if kind in OURS else None)
            took[kind] = round(time.monotonic() - begin, 1)
            steps[kind] = round(made["step_seconds"] * 1e3, 3) if made else None
        cells.append({"model": name, "budget_bytes": budget, "step_ms": steps, "seconds": took})
        said = " ".join(f"{steps[kind]:10.3f}" if steps[kind] else f"{'-':>10}" for kind in steps)
        print(f"{name:<16} {budget / 2**20:9.0f} MiB {said}", flush=True)
    return cells


def best(cell: dict, kinds: dict) -> float:
    return min((cell["step_ms"][kind] for kind in kinds if cell["step_ms"][kind]), default=float("inf"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright")
    parser.add_argument("--zoo", type=Path, default=ROOT / "build" / "zoo", help="the folder of exported models")
    parser.add_argument("--rounds", type=int, default=0, help="[search] step_rounds of all of them, which take most of the time near the least budget")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "recompute")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    options.zoo.mkdir(parents=True, exist_ok=True)
    print(f"{'model':<16} {'budget':>13} " + " ".join(f"{kind:>10}" for kind in {**RIVALS, **OURS}), flush=True)
    cells = []
    for name in options.names or NAMES:
        model = options.zoo / f"{name}.pt2"
        export(name, model)
        cells += compare(options.program, name, model, options.rounds, options.output)
    won = sum(best(cell, OURS) <= EQUAL * best(cell, RIVALS) for cell in cells)
    free = sum(best(cell, {"free": None}) <= EQUAL * best(cell, RIVALS) for cell in cells)
    print(f"ours is the fastest or equal in {won} of {len(cells)} cells, \"free\" alone in {free}")
    for cell in cells:
        ours, theirs = best(cell, OURS), best(cell, RIVALS)
        if ours > EQUAL * theirs:
            print(f"  not so: {cell['model']} at {cell['budget_bytes'] / 2**20:.0f} MiB, ours {ours:.3f} ms, the best of the others {theirs:.3f} ms")
    (options.output / "rivals.json").write_text(json.dumps(cells, indent=1) + "\n")
    print(json.dumps({"cells": len(cells), "ours_fastest_or_equal": won, "free_fastest_or_equal": free, "table": cells}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
