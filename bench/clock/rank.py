#!/usr/bin/env python3
"""Ranks plans by the clock and by a watch: 20 plans of each of two models, timed as emitted programs under gloo.

    build/torch/bin/python bench/clock/rank.py --program build/bin/meshwright -o build/rank [--rounds 20]

First the 4 ranks measure the machine at the same time, as autoparallelize does (python/meshwright/measure.py); the cluster's and the
device's file stay in the folder. Then each model is planned in 20 ways: what the search chooses, on each mesh; data parallelism, ZeRO 1 to 3,
Megatron's, both; and drawn ones, which pin some weights to layouts and stages of ZeRO at random. All programs of a model lie in one process a rank and
take turns, a step at a time, so that whatever else the machine does slows all; a step is as long as on its slowest rank.
Prints a row for each plan and, last, a JSON object: rows, rank_correlation (Spearman's, over each model by itself, and the mean of them), mean_error,
best_over_fastest (of the plan that is predicted fastest, over the one that is). Nothing here is a test.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from statistics import fmean, median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "bench/torch"), str(HERE), str(ROOT / "python")]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

# Before there is a group, which some of PyTorch's modules would keep to the end.
from meshwright import ranks  # noqa: E402
from meshwright.cluster import write_cluster  # noqa: E402
from meshwright.measure import measure_machine  # noqa: E402
from meshwright.pages import keep_pages  # noqa: E402

RANKS, WARM, ROUNDS, PLANS = 4, 2, 20, 20
DATA, HYBRID = "search.batch_axes=all", "search.batch_axes=0"
WAYS = {
    "chosen": (None, []), "chosen on 4": ("4", []), "chosen on 2x2": ("2x2", []),
    "data parallel": ("4", [DATA, "search.zero=0"]), "ZeRO-1": ("4", [DATA, "search.zero=1"]), "ZeRO-2": ("4", [DATA, "search.zero=2"]),
    "ZeRO-3": ("4", [DATA, "search.zero=3", "search.regather=always"]), "ZeRO-3 kept": ("4", [DATA, "search.zero=3", "search.regather=never"]),
    "Megatron": ("4", ["search.weights=sharded", "search.zero=0"]),
    "Megatron and data parallel": ("2x2", [HYBRID, "search.weights=sharded", "search.zero=0"]),
    "hybrid ZeRO-3": ("2x2", [DATA, "search.zero=3", "search.zero_axes=1"]),
}


def drawn(names: list[str], number: int) -> tuple[str, list[str]]:
    """A way that pins some weights to layouts, the rest as the search likes it."""
    dice = random.Random(number)
    mesh = dice.choice(["4", "2x2", "2x2"])
    settings = [] if dice.random() < 0.5 else [f"search.zero={dice.choice([0, 1, 3])}"]
    layouts = ["RR", "S0R", "RS0"] if mesh == "4" else ["S0R", "RS0", "S1R", "RS1", "RS01"]
    settings += [f'pins."{name}"="{dice.choice(layouts)}"' for name in dice.sample(names, dice.randint(2, 10))]
    return mesh, settings


def measure(folder: Path) -> None:
    """What the ranks' machine does, as a cluster's file."""
    machine = measure_machine(torch.device("cpu"), dist.get_world_size())
    if dist.get_rank() == 0:
        write_cluster([ranks.this_host()] * dist.get_world_size(), machine, None, folder)


def time_plans(folder: Path, name: str, ways: list[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of steps, on the slowest rank, by way. The programs take turns."""
    from beside import Side, made, ours

    sides = {way: Side(*ours(folder / f"{name}.{way}", made(name))) for way in ways}
    gc.collect()
    for number in range(WARM + rounds):
        order = random.Random(number).sample(ways, len(ways))  # alike on all ranks
        for way in order:
            sides[way].step(number)
    losses = torch.stack([side.mean_losses() for side in sides.values()])
    if (spread := (losses - losses[0]).abs().max().item()) > 1e-3:
        raise SystemExit(f"{name}: the losses of the plans differ by {spread:.1e}")
    return {way: side.slowest() for way, side in sides.items()}


def on_ranks(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    keep_pages()
    dist.init_process_group("gloo")
    found = measure(arguments.output) if arguments.ways is None else time_plans(arguments.output, arguments.model, json.loads(arguments.ways), arguments.rounds)
    if dist.get_rank() == 0 and found is not None:
        (arguments.output / "times.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def spawn(arguments: argparse.Namespace, *more: object) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS, __file__, "--program", arguments.program,
               "-o", arguments.output, "--rounds", arguments.rounds, "--on-ranks", *more]
    subprocess.run(list(map(str, command)), env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)


def planned(program: Path, folder: Path, model: Path, way: str, mesh: str | None, settings: list[str]) -> dict[str, object] | None:
    """The plan, whose program is emitted; nothing where it is impossible."""
    plan = folder / f"{model.stem}.{way}.json"
    command = [program, "plan", model, "--cluster", folder / "cluster.toml", "-o", plan, *(["--mesh", mesh] if mesh else []),
               *(part for each in settings for part in ("--set", each))]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if way.startswith("drawn"):
            return None
        raise SystemExit(f"{way}: {done.stderr}")
    subprocess.run([str(part) for part in (program, "emit", plan, "--backend", "torch", "-o", folder / f"{model.stem}.{way}")], check=True, capture_output=True)
    return json.loads(plan.read_text())


def plans_of(program: Path, folder: Path, name: str, count: int) -> dict[str, dict[str, object]]:
    """So many plans that differ, by way."""
    import meshwright
    from models import batch, made

    file = folder / f"{name}.pt2"
    if not file.exists():
        meshwright.export(made(name), batch(0), file)
    weights = [key for key, parameter in made(name).named_parameters() if parameter.dim() == 2]
    plans, seen = {}, set()
    ways = {**WAYS, **{f"drawn {number}": drawn(weights, number) for number in range(10 * count)}}
    for way, (mesh, settings) in ways.items():
        if len(plans) == count:
            break
        plan = planned(program, folder, file, way, mesh, settings)
        does = plan and json.dumps([plan["mesh"], plan["variables"], plan["conversions"]])
        if plan and does not in seen:
            plans[way] = plan
            seen.add(does)
    return plans


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="steps of each plan that count")
    parser.add_argument("--plans", type=int, default=PLANS)
    parser.add_argument("--keep", action="store_true", help="do not measure the machine again")
    for hidden in ("--ways", "--model"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--on-ranks", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.on_ranks:
        on_ranks(arguments)
        return
    from models import MODELS
    from score import summary

    arguments.output.mkdir(parents=True, exist_ok=True)
    if not arguments.keep:
        spawn(arguments)
    found = []
    print("| model | plan | mesh | predicted | measured, median | of the middle half | ratio |\n|---|---|---|---|---|---|---|")
    for name in MODELS:
        plans = plans_of(arguments.program, arguments.output, name, arguments.plans)
        spawn(arguments, "--model", name, "--ways", json.dumps([*plans]))
        times = json.loads((arguments.output / "times.json").read_text())
        predicted, measured = [plan["step_seconds"] for plan in plans.values()], [median(times[way]) for way in plans]
        for way, prediction, middle in sorted(zip(plans, predicted, measured), key=lambda row: row[2]):
            ordered = sorted(times[way])
            mesh = "x".join(str(axis["size"]) for axis in plans[way]["mesh"])
            print(f"| {name} | {way} | {mesh} | {1e3 * prediction:.1f} ms | {1e3 * middle:.1f} ms | {1e3 * ordered[len(ordered) // 4]:.1f} to "
                  f"{1e3 * ordered[3 * len(ordered) // 4]:.1f} ms | {prediction / middle:.2f} |", flush=True)
        best = min(range(len(predicted)), key=predicted.__getitem__)
        found.append({**summary(measured, predicted), "best_over_fastest": round(measured[best] / min(measured), 4)})
        print(f"{name}: {json.dumps(found[-1])}", flush=True)
    print(json.dumps({"rows": sum(each["rows"] for each in found), "mean_error": round(fmean(each["mean_error"] for each in found), 4),
                      "rank_correlation": round(fmean(each["rank_correlation"] for each in found), 4),
                      "best_over_fastest": max(each["best_over_fastest"] for each in found)}))


if __name__ == "__main__":
    main()
