#!/usr/bin/env python3
"""How near the steps of the zoo's plans are to their bounds: one line for each model, cluster and mesh, then the gaps of all.

    make step-gaps
    python bench/search/steps.py [-o FOLDER] [--program FILE] [--clusters NAME,...] [--meshes SHAPE,...] [NAME ...]

A gap is the simulated step over what no plan of that mesh is below. CPU seconds are of the whole command, and of one without rounds of searches by
the step ([search] step_rounds = 0), with the step that it gives.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "zoo"), str(Path(__file__).resolve().parent)]

from search import cluster_file, timed  # noqa: E402

CLUSTERS = {"a100x8_nvlink_pairs": ["8", "2x4", "2x2x2"], "a100x8_nvswitch": ["8", "2x4", "2x2x2"], "h100x64": ["64", "8x8", "2x4x8"]}


def planned(command: list[str]) -> tuple[float, dict | None]:
    seconds, done = timed(command)
    return seconds, json.loads(done.stdout) if done.stdout.startswith("{") else None


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models of the zoo; all if none is named")
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    parser.add_argument("--meshes", default="", help="instead of those of each cluster")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "zoo", help="the folder for exported models")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def commands(options: argparse.Namespace) -> Iterator[tuple[str, str, str, list[str]]]:
    """The model, cluster and mesh of each plan, and the command that makes it. Models are exported on the way."""
    import zoo  # noqa: PLC0415  (seconds)

    for name, (make, _) in zoo.ZOO.items():
        if options.names and name not in options.names:
            continue
        path = options.output / f"{name}.pt2"
        zoo.export(make, path)
        for cluster in options.clusters.split(","):
            for mesh in options.meshes.split(",") if options.meshes else CLUSTERS[cluster]:
                yield name, cluster, mesh, [str(options.program), "plan", str(path), "--cluster", str(cluster_file(cluster)), "--format", "json",
                                            "--set", "train.dtype=bf16", "--set", "train.batch_coupling=allow", "--mesh", mesh]


def main() -> int:
    warnings.filterwarnings("ignore")
    options = arguments(__doc__)
    gaps, times = [], []
    print(f"{'model':<16} {'cluster':<20} {'mesh':>6} {'step':>12} {'bound':>12} {'gap':>8} {'by objective':>13} {'CPU s':>7} {'without':>8}", flush=True)
    for name, cluster, mesh, command in commands(options):
        seconds, plan = planned(command)
        before, first = planned([*command, "--set", "search.step_rounds=0"])
        if plan is None or plan["step_seconds"] is None:
            print(f"{name:<16} {cluster:<20} {mesh:>6}  {'no plan' if plan is None else plan['reason'][:80]}", flush=True)
            continue
        step, bound = plan["step_seconds"], plan["step_lower_bound_seconds"]
        gaps.append(step / bound - 1 if bound > 0 else float("inf"))
        times.append(seconds / before)
        print(f"{name:<16} {cluster:<20} {mesh:>6} {1e3 * step:>9.3f} ms {1e3 * bound:>9.3f} ms {gaps[-1]:>8.2%} "
              f"{1e3 * first['step_seconds']:>10.3f} ms {seconds:>7.2f} {before:>8.2f}", flush=True)
    print(json.dumps({"rows": len(gaps), "median_gap": median(gaps), "worst_gap": max(gaps), "median_cpu": median(times), "worst_cpu": max(times)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
