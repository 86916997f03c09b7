#!/usr/bin/env python3
"""How fast emitted programs are beside what people write by hand, on 4 gloo ranks of this machine.

    build/torch/bin/python bench/torch/beside.py --program build/bin/meshwright -o build/beside [WAY...]

Each way is planned, emitted, and trained next to PyTorch's own: data parallelism to DistributedDataParallel, ZeRO-3 to FSDP2's
fully_shard, Megatron's tensor parallelism to torch.distributed.tensor.parallel; what the search chooses, to DistributedDataParallel. Both models of models.py have the same weights,
batches and optimizer, and take turns step by step, so that whatever else runs on the machine slows both; a step is as long as on
its slowest rank. The losses must agree. The ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from models import BATCH, MODELS, batch, made

ROOT = Path(__file__).resolve().parents[2]
RANKS, WARM, STEPS = 4, 3, 40
WAYS = {
    "data parallel": ["search.batch_axes=all", "search.zero=0"],
    "ZeRO-3": ["search.batch_axes=all", "search.zero=3", "search.regather=always", "search.prefetch=always"],
    "Megatron": ["search.weights=sharded", "search.zero=0"],
    "chosen": [],
}
HAND = {"data parallel": "DistributedDataParallel", "ZeRO-3": "fully_shard", "Megatron": "parallelize_module", "chosen": "DistributedDataParallel"}
CLUSTER = """name = "gloo on this machine"
nodes = 1
devices_per_node = {ranks}
device = "{root}/configs/devices/cpu_core.toml"
reserved_bytes = "0GiB"

[[level]]
name = "loopback"
group = {ranks}
bandwidth = "1.2GB/s"
latency = "400us"
"""


def optimizers_of(model) -> list[torch.optim.Optimizer]:
    """AdamW as fast as PyTorch has it. Its fused kernel takes DTensors or tensors, and tensor parallelism by hand has both."""
    kinds = {}
    for parameter in model.parameters():
        kinds.setdefault(type(parameter.data), []).append(parameter)
    return [torch.optim.AdamW(each, lr=1e-3, fused=True) for each in kinds.values()]


# --- by hand ---

def rows(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """This rank's rows of a batch."""
    share = BATCH // RANKS
    return {name: x[dist.get_rank() * share:(dist.get_rank() + 1) * share] for name, x in inputs.items()}


def data_parallel(model):
    return torch.nn.parallel.DistributedDataParallel(model), rows


def zero_3(model):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh), rows


def megatron(model):
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {"words": RowwiseParallel(input_layouts=Replicate()), "head": ColwiseParallel(output_layouts=Replicate())}
    for number in range(len(model.blocks)):
        plan |= {f"blocks.{number}.attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {f"blocks.{number}.{name}": ColwiseParallel() for name in ("up", "gate") if hasattr(model.blocks[number], name)}
        plan |= {f"blocks.{number}.{name}": RowwiseParallel() for name in ("attention.out", "down")}
    return parallelize_module(model, dist.device_mesh.init_device_mesh("cpu", (RANKS,)), plan), lambda inputs: inputs


BY_HAND = {"data parallel": data_parallel, "ZeRO-3": zero_3, "Megatron": megatron, "chosen": data_parallel}


# --- emitted ---

def emitted(folder: Path):
    """The module model.py of a folder, with a sharding.py of its own."""
    for name in ("sharding", "model"):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def ours(folder: Path, model):
    made_here = emitted(folder).Model()
    made_here.load_whole({**dict(model.named_buffers()), **model.state_dict()})
    return made_here, made_here.local_batch


# --- both ---

class Side:
    """A model in training."""

    def __init__(self, model, local, batch=batch):
        self.model, self.local, self.batch, self.seconds, self.worked, self.losses = model, local, batch, [], [], []
        self.optimizers = optimizers_of(model)

    def step(self, number: int) -> None:
        inputs = self.local(self.batch(number))
        dist.barrier()
        begin, worked = time.perf_counter(), time.process_time()
        loss = self.model(**inputs) if isinstance(inputs, dict) else self.model(*inputs)
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.seconds.append(time.perf_counter() - begin)
        self.worked.append(time.process_time() - worked)
        self.losses.append(loss.detach().double())

    def slowest(self) -> list[float]:
        """Of each step, on its slowest rank."""
        times = torch.tensor(self.seconds[WARM:], dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX)
        return times.tolist()

    def all_worked(self) -> list[float]:
        """Of each step, the processor's seconds of all ranks together."""
        times = torch.tensor(self.worked[WARM:], dtype=torch.float64)
        dist.all_reduce(times)
        return times.tolist()

    def mean_losses(self) -> torch.Tensor:
        total = torch.stack(self.losses)
        dist.all_reduce(total)
        return total / RANKS


def on_ranks(folder: Path, wanted: list[str], steps: int) -> int:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    wrong = 0
    for name in MODELS:
        for way in wanted:
            hand = Side(*BY_HAND[way](made(name)))
            own = Side(*ours(folder / f"{name}.{way}", made(name)))
            for number in range(WARM + steps):
                for side in (hand, own) if number % 2 else (own, hand):
                    side.step(number)
            difference = (hand.mean_losses() - own.mean_losses()).abs().max().item()
            times, work = (hand.slowest(), own.slowest()), (hand.all_worked(), own.all_worked())
            wrong += not difference < 1e-3
            if dist.get_rank() == 0:
                first, second = (1000 * median(each) for each in times)
                processor = [1000 * median(each) for each in work]
                print(f"| {name} | {way} | {HAND[way]} | {first:.1f} ms | {second:.1f} ms | {second / first:.2f} | {min(times[1]) / min(times[0]):.2f} | "
                      f"{processor[0]:.0f} ms | {processor[1]:.0f} ms |"
                      + ("" if difference < 1e-3 else f" LOSSES DIFFER by {difference:.1e}"), flush=True)
    dist.destroy_process_group()
    return wrong > 0


def run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def prepare(program: Path, folder: Path, wanted: list[str]) -> None:
    sys.path.insert(0, str(ROOT / "python"))
    import meshwright

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.toml").write_text(CLUSTER.format(ranks=RANKS, root=ROOT))
    for name in MODELS:
        file = folder / f"{name}.pt2"
        meshwright.export(made(name), batch(0), file)
        for way in wanted:
            plan = folder / f"{name}.{way}.json"
            more = [part for each in WAYS[way] for part in ("--set", each)]
            mesh = ["--mesh", RANKS] if more else []
            run(program, "plan", file, "--cluster", folder / "cluster.toml", *mesh, *more, "-o", plan)
            run(program, "emit", plan, "--backend", "torch", "-o", folder / f"{name}.{way}")


def main() -> int:
    if "--program" not in sys.argv:
        return on_ranks(Path(sys.argv[1]), sys.argv[3:], int(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("ways", nargs="*", help=", ".join(WAYS))
    options = parser.parse_args()
    wanted = options.ways or [*WAYS]
    prepare(options.program, options.output, wanted)
    print("| model | way | by hand | its step | ours | ratio | of the fastest steps | its processors | ours |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    return subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__,
                           str(options.output), str(options.steps), *wanted], env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
