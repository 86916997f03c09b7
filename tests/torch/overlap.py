"""Which collectives run beside computing: what `simulate` says is what emitted programs do.

    tests/torch/overlap.py --program build/bin/meshwright

A model whose gradients fill several buckets, on two gloo ranks. With ZeRO-0 and ZeRO-2 the program says with which gradients each reduction
goes, and whether it begins before the backward has computed its last gradient; with ZeRO-3, behind how many products of the forward and of the
backward each weight begins to be gathered. `simulate`'s trace must say the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench/torch")]

RANKS, LAYERS, WIDTH, BUCKET = 2, 6, 512, "3MB"
REDUCING = {"data_parallel": ["search.zero=0"], "zero2": ["search.zero=2"]}
GATHERING = {f"zero3_{prefetch}": ["search.zero=3", "search.regather=always", f"search.prefetch={prefetch}"] for prefetch in ("always", "never")}
FAST = ("1.2GB/s", "1000GB/s")  # a link on which no gather waits for another one, so that each begins when it may


class Net(torch.nn.Module):
    """A gradient of 1 MB each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


def events_of(trace: Path) -> list[dict]:
    return [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]


def layer_in(event: dict) -> str:
    return re.search(r"layers\.\d+\.weight", event["args"]["name"]).group()


def predicted_gathers(trace: Path) -> list[tuple[str, str, int]]:
    """In their order the phase of each gather, its parameter, and how many products of the phase end before it."""
    events, found = events_of(trace), []
    for event in events:
        if event["tid"] != 1 or not event["name"].startswith("all_gather") or event["cat"] == "update":
            continue
        before = [other for other in events if other["tid"] == 0 and other["cat"] == event["cat"] and other["name"] in ("aten.linear", "aten.mm")
                  and other["ts"] + other["dur"] <= event["ts"] + 1e-3]
        found.append((event["ts"], event["cat"], layer_in(event), len(before)))
    return [gather for _, *gather in sorted(found)]


class Products(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the products of a phase."""

    def __init__(self) -> None:
        super().__init__()
        self.phase, self.count = "", 0

    def begin(self, phase: str) -> None:
        self.phase, self.count = phase, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function in (torch.ops.aten.mm.default, torch.ops.aten.linear.default)
        return function(*args, **(kwargs or {}))


def gathers_of(model: torch.nn.Module, sharding, x: torch.Tensor) -> list[tuple[str, str, int]]:
    """The same of a step of the emitted program, in which it knows what came after what in the step before."""
    found, products, named = [], Products(), sharding.range_named

    def range_named(what, shards):
        if what == "load":
            found.extend((products.phase, shard.storing.name, products.count) for shard in shards)
        return named(what, shards)

    sharding.range_named = range_named
    for _ in range(2):
        found.clear()
        with products:
            products.begin("forward")
            loss = model(x)
            products.begin("backward")
            loss.backward()
    sharding.range_named = named
    return found


def predicted(trace: Path) -> tuple[list[str], list[str]]:
    """The parameters whose gradients are sent before the backward's last kernel has ended, and the others; as they are sent."""
    events = events_of(trace)
    computed = max(event["ts"] + event["dur"] for event in events if event["tid"] == 0 and event["cat"] == "backward")
    sent = sorted((event["ts"], layer_in(event)) for event in events
                  if event["tid"] == 1 and event["cat"] == "backward" and re.match("all_reduce|reduce_scatter", event["name"]))
    # What is sent when the last gradient is there begins with the end of the kernel that made it.
    return [name for begin, name in sent if begin < computed - 1e-3], [name for begin, name in sent if begin >= computed - 1e-3]


def on_ranks(folder: Path) -> None:
    from beside import emitted
    from threads_left import expect_no_threads_at_the_end

    expect_no_threads_at_the_end()
    dist.init_process_group("gloo")  # the user's own, before anything of ours is imported
    for case in REDUCING:
        model = emitted(folder / case).Model()
        sharding = sys.modules["sharding"]
        sent: dict[bool, list[str]] = {False: [], True: []}
        ending = [False]
        named, end = sharding.range_named, sharding.Reductions.end

        def range_named(what, shards, named=named):
            if what == "reduce":
                sent[ending[0]] += [shard.storing.name for shard in shards]
            return named(what, shards)

        def ended(reductions, end=end):
            ending[0] = True
            end(reductions)
            ending[0] = False

        sharding.range_named, sharding.Reductions.end = range_named, ended
        model(torch.randn(8 // RANKS, WIDTH)).backward()
        early, late = json.loads((folder / case / "predicted.json").read_text())
        assert (sent[False], sent[True]) == (early, late), f"{case}: sent beside the backward {sent[False]}, behind it {sent[True]}; simulate says {early} and {late}"
        assert early and late, f"{case}: nothing to tell apart"
    for case in GATHERING:
        model = emitted(folder / case).Model()
        found = gathers_of(model, sys.modules["sharding"], torch.randn(8 // RANKS, WIDTH))
        expected = [tuple(each) for each in json.loads((folder / case / "predicted.json").read_text())]
        assert found == expected, f"{case}: gathered {found}; simulate says {expected}"
        assert {phase for phase, _, _ in found} == {"forward", "backward"}, f"{case}: nothing to tell apart"
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.folder is not None:
        on_ranks(options.folder)
        return
    import meshwright
    from beside import CLUSTER, run

    with tempfile.TemporaryDirectory() as text, contextlib.chdir(text):
        folder = Path(text)
        cluster = CLUSTER.format(ranks=RANKS, root=ROOT)
        (folder / "cluster.toml").write_text(cluster)
        (folder / "fast.toml").write_text(cluster.replace(*FAST).replace("400us", "1us"))
        meshwright.export(Net(), (torch.randn(8, WIDTH),), folder / "net.pt2")
        for case, settings in (REDUCING | GATHERING).items():
            (folder / case).mkdir()
            plan = folder / case / "plan.json"
            more = [part for each in [*settings, "search.batch_axes=all", f'profiler.roofline.bucket_bytes="{BUCKET}"'] for part in ("--set", each)]
            run(options.program, "plan", folder / "net.pt2", "--cluster", folder / ("fast.toml" if case in GATHERING else "cluster.toml"), "--mesh", RANKS, *more, "-o", plan)
            # Smaller buckets, and those of a backward that waits for none, queue for the link: the trace says when they travel, not when they were sent.
            whole = json.loads(plan.read_text())
            plan.write_text(json.dumps({**whole, "bucket_bytes": 3_000_000, "room_bytes": 0}))
            bucket = ["--set", f'profiler.roofline.bucket_bytes="{BUCKET}"']
            run(options.program, "simulate", plan, "--trace", folder / case / "trace.json", *bucket)
            run(options.program, "emit", plan, "--backend", "torch", "-o", folder / case, *bucket)
            of_trace = predicted_gathers if case in GATHERING else predicted
            (folder / case / "predicted.json").write_text(json.dumps(of_trace(folder / case / "trace.json")))
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__, "--folder", folder],
                       env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
