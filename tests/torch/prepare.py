#!/usr/bin/env python3
"""Plans the small models of tests/models in several ways and emits each plan as a PyTorch program: cases for equal.py.

    tests/torch/prepare.py --program build/bin/meshwright --random build/bin/emit_random_plans -o FOLDER

FOLDER/4 gets the cases for four ranks (2x2), FOLDER/8 those for eight (2x2x2).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ["gpt2", "gpt2_deep", "bert", "t5", "llama", "mixtral", "vit", "resnet", "clip"]
ON_EIGHT = ["gpt2", "llama"]
RANDOM = {"mlp": 6, "gpt2": 2, "t5": 1, "llama": 1, "mixtral": 2, "vit": 1, "resnet": 1, "clip": 1}  # plans drawn

# What a plan is forced to be. CLIP's contrastive loss couples the samples, so its batch alone can't be cut.
WAYS = {
    "optimal": [],
    "data_parallel": ["search.batch_axes=all", "search.zero=0"],
    "megatron": ["search.batch_axes=0", "search.weights=sharded", "search.zero=0"],
    "zero3": ["search.batch_axes=all", "search.zero=3", "search.regather=always"],
    "zero2": ["search.batch_axes=all", "search.zero=2"],
    "sequence": ["search.weights=sharded"],  # and norms that cut the text, see `sequence_pins`
}
COUPLED = {"clip": {"data_parallel": ["search.zero=0"], "megatron": ["search.weights=sharded", "search.zero=0"],
                    "zero3": ["search.zero=3", "search.regather=always"], "zero2": ["search.zero=2"]}}
# Only with --nightly: these ways but for models that stand for the others.
STANDING_FOR_OTHERS = {"data_parallel": {"gpt2", "resnet", "mixtral", "clip"}, "megatron": {"gpt2", "gpt2_deep", "t5", "llama", "vit", "clip"},
                       "zero3": {"gpt2", "t5", "mixtral", "resnet"}, "zero2": {"gpt2", "clip"}, "sequence": {"gpt2", "bert", "llama"},
                       "checkpoint": {"gpt2", "gpt2_deep", "mixtral"}}
# Ops run again for the backward where the plan may hold this share of what the optimal one does.
SELECTIVE = {"gpt2": 0.73, "llama": 0.75}
NO_TEXT = {"vit", "resnet", "clip"}  # an image's patches and a class token are an odd number

CLUSTER = """name = "slow{ranks}"
nodes = 1
devices_per_node = {ranks}
device = "{root}/tests/e2e/slow_device.toml"
reserved_bytes = "0GiB"

[[level]]
name = "pair"
group = 2
bandwidth = "2GB/s"
latency = "1us"

[[level]]
name = "all"
group = {ranks}
bandwidth = "1GB/s"
latency = "1us"
"""


def run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def sequence_pins(plan: Path, axes: int) -> list[str]:
    """Norms work on pieces of the text: Megatron's sequence parallelism, over all axes."""
    nodes = [each for each in json.loads(plan.read_text())["variables"] if each["kind"] == "node"]
    norms = [each for each in nodes if each["op"] == "aten.layer_norm"] or [each for each in nodes if each["op"] == "aten.rsqrt"]
    return [f'pins."{each["name"]}"="{", ".join(["d1"] * axes)}"' for each in norms]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--random", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--nightly", action="store_true", help="each model in each way")
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    for ranks, mesh, models in ((4, "2x2", MODELS), (8, "2x2x2", ON_EIGHT)):
        folder = options.output / str(ranks)
        folder.mkdir(parents=True)
        cluster = folder / "cluster.toml"
        cluster.write_text(CLUSTER.format(ranks=ranks, root=ROOT))

        def plan(model: str, file: Path, settings: list[str], rounds: int = 0) -> None:
            more = [part for each in ["search.sure=false", f"search.step_rounds={rounds}", *settings] for part in ("--set", each)]
            run(options.program, "plan", ROOT / "tests/models" / f"{model}_tiny.pt2", "--cluster", cluster, "--mesh", mesh, "-o", file, *more)

        def emit(case: str, file: Path) -> None:
            run(options.program, "emit", file, "--backend", "torch", "-o", folder / case)

        def wanted(model: str, way: str) -> bool:
            return options.nightly or model in STANDING_FOR_OTHERS.get(way, {model})

        for model in models:
            for way, settings in WAYS.items():
                if way == "sequence" and model in NO_TEXT or ranks == 8 and way in ("data_parallel", "zero2"):
                    continue
                if model == "gpt2_deep" and way not in ("optimal", "megatron"):  # for blocks in a loop, computed again or not
                    continue
                if not wanted(model, way):
                    continue
                file = folder / f"{model}.{way}.json"
                plan(model, file, COUPLED.get(model, {}).get(way, settings), rounds=2 if way == "optimal" else 0)
                if way == "sequence":
                    plan(model, file, settings + sequence_pins(file, mesh.count("x") + 1))
                emit(f"{model}_tiny-{way}", file)
                if way == "optimal" and wanted(model, "checkpoint"):
                    again = folder / f"{model}.checkpoint.json"
                    plan(model, again, [*settings, "search.recompute=all"])
                    emit(f"{model}_tiny-checkpoint", again)
                if way == "optimal" and ranks == 4 and model in SELECTIVE:
                    some = folder / f"{model}.selective.json"
                    budget = int(json.loads(file.read_text())["peak_bytes"] * SELECTIVE[model])
                    plan(model, some, [*settings, "search.recompute=free", f"search.memory_budget={budget}B"])
                    if all("." in each for each in json.loads(some.read_text()).get("recomputed", [])):
                        sys.exit(f"{model}: no single op runs again; give another share")
                    emit(f"{model}_tiny-selective", some)
        if ranks == 4:
            for model, count in RANDOM.items():
                run(options.random, folder, f"{model}_tiny", mesh, count)


if __name__ == "__main__":
    main()
