#!/usr/bin/env python3
"""Runs the program on files that no exporter wrote (mutations.py), and keeps those that end it in another way than 0 (done),
2 (refused) or 3 (no plan fits): signals, exit codes 1 and 4, and what takes too long.

    tests/fuzz/mutate.py --program build/bin/meshwright --sources . --runs 1000 --seed 1 -o FOLDER
"""
import argparse
import collections
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys

from mutations import MUTATE

MODELS = ["mlp_tiny.pt2", "gpt2_tiny.pt2", "resnet_tiny.pt2", "mixtral_tiny.pt2", "swin_tiny.pt2", "unet_tiny.pt2", "encoder_open.pt2", "gpt2_tiny_weights.pt2",
          "mlp_bf16_weights.pt2", "classifier_tiny.onnx", "nameless_tiny.onnx", "gpt2_17_tiny.onnx", "resnet_23_tiny.onnx", "bert_17_tiny.onnx", "vit_tiny.pt2", "t5_tiny.pt2"]
SECONDS = 60  # of CPU time, so that a busy machine hangs nothing
MEMORY = 8 << 30


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


def run(program, arguments):
    try:
        done = subprocess.run([program, *arguments], capture_output=True, timeout=40 * SECONDS, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return "hang", ""
    if done.returncode == -signal.SIGXCPU:
        return "hang", ""
    return done.returncode, done.stderr.decode("utf-8", "replace")


def commands(kind, path, sources, folder):
    cluster = str(sources / "tests/e2e/slow8.toml")
    if kind == ".toml":
        yield ["plan", str(sources / "tests/models/mlp_tiny.pt2"), "--cluster", str(path), "-o", str(folder / "made.json")]
        return
    if kind == ".json":
        for command in (["profile", str(path)], ["simulate", str(path)], ["emit", str(path), "--backend", "torch"], ["verify", str(path)], ["explain", str(path)]):
            yield command
        return
    made = folder / "made.json"
    yield ["plan", str(path), "--cluster", cluster, "--mesh", "2x4", "-o", str(made)]
    if made.exists():
        yield ["verify", str(made)]
        yield ["emit", str(made), "--backend", "torch"]


def cause(code, errors):
    lines = errors.strip().splitlines()
    text = next((line for line in lines if "error:" in line or "ssertion" in line), lines[-1] if lines else "")
    return f"{code}: " + re.sub(r"'[^']*'|\d+", "#", re.sub(r"/\S+: ", "", text))[:160]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--sources", required=True, type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", default="", help=".pt2, .onnx, .json or .toml alone")
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    work = arguments.output / "work"
    work.mkdir(exist_ok=True)
    seeds = {".pt2": [], ".onnx": [], ".json": [], ".toml": []}
    for name in MODELS:
        path = arguments.sources / "tests/models" / name
        if path.exists():
            seeds[path.suffix].append((name, path.read_bytes()))
    for name in ("mlp_tiny", "gpt2_tiny", "resnet_tiny", "mixtral_tiny"):
        made = work / f"{name}.json"
        subprocess.run([arguments.program, "plan", str(arguments.sources / f"tests/models/{name}.pt2"), "--cluster",
                        str(arguments.sources / "tests/e2e/slow8.toml"), "--mesh", "2x4", "-o", str(made)], capture_output=True, check=True)
        seeds[".json"].append((name, made.read_bytes()))
    for path in [arguments.sources / "tests/e2e/slow8.toml", *sorted((arguments.sources / "configs/clusters").glob("*.toml"))]:
        seeds[".toml"].append((path.name, path.read_bytes()))
    devices = arguments.sources / "configs/devices"
    causes = collections.Counter()
    codes = collections.Counter()
    for number in range(arguments.seed, arguments.seed + arguments.runs):
        rng = random.Random(number)
        kind = arguments.kind or rng.choice([".pt2", ".pt2", ".onnx", ".json", ".json", ".toml"])
        name, data = rng.choice(seeds[kind])
        try:
            changed = MUTATE[kind](rng, data)
        except RecursionError:
            continue
        path = work / f"input{kind}"
        if kind == ".toml":  # beside the file of its device
            changed = changed.replace(b'"../devices/', f'"{devices}/'.encode()).replace(b'device = "slow', f'device = "{arguments.sources}/tests/e2e/slow'.encode())
        path.write_bytes(changed)
        (work / "made.json").unlink(missing_ok=True)
        for command in commands(kind, path, arguments.sources, work):
            code, errors = run(arguments.program, command)
            codes[code] += 1
            if code in (0, 2, 3) or (code == 1 and "does not compute what one device computes" in errors):
                continue
            why = f"{command[0]} {cause(code, errors)}"
            causes[why] += 1
            if causes[why] <= 3:
                kept = arguments.output / f"{number}{kind}"
                kept.write_bytes(changed)
                print(f"{kept} ({name}): {why}", flush=True)
    print("runs by exit code:", dict(codes))
    for why, count in causes.most_common():
        print(f"{count:6} {why}")
    return 1 if causes else 0


if __name__ == "__main__":
    sys.exit(main())
