#!/usr/bin/env python3
"""What is chosen among all of Megatron's degrees, and where that lies among what was measured.

    bench/clock/choice.py --program build/bin/meshwright --kind vtrain_single|vtrain_multi --rows FILE.csv [-o FOLDER] [--groups N] [--joint]

Of each of N groups (groups.py; drawn with a fixed seed, all if N is not given) every way to run it is priced as score.py prices rows, whether or not
somebody measured it: degrees of tensor (in a server), data and pipeline parallelism that multiply to the GPUs and divide what they must, and
microbatches of the sizes that were measured in the group, at least as many of them as somebody ran there. Ways whose plan holds more than a GPU has
are left out (where blocks run again: none, since those plans keep all). Prints for each group what is chosen; of one that was measured its place and
regret, of another how its predicted step compares with that of the measured best. Last, one JSON object.

--joint: asks the planner itself too, `[search] inter = "joint"` with Megatron's layouts (weights in shards, no ZeRO), 1F1B and as many microbatches as
what was chosen, and prints the stages that it finds, the mesh of the first one, the predicted step and the seconds that planning took. It cuts the
model where it likes, and runs nothing again.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import groups  # noqa: E402
import score  # noqa: E402

Measured = list[tuple[dict[str, str], score.Row]]  # lines of the table, and what they say


def divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def read_groups(path: Path, recomputes: bool) -> list[Measured]:
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    found: dict[object, Measured] = {}
    for line, row in zip(lines, score.vtrain(lines, recomputes).rows, strict=True):
        found.setdefault((row.file, row.devices, row.batch), []).append((line, row))
    return [group for group in found.values() if len(group) >= groups.LEAST_ROWS]


def ways(group: Measured) -> list[score.Row]:
    """Every way to run what the group ran, whatever was measured among them."""
    line, row = group[0]
    heads, layers = int(row.model["heads"]), int(row.model["layers"])
    lines = [line for line, _ in group]
    known = {row.name for _, row in group}
    least = min(row.microbatches for _, row in group)
    for tensor in divisors(min(row.devices, score.DEVICES_PER_NODE)):
        for stages in divisors(row.devices // tensor):
            data = row.devices // tensor // stages
            for micro in sorted({int(line["micro batch"]) for line, _ in group}):
                if heads % tensor == 0 and layers % stages == 0 and row.batch % (data * micro) == 0 and row.batch >= least * data * micro:
                    lines.append({**line, "tensor parallelism": str(tensor), "data parallelism": str(data), "pipeline parallelism": str(stages),
                                  "micro batch": str(micro)})
    rows = score.vtrain(lines, row.recomputes).rows
    return rows[:len(group)] + [each for each in rows[len(group):] if each.name not in known]


def fits(plan: Path) -> bool:
    found = json.loads(plan.read_text())
    peaks = found["peak_bytes"] if isinstance(found["peak_bytes"], list) else [found["peak_bytes"]]
    return max(peaks) <= found["cluster"]["memory_bytes"]


def joint(row: score.Row, program: Path, folder: Path, plans: Path) -> str:
    """What the planner finds for the row's model, batch, GPUs and number of microbatches: with data parallelism in each stage, and without."""
    begun, found = time.monotonic(), []
    for axes in ("0", "none"):
        plan = plans / f"joint_{axes}.json"
        settings = ['search.inter="joint"', 'search.schedule="one_f_one_b"', "search.weights=sharded", f"search.batch_axes={axes}", "search.zero=0",
                    f"model.batch={row.batch}", f"train.microbatches={row.microbatches}"]
        score.run([program, "plan", folder / row.file, "--cluster", plans / f"{row.gpu}x{row.devices}.toml", "-o", plan,
                   *(part for each in settings for part in ("--set", each))], row.name)
        made = json.loads(plan.read_text())
        stages = made.get("stages", [made])
        mesh = "x".join(str(axis["size"]) for axis in stages[0]["mesh"]) or "1"
        found.append((made["step_seconds"], f"{len(stages)} stages of {mesh}"))
    seconds, what = min(found)
    return f"{what}: {1e3 * seconds:.1f} ms, found in {time.monotonic() - begun:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="the meshwright program")
    parser.add_argument("--kind", choices=["vtrain_single", "vtrain_multi"], required=True)
    parser.add_argument("--rows", type=Path, required=True, help="the table, a CSV file")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/clock"), help="where models are kept")
    parser.add_argument("--groups", type=int, help="so many groups, drawn")
    parser.add_argument("--joint", action="store_true", help="ask the planner itself too")
    options = parser.parse_args()
    import models

    drawn = read_groups(options.rows, options.kind == "vtrain_multi")
    if options.groups is not None:
        drawn = random.Random(0).sample(drawn, min(options.groups, len(drawn)))
    options.output.mkdir(parents=True, exist_ok=True)
    regrets, places, gains = [], [], []
    for group in drawn:
        row = group[0][1]
        if not (options.output / row.file).exists():
            models.export(options.output / row.file, **row.model)
        rows = ways(group)
        prices = score.price(rows, options.program, options.output, {row.gpu: score.fitted_device(row.gpu)}, "choice")
        plans = options.output / "choice"
        able = [number for number in range(len(rows)) if number < len(group) or row.recomputes or fits(plans / f"plan_{number}.json")]
        choice = min(able, key=prices.__getitem__)
        measured = [each.seconds for _, each in group]
        best = measured.index(min(measured))
        if choice < len(group):
            places.append(groups.place(measured, choice))
            regrets.append(measured[choice] / measured[best] - 1)
            said = f"measured place {places[-1]} of {len(group)}, {100 * regrets[-1]:+.1f} %"
        else:
            gains.append(prices[choice] / prices[best] - 1)
            said = f"not measured; predicted {100 * gains[-1]:+.1f} % against the measured best, {rows[best].name}"
        print(f"x{row.devices} {rows[choice].name}, {1e3 * prices[choice]:.1f} ms, of {len(able)} of {len(rows)} ways that fit: {said}", flush=True)
        if options.joint:
            print(f"    joint: {joint(rows[choice], options.program, options.output, plans)}", flush=True)
    print(json.dumps({"groups": len(drawn), "measured": len(places), "in_top_3": sum(place <= groups.NEAR for place in places),
                      "mean_regret": round(statistics.fmean(regrets), 4) if regrets else None,
                      "predicted_against_best": round(statistics.fmean(gains), 4) if gains else None}))


if __name__ == "__main__":
    main()
