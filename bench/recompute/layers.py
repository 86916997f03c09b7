#!/usr/bin/env python3
"""What recomputation costs in a layer, beside what Korthikanti et al. measured (2022, arXiv 2205.05198, figure 8 and table 4): tensor parallelism over 8 A100s.

    python bench/recompute/layers.py [-o FOLDER] [--program FILE]

A layer is what two more of them add to a step, without the optimizer. None, all of it, or the core of attention (scores, softmax, dropout, and their product with the values) run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]

import meshwright  # noqa: E402
import models  # noqa: E402

LENGTH = 2048
SHAPES = {"22B": (6144, 64, 4), "175B": (12288, 96, 1), "530B": (20480, 128, 1), "1T": (25600, 160, 1)}  # width, heads, microbatch
# Overheads that they state: of 22B both without sequence parallelism (table 4), else selective recomputation with it (figure 8).
PUBLISHED = {"22B": (0.39, 0.07), "530B": (0.36, 0.02), "1T": (0.36, 0.02)}
CORE = {"aten.matmul", "aten.mul.Tensor", "aten.masked_fill.Scalar", "aten.softmax.int", "aten.native_dropout"}


def export(path: Path, width: int, heads: int, batch: int, layers: int) -> None:
    if path.exists():
        return
    with torch.device("meta"):
        model, x = models.GptLayers(width, heads, LENGTH, layers), torch.zeros(batch, LENGTH, width)
    meshwright.export(model.train(), {"x": x}, path)


def plan(program: Path, model: Path, folder: Path, settings: list[str], pins: list[str] | None = None) -> dict:
    config, plan_file = folder / "pins.toml", folder / "plan.json"
    config.write_text("[pins]\n" + "".join(f'"{name}" = "recompute"\n' for name in pins or []))
    command = [program, "plan", model, "--cluster", ROOT / "configs/clusters/a100x8_nvswitch.toml", "--config", config, "--mesh", "8", "-o", plan_file]
    for each in ["train.param_dtype=bf16", "train.optimizer=sgd", "search.weights=sharded", "search.zero=0", *settings]:
        command += ["--set", each]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(plan_file.read_text())


def passes(made: dict) -> float:
    """Seconds of the forward and the backward."""
    return made["step_seconds"] - sum(each["update_seconds"] for each in made["variables"] if each["kind"] == "parameter")


def core(made: dict) -> list[str]:
    """Nodes that make or take what has an entry for each pair of places."""
    graph = made["graph"]

    def of_pairs(node: dict) -> bool:
        values = [*node["results"], *(value for _, value in node["operands"])]
        return any(graph["values"][value][2][-2:] == [LENGTH, LENGTH] for value in values)

    return [node["name"] for node in graph["nodes"] if node["op"] in CORE and of_pairs(node)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "recompute")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    print(f"{'layer of':<9} {'nothing':>11} {'all':>11} {'published':>10} {'core of attention':>18} {'published':>10}")
    for name, (width, heads, batch) in SHAPES.items():
        seconds: dict[str, list[float]] = {"none": [], "all": [], "core": []}
        for layers in (2, 4):
            model = options.output / f"gpt_{name}_{layers}.pt2"
            export(model, width, heads, batch, layers)
            kept = plan(options.program, model, options.output, [])
            seconds["none"].append(passes(kept))
            seconds["all"].append(passes(plan(options.program, model, options.output, ["search.recompute=all"])))
            seconds["core"].append(passes(plan(options.program, model, options.output, [], core(kept))))
        layer = {kind: (more - fewer) / 2 for kind, (fewer, more) in seconds.items()}
        published = PUBLISHED.get(name)
        said = [f"{value:10.0%}" if published else f"{'':10}" for value in published or (0, 0)]
        print(f"{name:<9} {layer['none'] * 1e3:8.2f} ms {layer['all'] / layer['none'] - 1:11.1%} {said[0]} {layer['core'] / layer['none'] - 1:18.1%} {said[1]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
