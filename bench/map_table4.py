#!/usr/bin/env python3
"""MAP's Table 4, modelled: GPT-2 of four widths on 1, 2, 4 and 8 devices of MAP's cluster, split by hand and by the search, under one clock.

    python3 bench/map_table4.py --program build/bin/meshwright [-o FOLDER] [--set KEY=VALUE]

The models are those of Table 3 (examples/gpt2_map_*.pt2; the paper states neither batch nor heads: 8 sequences, heads of 128), the cluster
that of Figure 5, or as much of it as a column uses. PFLOPS are FLOPs of the model, without recomputation, over the simulated step
(Narayanan et al. 2021, equation 3: 72 B s l h^2 (1 + s / 6h + V / 12 l h)), of all devices together. What does not fit into 80 GB says so.
Nothing here is measured. Ends with 1 where a plan by hand is faster than the search's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLUSTER = ROOT / "configs" / "clusters" / "a100x8_nvlink_pairs.toml"
BATCH, LENGTH, LAYERS, WORDS = 8, 1024, 4, 50257
COLUMNS = {"alpha": (1, 2048), "beta": (2, 4096), "gamma": (4, 8192), "delta": (8, 16384)}  # devices, hidden size
PUBLISHED = {"Megatron": (0.161, 0.324, 0.528, 0.728), "MAP": (0.161, 0.332, 0.604, 0.824)}
DATA_PARALLEL = ["search.batch_axes=all"]
WAYS = {
    "Megatron, 1-D": ["search.weights=sharded", "search.zero=0"],
    "data parallel": [*DATA_PARALLEL, "search.zero=0"],
    "ZeRO-3": [*DATA_PARALLEL, "search.zero=3"],
    "ours": [],
}
_NO_PLAN_FITS = 3  # the exit code


def flops(hidden: int) -> float:
    """Of a step, forward and backward."""
    return 72 * BATCH * LENGTH * LAYERS * hidden ** 2 * (1 + LENGTH / (6 * hidden) + WORDS / (12 * LAYERS * hidden))


def cluster_of(devices: int, folder: Path) -> Path:
    """MAP's cluster, of which only the first devices are used."""
    head, *levels = CLUSTER.read_text(encoding="utf-8").split("[[level]]")
    kept = [level for level in levels if int(level.split("group = ")[1].split()[0]) <= devices]
    head = head.replace("devices_per_node = 8", f"devices_per_node = {devices}").replace("../devices", str(ROOT / "configs" / "devices"))
    path = folder / f"map_{devices}.toml"
    path.write_text("[[level]]".join([head, *kept]), encoding="utf-8")
    return path


def step_seconds(program: Path, column: str, way: list[str], folder: Path, settings: list[str]) -> tuple[float, str] | None:
    """Of a plan's program, and its mesh; None where none fits."""
    devices, _ = COLUMNS[column]
    plan = folder / "plan.json"
    plan.unlink(missing_ok=True)
    hand_made = ["--mesh", str(devices)] if way else []
    command = [program, "plan", ROOT / "examples" / f"gpt2_map_{column}.pt2", "--cluster", cluster_of(devices, folder), "--config", ROOT / "configs" / "demo.toml",
               "-o", plan, *hand_made, *(part for each in (*way, *settings) for part in ("--set", each))]
    outcome = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if outcome.returncode == _NO_PLAN_FITS:
        return None
    if outcome.returncode != 0:
        sys.exit(outcome.stderr)
    made = json.loads(plan.read_text(encoding="utf-8"))
    return made["step_seconds"], "x".join(str(axis["size"]) for axis in made["mesh"]) or "1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "map_table4")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the configuration, for all plans")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    print("| PFLOPS, of all devices | " + " | ".join(f"{column}, {devices}" for column, (devices, _) in COLUMNS.items()) + " |")
    print("|---" * (1 + len(COLUMNS)) + "|")
    fastest: dict[str, float] = {}  # by column, by hand
    slower = []
    for name, way in WAYS.items():
        cells = []
        for column, (_, hidden) in COLUMNS.items():
            found = step_seconds(options.program, column, way, options.output, options.set)
            if found is not None and way:
                fastest[column] = min(found[0], fastest.get(column, found[0]))
            elif not way and column in fastest and (found is None or found[0] > fastest[column]):
                slower.append(column)
            cells.append("does not fit" if found is None else f"{flops(hidden) / found[0] / 1e15:.3f} ({1e3 * found[0]:.1f} ms, {found[1]})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    for name, row in PUBLISHED.items():
        print(f"| {name}, published | " + " | ".join(f"{each:.3f}" for each in row) + " |")
    if slower:
        sys.exit(f"by hand a plan is faster: {', '.join(slower)}")


if __name__ == "__main__":
    main()
