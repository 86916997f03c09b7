#!/usr/bin/env python3
"""Whether any plan that is found another way has a shorter step than the search's: one line for each model, cluster and mesh.

    make step-rivals
    python bench/search/rivals.py [-o FOLDER] [--program FILE] [--clusters NAME,...] [--meshes SHAPE,...] [NAME ...]

Rivals are other solvers, the search by the objective alone, the baselines of every plan's comparisons, and searches of parts of the space, which have
rounds of their own: data parallelism, stages of ZeRO, Megatron's, tensor parallelism inside of the last axis. All of them are plans of the same space on
the same mesh, under the same budget. Ends with 1 where one is faster than the plan without any of these settings.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "zoo"), str(Path(__file__).resolve().parent)]

from steps import arguments, commands, planned  # noqa: E402

_TIE = 1e-9  # of a step


def rivals(mesh: str) -> dict[str, list[str]]:
    """Settings of each."""
    data_parallel = ["search.batch_axes=all"]
    ways = {
        "TAP": ["search.intra=tap"],
        "the objective": ["search.step_rounds=0"],
        "Megatron": ["search.weights=sharded", "search.zero=0"],
        **{f"ZeRO-{stage}": [*data_parallel, f"search.zero={stage}"] for stage in range(4)},
    }
    axes = mesh.split("x")
    if len(axes) > 1:
        outer = ["search.batch_axes=" + ",".join(map(str, range(len(axes) - 1)))]
        ways |= {"tensor inside": [*outer, "search.zero=0"], "tensor inside, ZeRO": outer}
    return ways


def main() -> int:
    warnings.filterwarnings("ignore")
    options = arguments(__doc__)
    rows = beaten = 0
    print(f"{'model':<16} {'cluster':<20} {'mesh':>6} {'step':>12} {'best rival':>12} {'over ours':>9}  which", flush=True)
    for name, cluster, mesh, command in commands(options):
        _, ours = planned(command)
        if ours is None or ours["step_seconds"] is None:
            print(f"{name:<16} {cluster:<20} {mesh:>6}  no plan", flush=True)
            continue
        steps = {each["name"]: each["step_seconds"] for each in ours["comparisons"] if each["step_seconds"] and not each.get("note")}
        for way, settings in rivals(mesh).items():
            _, plan = planned([*command, *(part for each in settings for part in ("--set", each))])
            if plan is not None and plan["step_seconds"] is not None:
                steps[way] = plan["step_seconds"]
        best = min(steps, key=steps.get)
        ratio = steps[best] / ours["step_seconds"]
        rows += 1
        beaten += ratio < 1 - _TIE
        print(f"{name:<16} {cluster:<20} {mesh:>6} {1e3 * ours['step_seconds']:>9.3f} ms {1e3 * steps[best]:>9.3f} ms {ratio:>9.4f}  {best}", flush=True)
    print(f"faster than ours: {beaten} of {rows}")
    return 1 if beaten else 0


if __name__ == "__main__":
    sys.exit(main())
