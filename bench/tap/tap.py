#!/usr/bin/env python3
"""Repeat the figures of TAP's paper: with `--intra tap` the folding (Figure 7) and search times (Figures 9 and 10); with pins, what it
is worth to cut only some of T5-large's weights (Figure 6).

    make tap-figures
    python bench/tap/tap.py [-o FOLDER] [--program FILE] [--runs N] [fold] [depth] [width] [parts]

Models are exported once, on the meta device, so that weights of gigabytes are never made. Times are wall seconds of the whole `plan`
command, each run a process of its own, the least of N; folding's seconds are what `--verbose` says. Two plots, figure_9.svg and
figure_10.svg, are written next to the models.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from plot import Series, write_plot

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "zoo"), str(ROOT / "bench" / "search")]

CLUSTER = ROOT / "configs" / "clusters" / "v100x16_ethernet.toml"  # two servers of 8 V100 behind 32 Gbit/s Ethernet, as TAP's
MESH = "2x8"
DEPTHS = (3, 6, 12, 24, 48, 96)                # layers of T5's encoder, and of its decoder; T5-large has 24
CLASSES = (1024, 16384, 65536, 100_000, 262_144, 1_048_576)
DUPLICATES = (1, 2, 3, 4, 8, 12, 16, 20, 23, 24, 35, 36, 48, 64, 128, 256)
FOLDED = ("t5_24", "resnet152_100000")


def t5(layers: int):
    import search  # noqa: PLC0415  (torch takes seconds, and is needed only to export)

    return search.language("T5ForConditionalGeneration", "T5Config", 16, 512, d_model=1024, d_kv=64, d_ff=4096, num_layers=layers,
                           num_heads=16, dropout_rate=0.1, decoder_start_token_id=0)


def resnet(depth: int, classes: int):
    import torch  # noqa: PLC0415
    import zoo  # noqa: PLC0415

    zoo.BATCH = 1024
    with torch.device("meta"):
        return zoo.vision(f"resnet{depth}", num_classes=classes)


def exported(name: str, folder: Path) -> Path:
    """`t5_LAYERS` or `resnetDEPTH_CLASSES`."""
    path = folder / f"tap_{name}.pt2"
    if not path.exists():
        import zoo  # noqa: PLC0415

        print(f"exporting {name}", file=sys.stderr, flush=True)
        family, number = name.split("_")
        model, inputs = t5(int(number)) if family == "t5" else resnet(int(family.removeprefix("resnet")), int(number))
        zoo.meshwright.export(model.train(), {key: value.to("meta") for key, value in inputs.items()}, path)
    return path


@dataclass
class Run:
    seconds: float
    plan: dict
    log: str

    @property
    def fold_seconds(self) -> float:
        return min(float(found) for found in re.findall(r"folded .* in ([0-9.]+) s", self.log))

    @property
    def folded(self) -> str:
        return re.search(r"folded (.*), by", self.log).group(1)


class Runner:
    def __init__(self, program: Path, folder: Path, runs: int):
        self.program, self.folder, self.runs = program, folder, runs

    def plan(self, model: str, *options: str) -> Run:
        """The quickest of some runs; the plan is the same in all of them."""
        command = [str(self.program), "--verbose", "plan", str(exported(model, self.folder)), "--cluster", str(CLUSTER), "--mesh", MESH,
                   "--intra", "tap", "--memory-budget", "28GiB", "--format", "json", *options]
        runs = []
        for _ in range(self.runs):
            begin = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seconds = time.monotonic() - begin
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
            runs.append(Run(seconds, json.loads(done.stdout), done.stderr))
        return min(runs, key=lambda run: run.seconds)


def fold(runner: Runner) -> None:
    """Figure 7: unique blocks and seconds of the folding, by how often a block must occur."""
    for model in FOLDED:
        print(f"\n{model}\n{'min_duplicates':>14} {'unique':>7} {'seconds':>9}  folding", flush=True)
        for duplicates in DUPLICATES:
            run = runner.plan(model, "--set", f"search.tap.min_duplicates={duplicates}", "--set", "search.tap.max_plans=1")
            unique = re.search(r"(\d+) unique", run.folded).group(1)
            print(f"{duplicates:>14} {unique:>7} {run.fold_seconds:>9.4f}  {run.folded}", flush=True)


def parts(runner: Runner) -> None:
    """Figure 6: the simulated step where only attention, only the feed-forward layers or both are cut, as Megatron cuts them."""
    model, path = exported("t5_24", runner.folder), runner.folder / "tap_parts.json"

    def step(mesh: str, pins: dict[str, str], *settings: str) -> dict:
        config = runner.folder / "tap_parts.toml"
        config.write_text("[pins]\n" + "".join(f'"{name}" = "{layout}"\n' for name, layout in pins.items()), encoding="utf-8")
        command = [runner.program, "plan", model, "--cluster", CLUSTER, "--mesh", mesh, "--config", config, "-o", path,
                   *(part for each in ("search.zero=0", *settings) for part in ("--set", each))]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(path.read_text(encoding="utf-8"))

    plan = step(MESH, {}, "search.batch_axes=all")
    print(f"\nT5-large on 16 devices\n{'mesh':<6} {'cut':<28} {'step':>10}\n{MESH:<6} {'nothing: data parallel':<28} {1e3 * plan['step_seconds']:>7.1f} ms", flush=True)
    names = [source["names"][0] for source in plan["graph"]["sources"] if source["kind"] == "parameter"]
    feed_forward = [name for name in names if "DenseReluDense" in name and name.endswith("weight")]
    attention = [name for name in names if "Attention." in name and name[-9:-7] in (".q", ".k", ".v", ".o") and name.endswith("weight")]
    for mesh, axis, settings in (("16", 0, ()), (MESH, 1, ("search.batch_axes=0",))):
        def cut(name: str) -> str:
            if name in attention:  # heads are atoms of their own
                return f"R[S{axis} R]" if ".o." in name else f"[S{axis} R]R"
            return f"RS{axis}" if ".wo." in name else f"S{axis}R"

        for what, wanted in (("feed-forward", feed_forward), ("attention", attention), ("both, and the words: Megatron", None)):
            pins = {name: cut(name) if wanted is None or name in wanted else cut(name).replace(f"S{axis}", "R") for name in attention + feed_forward}
            if wanted is not None:
                pins[next(name for name in names if name.endswith("shared.weight"))] = "RR"
            print(f"{mesh:<6} {what:<28} {1e3 * step(mesh, pins, *settings)['step_seconds']:>7.1f} ms", flush=True)
        print(f"{mesh:<6} {'what the search cuts':<28} {1e3 * step(mesh, {})['step_seconds']:>7.1f} ms", flush=True)


def scale(runner: Runner, title: str, models: list[str], path: Path) -> None:
    """Search time against parameters."""
    print(f"\n{title}\n{'model':<18} {'parameters':>12} {'plan, s':>8} {'search, s':>9} {'fold, s':>8} {'objective':>12}  how", flush=True)
    points, search_points = [], []
    for model in models:
        run = runner.plan(model)
        millions = parameters(exported(model, runner.folder)) / 1e6
        search = run.plan["phase_seconds"]["search"]
        points.append((millions, run.seconds))
        search_points.append((millions, search))
        print(f"{model:<18} {millions:>10.1f} M {run.seconds:>8.2f} {search:>9.2f} {run.fold_seconds:>8.4f} "
              f"{1e3 * run.plan['objective_seconds']:>9.1f} ms  {run.plan['method']}", flush=True)
    series = [Series("the whole plan command", points), Series("of that, search", search_points)]
    write_plot(path, title, "parameters, millions", "seconds", series)
    print(f"wrote {path}", flush=True)


def parameters(path: Path) -> int:
    """Elements of the model's parameters, counted once where they are tied."""
    import zipfile  # noqa: PLC0415

    with zipfile.ZipFile(path) as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith("models/model.json"))
        program = json.loads(archive.read(name))
    graph = program["graph_module"]
    used = {item["parameter"]["arg"]["name"] for item in graph["signature"]["input_specs"] if "parameter" in item}
    total = 0
    for value, meta in graph["graph"]["tensor_values"].items():
        if value in used and is_used(graph["graph"], value):
            elements = 1
            for size in meta["sizes"]:
                elements *= size["as_int"]
            total += elements
    return total


def is_used(graph: dict, value: str) -> bool:
    return any(f'"name": "{value}"' in json.dumps(node["inputs"]) for node in graph["nodes"])


def main() -> int:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", choices=["fold", "depth", "width", "parts", []], metavar="FIGURE", help="fold, depth, width, parts; all if none is named")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "zoo", help="the folder for exported models and plots")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    runner = Runner(options.program, options.output, options.runs)
    wanted = options.figures or ["fold", "depth", "width", "parts"]
    if "fold" in wanted:
        fold(runner)
    if "depth" in wanted:
        scale(runner, "T5, deeper (Figure 9)", [f"t5_{layers}" for layers in DEPTHS], options.output / "figure_9.svg")
    if "width" in wanted:
        scale(runner, "ResNet-50, wider (Figure 10)", [f"resnet50_{classes}" for classes in CLASSES], options.output / "figure_10.svg")
    if "parts" in wanted:
        parts(runner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
