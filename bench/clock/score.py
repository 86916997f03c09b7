#!/usr/bin/env python3
"""Holds the clock against what others measured: each row of a table is planned as it was run, and priced.

    bench/clock/score.py --program build/bin/meshwright --kind vtrain_single|vtrain_multi|fsdp --rows FILE.csv [--fit] [-o FOLDER] [--limit N]

Needs PyTorch, to export each model once (into FOLDER); a row's batch is bound by `[model] batch`. Prints a line for each row, one for each
GPU where there are several, one for rows with and without pipelines and, last, one JSON object: rows, mean_error and median_ratio of the predicted over the
measured seconds, rank_correlation (Spearman's); of fsdp, whose microbatch is what its authors found to fit, also
`fits`, the share of rows that fit by our account of memory, and `twice_does_not_fit`, the share of those that would not
with twice the microbatch. memory.py says how a row's memory is counted. Of vTrain, whose rows differ in how they were run: a line for each
group of at least 5 rows with the same model, GPUs and batch, and over all groups whether the clock ranks them as the watch does
(groups.py says what each figure is).

How a row is priced: Megatron's plan on the mesh data x tensor without ZeRO (vtrain), ZeRO-3 or 2 over all devices (fsdp); microbatches with
their gradients kept (vtrain) or reduced each (fsdp). What recomputes its blocks pays one forward of them more: the computing of their ops and
what is sent in line there. (A plan that runs its blocks again leaves out the last product of each, as `torch.utils.checkpoint` does since PyTorch 2.1; what was
measured ran them whole.) What it holds is what such a plan holds. A pipeline has Megatron's stages, of as many blocks each, and its schedule (1F1B);
each backward of a stage that recomputes pays its blocks' forward more. Left out, and counted: fp8, offload to the host.

On which device: of each GPU, `fitted`/GPU.toml beside this file, which `calibrate` wrote for one half of a published table; `--device` takes
another. `--fit` begins with the project's own file of the device, fits it to one half of the rows and scores the other, both ways (vtrain_multi:
begins with that of one node, fits the network's skew alone, and leaves one row out at a time). Rows with pipelines are fitted to by none: they are
priced on the file of the device beside this one.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import groups  # noqa: E402
import memory  # noqa: E402
ROOT = HERE.parents[1]
DEVICES_PER_NODE = 8
A100_SERVER = [(2, "1MB 16MB 64MB 1024MB", "24 127 166 197"), (8, "1MB 16MB 64MB 1024MB", "20 126 203 229")]
H100_SERVER = [(8, "1MB 16MB 64MB 1GB 16GB", "75 256 330 370 370")]
# By GPU: the file of the device, its memory, bytes a second in a server and of a device's share of the network, how many devices share a
# card; all-reduces that were measured in a server (CLOCK): devices, bytes, GB/s. vTrain's servers have four cards of 200 Gb/s
# for eight GPUs; those of MosaicML 1600 or 3200 Gb/s for eight.
GPUS = {"vtrain": ("a100_80gb", "80GiB", "300GB/s", "25GB/s", 2, A100_SERVER), "a100_40gb": ("a100_40gb", "40GiB", "300GB/s", "25GB/s", 1, A100_SERVER),
        "a100_80gb": ("a100_80gb", "80GiB", "300GB/s", "25GB/s", 1, A100_SERVER), "h100_80gb": ("h100_80gb", "80GiB", "450GB/s", "50GB/s", 1, H100_SERVER)}
MPT = {"125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24), "3b": (2560, 20, 32), "7b": (4096, 32, 32),
       "13b": (5120, 40, 40), "30b": (7168, 56, 48), "70b": (8192, 64, 80)}  # d_model, heads, layers
FITTED = {"vtrain_single": "host_launch,host_collective,skew", "vtrain_multi": "skew", "fsdp": "matrix_efficiency,memory_efficiency,attention"}
ZERO = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}


@dataclass(frozen=True)
class Row:
    """One measured run."""

    model: dict[str, object]  # as models.export takes it
    gpu: str
    devices: int
    mesh: str
    batch: int                # of a step, over all devices
    microbatches: int
    recomputes: bool
    seconds: float            # measured
    settings: tuple[str, ...]
    name: str
    stages: int = 1           # of a pipeline; the mesh is that of each

    @property
    def file(self) -> str:
        return "-".join(f"{key}{int(value)}" for key, value in self.model.items()) + ".pt2"


@dataclass
class Table:
    rows: list[Row] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def vtrain(lines: list[dict[str, str]], recomputes: bool) -> Table:
    table = Table()
    for line in lines:
        devices, batch, micro, width, heads, layers, length, tensor, data, stages = (int(line[key]) for key in (
            "# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers", "sequence length", "tensor parallelism",
            "data parallelism", "pipeline parallelism"))
        model = {"length": length, "width": width, "heads": heads, "layers": layers, "words": 51200, "fused": False, "bias": True, "places": True, "half": True}
        settings = ["search.zero=0"]
        if stages > 1:
            settings += [f"search.stages={stages}", *(f'pins."blocks.{layer}"="stage {layer * stages // layers}"' for layer in range(layers))]
        if tensor == 1:
            mesh, settings = str(data), [*settings, "search.batch_axes=all"]
        elif data == 1:
            mesh, settings = str(tensor), [*settings, "search.weights=sharded"]
        else:
            mesh, settings = f"{data}x{tensor}", [*settings, "search.batch_axes=0", "search.weights=sharded"]
        table.rows.append(Row(model, "vtrain", devices, mesh, batch, batch // (micro * data), recomputes, float(line["iteration time (ms)"]) / 1e3,
                              tuple(settings), f"h{width} l{layers} t{tensor} d{data} p{stages} micro {micro} of {batch}", stages))
    return table


def fsdp(lines: list[dict[str, str]]) -> Table:
    table = Table()
    for line in lines:
        if line["precision"] not in ("bf16", "amp_bf16"):
            table.leave_out(line["precision"])
        elif line["cpu_offload"] == "True":
            table.leave_out("offload to the host")
        elif line["sharding"] not in ZERO:
            table.leave_out(line["sharding"])
        else:
            width, heads, layers = MPT[line["model"]]
            devices, batch = int(line["gpus"]), int(line["global_batch"])
            model = {"length": int(line["sequence"]), "width": width, "heads": heads, "layers": layers, "words": 50368, "fused": True,
                     "bias": False, "places": False, "half": False}
            master = "bf16" if line["precision"] == "bf16" else "fp32"
            settings = (f"search.zero={ZERO[line['sharding']]}", "search.batch_axes=all", "train.dtype=bf16", f"train.master_dtype={master}", "train.gradients=reduced", "train.attention=flash_1")
            table.rows.append(Row(model, line["gpu"], devices, str(devices), batch, int(line["accumulation"]), line["checkpointing"] == "True",
                                  batch * int(line["sequence"]) / float(line["tokens_per_second"]), settings,
                                  f"{line['model']} {line['gpu']} x{devices} s{line['sequence']} micro {line['microbatch_per_gpu']}"))
    return table


def listed(values: str, unit: str = "") -> str:
    return "[" + ", ".join(f'"{value}{unit}"' for value in values.split()) + "]"


def own_device(gpu: str) -> Path:
    """The file of the device that comes with the project."""
    return ROOT / "configs/devices" / f"{GPUS[gpu][0]}.toml"


def fitted_device(gpu: str) -> Path:
    """The file of the device that was fitted to one half of the rows of a published table."""
    return HERE / "fitted" / f"{gpu}.toml"


def write_cluster(row: Row, device: Path, folder: Path) -> None:
    """The cluster's file, with the device's beside it."""
    _, memory, inside, outside, sharers, curves = GPUS[row.gpu]
    nodes, in_server = max(1, row.devices // DEVICES_PER_NODE), min(row.devices, DEVICES_PER_NODE)
    path = folder / f"{row.gpu}x{row.devices}.toml"
    source = device.read_text()
    (folder / f"{row.gpu}.toml").write_text("\n".join(f'memory = "{memory}"' if line.startswith("memory =") else line for line in source.splitlines()) + "\n")
    text = f'name = "{path.stem}"\nnodes = {nodes}\ndevices_per_node = {in_server}\ndevice = "{row.gpu}.toml"\nreserved_bytes = "0GiB"\n'
    if row.devices > 1:
        text += f'\n[[level]]\nname = "nvswitch"\ngroup = {in_server}\nbandwidth = "{inside}"\nlatency = "3us"\n'
        for devices, sizes, rates in curves:
            text += f'\n[[level.measured]]\ndevices = {devices}\nbytes = {listed(sizes)}\nbus_bandwidth = {listed(rates, "GB/s")}\n'
    if nodes > 1:
        text += f'\n[[level]]\nname = "infiniband"\ngroup = {row.devices}\nbandwidth = "{outside}"\nlatency = "6us"\nshared_by = {sharers}\nganged = true\n'
    path.write_text(text)


def predicted(row: Row, plan: Path, program: Path, models: Path, clusters: Path) -> float:
    """Seconds of the row's step; its plan is kept. Errors: what the program says of a row that it does not plan."""
    settings = [*row.settings, f"model.batch={row.batch}", f"train.microbatches={row.microbatches}"]
    command = [program, "plan", models / row.file, "--cluster", clusters / f"{row.gpu}x{row.devices}.toml", "--mesh", row.mesh, "--memory-budget", "4TiB",
               "-o", plan, *(part for each in settings for part in ("--set", each))]
    run(command, row.name)
    found = json.loads(plan.read_text())
    if not row.recomputes:
        return found["step_seconds"]
    if row.stages > 1:
        return replayed(json.loads(run([program, "simulate", plan, "--format", "json"], row.name))["stages"])
    trace = plan.with_suffix(".trace")
    run([program, "simulate", plan, "--trace", trace], row.name)
    return found["step_seconds"] + forwards_of_blocks(json.loads(trace.read_text())["traceEvents"])


def run(command: list[object], name: str) -> str:
    """What the program prints. Errors: what it says."""
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"{name}: {ran.stderr.strip()}")
    return ran.stdout


def forwards_of_blocks(trace: list[dict[str, object]]) -> float:
    """Seconds from the first block to the last one in the forward, of all microbatches. The head and what embeds words do not run again."""
    spans: dict[int, list[float]] = {}
    for event in trace:
        if event.get("cat") == "forward" and event["args"].get("module", "").startswith("blocks."):
            spans.setdefault(event["args"].get("microbatch", 0), []).extend((event["ts"], event["ts"] + event["dur"]))
    return sum(max(times) - min(times) for times in spans.values()) / 1e6


def replayed(stages: list[dict[str, list[dict[str, object]]]]) -> float:
    """The step of a pipeline, as `simulate` gives it, each backward of which takes a forward of its blocks more: the shortest one of all stages,
    which have as many blocks each, but one has the head too. What is sent takes no time here."""
    orders = [[(event["event"], event["end_seconds"] - event["start_seconds"]) for event in stage["events"]] for stage in stages]
    forwards = [dict(order) for order in orders]
    ends: list[dict[str, float]] = [{} for _ in orders]
    free = [0.0] * len(orders)
    done = [0] * len(orders)
    while any(count < len(order) for count, order in zip(done, orders, strict=True)):
        for stage, order in enumerate(orders):
            while done[stage] < len(order):
                event, seconds = order[done[stage]]
                before = stage - 1 if event[0] == "F" else stage + 1
                waits = event != "update" and 0 <= before < len(orders)
                if waits and event not in ends[before]:
                    break
                again = min(each["F" + event[1:]] for each in forwards) if event[0] == "B" else 0.0
                free[stage] = max(free[stage], ends[before][event] if waits else 0.0) + seconds + again
                ends[stage][event] = free[stage]
                done[stage] += 1
    return max(free)


def held(row: Row, factor: int, number: int, program: Path, models: Path, folder: Path) -> tuple[int, int]:
    """What a device holds with so many times the microbatch, planned as FSDP gathers, and its memory, in bytes."""
    gathers = "search.zero=3" in row.settings
    settings = (*row.settings, f"search.recompute={'all' if row.recomputes else 'none'}", *(("search.regather=always",) if gathers else ()))
    plan = folder / f"plan_{number}_{factor}.json"
    predicted(replace(row, batch=factor * row.batch, settings=settings), plan, program, models, folder)
    profiled = json.loads(run([program, "profile", plan, "--format", "json"], row.name))
    width, layers, words = (int(row.model[key]) for key in ("width", "layers", "words"))
    shape = memory.Shape(width, layers, words, gathers)
    return memory.device_bytes(profiled, shape), json.loads(plan.read_text())["cluster"]["memory_bytes"]


def account(rows: list[Row], program: Path, folder: Path, devices: dict[str, Path]) -> dict[str, float]:
    """Prints for each row what a device holds, and with twice the microbatch. Returns the shares of the last line."""
    plans = folder / "memory"
    plans.mkdir(parents=True, exist_ok=True)
    for row in rows:
        write_cluster(row, devices[row.gpu], plans)

    def once_and_twice(numbered: tuple[int, Row]) -> list[tuple[int, int]]:
        return [held(numbered[1], factor, numbered[0], program, folder, plans) for factor in (1, 2)]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(once_and_twice, enumerate(rows)))
    fit = twice = 0
    for row, ((once_bytes, limit), (twice_bytes, _)) in zip(rows, found, strict=True):
        fit, twice = fit + (once_bytes <= limit), twice + (twice_bytes > limit)
        too_much = "" if once_bytes <= limit else ", which does not fit"
        twice_does = "fits" if twice_bytes <= limit else "does not fit"
        print(f"{row.name:48} {once_bytes / 2**30:6.1f} of {limit / 2**30:.0f} GiB{too_much}; "
              f"with twice the microbatch {twice_bytes / 2**30:6.1f}, which {twice_does}")
    return {"fits": round(fit / len(rows), 4), "twice_does_not_fit": round(twice / len(rows), 4)}


def price(rows: list[Row], program: Path, folder: Path, devices: dict[str, Path], into: str = "plans") -> list[float]:
    """Plans each row, whose model lies in `folder`, on the device of its GPU. The plans stay in `folder`/`into`."""
    plans = folder / into
    plans.mkdir(parents=True, exist_ok=True)
    for row in rows:
        write_cluster(row, devices[row.gpu], plans)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda pair: predicted(pair[1], plans / f"plan_{pair[0]}.json", program, folder, plans), enumerate(rows)))


def calibrate(rows: list[Row], numbers: list[int], coefficients: str, program: Path, folder: Path, output: Path) -> dict[str, object]:
    """Fits a device to some of the rows, whose plans lie in `folder`/plans. Returns what the program says of it."""
    table = folder / "plans" / "rows.csv"
    table.write_text("plan,seconds,recomputes\n" + "".join(f"plan_{number}.json,{rows[number].seconds!r},{int(rows[number].recomputes)}\n" for number in numbers))
    ran = subprocess.run([str(program), "calibrate", str(table), "--coefficients", coefficients, "--format", "json", "-o", str(output)],
                         capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"calibrate: {ran.stderr.strip()}")
    found = json.loads(ran.stdout)
    moved = ", ".join(f"{name} {each['before']:.4g} to {each['after']:.4g}" for name, each in found["coefficients"].items())
    print(f"{output.name}: {found['rows']} rows, mean error {100 * found['error_before']:.2f} to {100 * found['error_after']:.2f} %: {moved}", flush=True)
    return found


def folds(numbers: list[int], one_at_a_time: bool) -> list[tuple[list[int], list[int]]]:
    """What to fit and what to score with it: each half with the other, or all but one with that one."""
    if one_at_a_time:
        return [([other for other in numbers if other != number], [number]) for number in numbers]
    shuffled = random.Random(0).sample(numbers, len(numbers))
    return [(shuffled[::2], shuffled[1::2]), (shuffled[1::2], shuffled[::2])]


def fitted(rows: list[Row], coefficients: str, one_at_a_time: bool, program: Path, folder: Path, devices: dict[str, Path]) -> list[float]:
    """Prices each row of a GPU on a device that was fitted to other rows of that GPU. The devices stay in `folder`, as GPU_fit_N.toml."""
    prices = price(rows, program, folder, devices)
    for gpu in sorted({row.gpu for row in rows}):
        numbers = [number for number, row in enumerate(rows) if row.gpu == gpu and row.stages == 1]
        pipelined = [number for number, row in enumerate(rows) if row.gpu == gpu and row.stages > 1]
        for number, seconds in zip(pipelined, price([rows[number] for number in pipelined], program, folder, {gpu: fitted_device(gpu)}, "scored"), strict=True):
            prices[number] = seconds
        for fold, (known, unknown) in enumerate(folds(numbers, one_at_a_time)):
            if not known or not unknown:
                raise SystemExit(f"{gpu}: {len(numbers)} row is too few to fit to some and score others")
            device = folder / f"{gpu}_fit_{fold}.toml"
            calibrate(rows, known, coefficients, program, folder, device)
            for number, seconds in zip(unknown, price([rows[number] for number in unknown], program, folder, {gpu: device}, "scored"), strict=True):
                prices[number] = seconds
    return prices


def transferred(rows: list[Row], coefficients: str, program: Path, folder: Path) -> list[float] | None:
    """H100's rows as priced with A100's coefficients: each moves by the factor that it moved by on A100. Nothing where there is one of them only."""
    known, unknown = ([row for row in rows if row.gpu == gpu] for gpu in ("a100_80gb", "h100_80gb"))
    if not known or not unknown:
        return None
    price(known, program, folder, {"a100_80gb": own_device("a100_80gb")})
    moved = calibrate(known, list(range(len(known))), coefficients, program, folder, folder / "a100_80gb_all.toml")["coefficients"]
    text, kernel = [], ""
    for line in own_device("h100_80gb").read_text().splitlines():
        key, is_set, value = line.partition(" = ")
        kernel = line if line.startswith("[") else kernel
        name = "attention" if kernel.startswith("[attention.") and key == "efficiency" else key if not kernel else ""
        if is_set and name in moved:
            line = f"{key} = {min(1.0, float(value.split('#')[0]) * moved[name]['after'] / moved[name]['before'])}"
        text.append(line)
    device = folder / "h100_80gb_as_a100.toml"
    device.write_text("\n".join(text) + "\n")
    return price(unknown, program, folder, {"h100_80gb": device}, "scored")


def ranked(rows: list[Row], prices: list[float]) -> dict[str, float]:
    """Prints a line for each group of rows of one model, number of GPUs and batch. Returns the figures of the last line."""
    found = groups.grouped(((row.file, row.devices, row.batch), f"h{row.model['width']} l{row.model['layers']} x{row.devices} of {row.batch}", row.name,
                            row.seconds, seconds) for row, seconds in zip(rows, prices, strict=True))
    for group in found:
        print(group.line())
    return groups.summary(found)


def summary(measured: list[float], prices: list[float]) -> dict[str, float]:
    ratios = [price / seconds for price, seconds in zip(prices, measured, strict=True)]
    return {"rows": len(measured), "mean_error": round(statistics.fmean(abs(ratio - 1) for ratio in ratios), 4),
            "median_ratio": round(statistics.median(ratios), 4),
            "rank_correlation": round(groups.spearman(measured, prices), 4)}


def read(kind: str, path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    try:
        return fsdp(lines) if kind == "fsdp" else vtrain(lines, recomputes=kind == "vtrain_multi")
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise SystemExit(f"{path}: not a table of the kind {kind}: {type(error).__name__}: {error}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="the meshwright program")
    parser.add_argument("--kind", choices=["vtrain_single", "vtrain_multi", "fsdp"], required=True)
    parser.add_argument("--rows", type=Path, required=True, help="the table, a CSV file")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/clock"), help="where models are kept")
    parser.add_argument("--fit", nargs="?", const="", help=f"fit these coefficients to some rows and score the others, by each GPU; if not named: {FITTED}")
    parser.add_argument("--device", type=Path, help="the file of a device, in place of the fitted one")
    parser.add_argument("--limit", type=int, help="so many rows, the first")
    options = parser.parse_args()
    table = read(options.kind, options.rows)
    rows = table.rows[:options.limit]
    if not rows:
        raise SystemExit(f"{options.rows}: no row can be priced; left out: {table.left_out}")
    import models

    options.output.mkdir(parents=True, exist_ok=True)
    for row in rows:
        if not (options.output / row.file).exists():
            models.export(options.output / row.file, **row.model)
    fits = options.fit is not None
    coefficients = options.fit or FITTED[options.kind]
    of_gpu = own_device if fits and options.kind != "vtrain_multi" else fitted_device
    devices = {row.gpu: options.device or of_gpu(row.gpu) for row in rows}
    prices = (fitted(rows, coefficients, options.kind == "vtrain_multi", options.program, options.output, devices) if fits
              else price(rows, options.program, options.output, devices))
    for row, seconds in zip(rows, prices, strict=True):
        print(f"{row.name:48} {1e3 * row.seconds:10.1f} ms measured {1e3 * seconds:10.1f} ms predicted {100 * (seconds / row.seconds - 1):+7.1f} %")
    for reason, count in table.left_out.items():
        print(f"left out: {count} rows ({reason})")
    for kind, has in (("without pipelines", False), ("with pipelines", True)):
        own = [(row.seconds, seconds) for row, seconds in zip(rows, prices, strict=True) if (row.stages > 1) == has]
        if 0 < len(own) < len(rows) or (has and own):
            print(f"{kind}: {json.dumps(summary(*map(list, zip(*own, strict=True))))}")
    gpus = sorted({row.gpu for row in rows})
    for gpu in gpus if len(gpus) > 1 else []:
        own = [(row.seconds, seconds) for row, seconds in zip(rows, prices, strict=True) if row.gpu == gpu]
        print(f"{gpu}: {json.dumps(summary(*map(list, zip(*own, strict=True))))}")
    moved = transferred(rows, coefficients, options.program, options.output) if fits and options.kind == "fsdp" else None
    if moved:
        print(f"h100_80gb with A100's coefficients: {json.dumps(summary([row.seconds for row in rows if row.gpu == 'h100_80gb'], moved))}")
    shares = account(rows, options.program, options.output, devices) if options.kind == "fsdp" else ranked(rows, prices)
    print(json.dumps(summary([row.seconds for row in rows], prices) | shares))
    return 0


if __name__ == "__main__":
    sys.exit(main())
