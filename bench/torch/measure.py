#!/usr/bin/env python3
"""Predicted against measured: step time and bytes sent of emitted programs on the machine at hand, with gloo.

    bench/torch/measure.py --program build/bin/meshwright [--model examples/gpt2_mini.pt2] -o FOLDER

First every rank measures, while the others do the same, what the cost model asks for: a product of matrices, an addition
of long vectors, a small op, all-reduces along each axis. That becomes a cluster file. Then the model is planned in several
ways on 2x2; each plan is simulated, emitted and run. Prints a table for bench/README.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

RANKS = 4
WAYS = {"optimal": [], "data parallel": ["search.batch_axes=all", "search.zero=0"],
        "Megatron and data parallel": ["search.batch_axes=0", "search.weights=sharded", "search.zero=0"],
        "ZeRO-3": ["search.batch_axes=all", "search.zero=3"]}
DEVICE = """name = "one core of this machine"
memory = "4GiB"
memory_bandwidth = "{memory:.4f}GB/s"
vector_flops = "{vector:.4f}GFLOP/s"
launch = "{launch:.1f}us"
matrix_efficiency = 1.0
memory_efficiency = 1.0
half_efficiency = "1FLOP"

[matrix_flops]
float32 = "{matrix:.4f}GFLOP/s"
float16 = "{matrix:.4f}GFLOP/s"
bfloat16 = "{matrix:.4f}GFLOP/s"
"""
CLUSTER = """name = "gloo on this machine"
nodes = 1
devices_per_node = 4
device = "device.toml"
reserved_bytes = "0GiB"

[[level]]
name = "gloo"
group = 4
bandwidth = "{bandwidth:.4f}GB/s"
latency = "{latency:.1f}us"
"""


def seconds(work, repeats: int) -> float:
    """The median time of a call, over all ranks the slowest."""
    work()
    times = []
    for _ in range(repeats):
        dist.barrier()
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    slowest = torch.tensor(sorted(times)[len(times) // 2])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def calibrate() -> dict[str, float]:
    a, b = torch.randn(256, 512), torch.randn(512, 512)
    long, short = torch.randn(4_000_000), torch.randn(16)
    pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][dist.get_rank() // 2]
    # An all-reduce of S bytes on two ranks sends S bytes from each: latency and bandwidth from two sizes.
    sizes = (1_000, 1_000_000)
    small, large = (seconds(lambda: dist.all_reduce(torch.zeros(size), group=pair), 20) for size in sizes)
    per_byte = max(large - small, 1e-9) / (4 * (sizes[1] - sizes[0]))
    return {"matrix": 2 * 256 * 512 * 512 / seconds(lambda: a @ b, 20) / 1e9,
            "memory": 3 * 4 * long.numel() / seconds(lambda: long + long, 10) / 1e9,
            "vector": long.numel() / seconds(lambda: torch.tanh(long), 10) / 1e9,
            "launch": seconds(lambda: [short + short for _ in range(100)], 10) / 100 * 1e6,
            "bandwidth": 1 / per_byte / 1e9, "latency": max(small - 4 * sizes[0] * per_byte, 1e-6) / 2 * 1e6}


class SentBytes(TorchDispatchMode):
    """Bytes that this rank's collectives send, by the definitions of docs/backends.md."""

    def __init__(self):
        super().__init__()
        self.sent = 0.0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.partition("::")
        if name[0] == "_c10d_functional" and isinstance(args[0], torch.Tensor):
            size = args[0].numel() * args[0].element_size()
            group = next((each for each in args[::-1] if isinstance(each, str) and each not in ("sum", "max")), None)
            ranks = dist.distributed_c10d._resolve_process_group(group).size() if group else 1
            self.sent += {"all_reduce": 2 * size * (ranks - 1) / ranks, "all_gather_into_tensor": size * (ranks - 1),
                          "reduce_scatter_tensor": size * (ranks - 1) / ranks, "all_to_all_single": size * (ranks - 1) / ranks}.get(name[2].rstrip("_"), 0)
        return result


def module_of(path: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def measure(folder: Path) -> dict[str, float]:
    module_of(folder / "sharding.py", "sharding")  # the names under which model.py and train.py import them
    model = module_of(folder / "model.py", "model").Model()
    batch = module_of(folder / "train.py", "train").batch
    model.draw_weights()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    inputs = list(model.local_batch(batch(0)).values())

    def step() -> None:
        model(*inputs).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with SentBytes() as counted:
        step()
    sent = torch.tensor(counted.sent, dtype=torch.float64)
    dist.all_reduce(sent)
    return {"seconds": seconds(step, 7), "sent": sent.item()}


def on_ranks(work) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = work()
    if dist.get_rank() == 0:
        Path(os.environ["RESULT"]).write_text(json.dumps(found))
    dist.destroy_process_group()


def run(*command: object, **environment: str) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def spawned(folder: Path, *arguments: object) -> dict[str, float]:
    result = folder / "result.json"
    run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS, __file__, *arguments, OMP_NUM_THREADS="1", RESULT=str(result))
    return json.loads(result.read_text())


def main() -> None:
    if "RESULT" in os.environ:
        on_ranks(calibrate if sys.argv[1] == "calibrate" else lambda: measure(Path(sys.argv[1])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=Path(__file__).resolve().parents[2] / "examples/gpt2_mini.pt2")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    rates = spawned(options.output, "calibrate")
    print(", ".join(f"{name} {value:.3g}" for name, value in rates.items()))
    (options.output / "device.toml").write_text(DEVICE.format(**rates))
    (options.output / "cluster.toml").write_text(CLUSTER.format(**rates))
    print("| plan | step predicted | measured | ratio | sent predicted | measured |\n|---|---|---|---|---|---|")
    for way, settings in WAYS.items():
        folder = options.output / way.replace(" ", "_")
        folder.mkdir(exist_ok=True)
        plan = folder / "plan.json"
        more = [part for each in settings for part in ("--set", each)]
        run(options.program, "plan", options.model, "--cluster", options.output / "cluster.toml", "--mesh", "2x2", "-o", plan, *more)
        predicted = json.loads(run(options.program, "simulate", plan, "--format", "json"))
        run(options.program, "emit", plan, "--backend", "torch", "-o", folder)
        found = spawned(options.output, folder)
        print(f"| {way} | {predicted['step_seconds']:.3f} s | {found['seconds']:.3f} s | {found['seconds'] / predicted['step_seconds']:.2f} | "
              f"{predicted['bytes_sent'] / 1e6:.2f} MB | {found['sent'] / 1e6:.2f} MB |", flush=True)


if __name__ == "__main__":
    main()
