#!/usr/bin/env python3
"""What autoparallelize chooses beside what people write by hand, on 4 gloo ranks of this machine.

    build/torch/bin/python bench/torch/chosen.py --program build/bin/meshwright [MODEL...]

GPT-2, Llama, a vision transformer and a ResNet, all small, each as `meshwright.autoparallelize` makes it (the machine is measured first, if nothing is
remembered of it), next to DistributedDataParallel, FSDP2's fully_shard and, where there are heads, tensor parallelism. All take turns
step by step; a step is as long as on its slowest rank. All compute the same, so losses must agree: the batch norms of DDP and FSDP2 add up
their statistics over the ranks, as PyTorch's SyncBatchNorm does, which has no CPU. Prints a row for each model; the ratio is to the
fastest by hand. The models are of such sizes that a step takes about 0.1 s: the loss of the whole batch, which by hand no rank knows, takes
a collective of some milliseconds.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.nn.functional  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import meshwright  # noqa: E402  (before there is a group, which some of PyTorch's modules would keep to the end)
import models  # noqa: E402
from beside import RANKS, Side, data_parallel, megatron  # noqa: E402
from models import BATCH, WIDTH  # noqa: E402

WARM, STEPS, CLASSES = 3, 20, 100


class ViT(nn.Module):
    """Patches of 8 x 8, with the blocks of GPT-2."""

    def __init__(self):
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, WIDTH, 8, 8), nn.Parameter(torch.zeros(64, WIDTH))
        self.blocks = nn.ModuleList([models.Gpt2Block() for _ in range(models.LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x).mean(1)), labels)


class SyncedBatchNorm(nn.BatchNorm2d):
    """Over the batches of all ranks: one collective forward, and autograd's own one backward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        own = x.mean((0, 2, 3))
        mean, squares = torch.distributed.nn.functional.all_reduce(torch.stack([own, x.square().mean((0, 2, 3))])) / RANKS
        variance = squares - mean.square()
        with torch.no_grad():
            count = x.numel() // x.shape[1] * RANKS
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
        scale = self.weight * (variance + self.eps).rsqrt()
        return x * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]


class Residual(nn.Module):
    def __init__(self, inside: int, outside: int, norm):
        super().__init__()
        self.first, self.second = nn.Conv2d(inside, outside, 3, outside // inside, 1, bias=False), nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2 = norm(outside), norm(outside)
        self.way = nn.Conv2d(inside, outside, 1, 2, bias=False) if inside != outside else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm_1(self.first(x)))
        return F.relu(self.norm_2(self.second(y)) + self.way(x))


class ResNet(nn.Module):
    def __init__(self, norm=nn.BatchNorm2d):
        super().__init__()
        sizes = [32, 32, 64, 128, 256]
        self.stem, self.head = nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.Linear(sizes[-1], CLASSES)
        self.blocks = nn.ModuleList([Residual(a, b, norm) for a, b in zip(sizes, sizes[1:])])

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.stem(images)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x.mean((2, 3))), labels)


def images(size: int, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {"images": torch.randn(BATCH, 3, size, size, generator=generator), "labels": torch.randint(CLASSES, (BATCH,), generator=generator)}


MODELS = {"GPT-2": (models.Gpt2, models.batch), "Llama": (models.Llama, models.batch), "ViT": (ViT, partial(images, 64)),
          "ResNet": (ResNet, partial(images, 96)), "ResNet, group norms": (lambda: ResNet(lambda width: nn.GroupNorm(8, width)), partial(images, 96))}
BY_HAND_INSTEAD = {"ResNet": lambda: ResNet(SyncedBatchNorm)}


def fully_sharded(model):
    from beside import rows
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh), rows


BY_HAND = {"DDP": data_parallel, "FSDP2": fully_sharded, "tensor parallelism": megatron}


def made(name: str, by_hand: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return (by_hand and BY_HAND_INSTEAD.get(name) or MODELS[name][0])()


def on_ranks(wanted: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in wanted:
        batch = MODELS[name][1]
        chosen = meshwright.autoparallelize(made(name), batch(0), verbose=False)
        sides = {"chosen": Side(chosen, chosen.local_batch, batch)}
        for way, shard in BY_HAND.items():
            if way != "tensor parallelism" or name in models.MODELS:
                sides[way] = Side(*shard(made(name, by_hand=True)), batch)
        for number in range(WARM + STEPS):
            for way in random.Random(number).sample([*sides], len(sides)):
                sides[way].step(number)
        times = {way: 1e3 * median(side.slowest()) for way, side in sides.items()}
        losses = {way: side.mean_losses() for way, side in sides.items()}
        apart = max((loss - losses["DDP"]).abs().max().item() for loss in losses.values())
        if dist.get_rank() == 0:
            fastest = min((way for way in times if way != "chosen"), key=times.get)
            mesh = "x".join(str(axis["size"]) for axis in chosen.plan["mesh"])
            print(f"| {name} | {mesh} | {1e3 * chosen.plan['step_seconds']:.1f} ms | {times['chosen']:.1f} ms | "
                  + " | ".join(f"{times[way]:.1f} ms" if way in times else "" for way in BY_HAND)
                  + f" | {times['chosen'] / times[fastest]:.2f} ({fastest}) | {apart:.1e} |", flush=True)
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("models", nargs="*", help=", ".join(MODELS))
    options = parser.parse_args()
    wanted = options.models or [*MODELS]
    if "RANK" in os.environ:
        on_ranks(wanted)
        return 0
    print("| model | mesh | predicted | chosen | " + " | ".join(BY_HAND) + " | over the fastest by hand | losses apart |\n|---" + "|---" * 8 + "|", flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MESHWRIGHT_PROGRAM": str(options.program.resolve())}
    return subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__, "--program",
                           options.program, *wanted], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
