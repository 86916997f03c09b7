"""Which reductions of gradients run beside the backward: what `simulate` says is what emitted programs do.

    tests/torch/overlap.py --program build/bin/meshwright

A model whose gradients fill several buckets, data parallel on two gloo ranks, with ZeRO-0 and ZeRO-2. The program says with which gradients
each collective goes, and whether it begins before the backward has computed its last gradient; `simulate`'s trace must say the same.
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
CASES = {"data_parallel": ["search.zero=0"], "zero2": ["search.zero=2"]}


class Net(torch.nn.Module):
    """A gradient of 1 MB each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


def predicted(trace: Path) -> tuple[list[str], list[str]]:
    """The parameters whose gradients are sent before the backward's last kernel has ended, and the others; as they are sent."""
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    computed = max(event["ts"] + event["dur"] for event in events if event["tid"] == 0 and event["cat"] == "backward")
    sent = sorted((event["ts"], re.search(r"layers\.\d+\.weight", event["args"]["name"]).group()) for event in events
                  if event["tid"] == 1 and event["cat"] == "backward" and re.match("all_reduce|reduce_scatter", event["name"]))
    # What is sent when the last gradient is there begins with the end of the kernel that made it.
    return [name for begin, name in sent if begin < computed - 1e-3], [name for begin, name in sent if begin >= computed - 1e-3]


def on_ranks(folder: Path) -> None:
    from beside import emitted

    dist.init_process_group("gloo")
    for case in CASES:
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
        (folder / "cluster.toml").write_text(CLUSTER.format(ranks=RANKS, root=ROOT))
        meshwright.export(Net(), (torch.randn(8, WIDTH),), folder / "net.pt2")
        for case, settings in CASES.items():
            (folder / case).mkdir()
            plan = folder / case / "plan.json"
            more = [part for each in [*settings, "search.batch_axes=all", f'profiler.roofline.bucket_bytes="{BUCKET}"'] for part in ("--set", each)]
            run(options.program, "plan", folder / "net.pt2", "--cluster", folder / "cluster.toml", "--mesh", RANKS, *more, "-o", plan)
            bucket = ["--set", f'profiler.roofline.bucket_bytes="{BUCKET}"']
            run(options.program, "simulate", plan, "--trace", folder / case / "trace.json", *bucket)
            run(options.program, "emit", plan, "--backend", "torch", "-o", folder / case, *bucket)
            (folder / case / "predicted.json").write_text(json.dumps(predicted(folder / case / "trace.json")))
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__, "--folder", folder],
                       env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
