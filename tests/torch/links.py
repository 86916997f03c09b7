"""Links between ranks, measured with gloo: by `python -m meshwright.detect`, and by autoparallelize where the device's figures are shipped.

    tests/torch/links.py --program build/bin/meshwright

Four ranks. No time is tested, only what is written, kept, taken and refused.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from measured import spoil, start

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import meshwright  # noqa: E402

RANKS = 4
DEVICE = ROOT / "configs/devices/cpu_core.toml"
MODEL = ROOT / "tests/models/mlp_tiny.pt2"
STARTED = ("--set", 'cluster.detect.order="started"')  # any measurement makes a cluster then, a busy machine's too


def sharded() -> tuple[torch.nn.Module, str]:
    """The model, planned with the shipped figures of a device, and what rank 0 said."""
    torch.manual_seed(0)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        model = meshwright.autoparallelize(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)),
                                           (torch.randn(16, 32),), measure=False)
    return model, said.getvalue()


def on_ranks(folder: Path) -> None:
    dist.init_process_group("gloo")
    first = dist.get_rank() == 0
    model, said = sharded()
    cluster = model.plan["cluster"]
    assert not first or "measuring the links between ranks, once" in said, said
    assert cluster["name"] == "1x4_cpu_core" and cluster["nodes"] == 1 and cluster["devices_per_node"] == RANKS, cluster
    assert RANKS in [curve["devices"] for curve in cluster["levels"][-1]["measured"]], cluster
    again, said = sharded()
    assert "measuring" not in said and again.plan["cluster"] == cluster, said
    spoil(folder / "cache/links")
    _, said = sharded()
    assert not first or "measuring the links" in said, said
    # Rank 0 has its fast link to rank 2, and rank 1 to rank 3: neighbours have none.
    os.environ["MESHWRIGHT_LINKS"] = str(folder / "crossed.csv")
    if first:
        rows = (f"{a},{b},3e-6,{'2e11' if (a + b) % 2 == 0 else '1e10'}\n" for a, b in itertools.combinations(range(RANKS), 2))
        (folder / "crossed.csv").write_text("a,b,latency_s,bandwidth_Bps\n" + "".join(rows))
    dist.barrier()
    crossed, said = sharded()
    assert not first or "with rank 0, 1, 2, ... on the measurement's device 0 2 1 3" in said, said
    assert {level["bytes_per_second"] for level in crossed.plan["cluster"]["levels"]} == {1e10}, crossed.plan["cluster"]
    dist.destroy_process_group()


def detect(program: Path, folder: Path, *options: object, ranks: int = RANKS) -> subprocess.CompletedProcess:
    environment = {**os.environ, "MESHWRIGHT_PROGRAM": str(program), "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "meshwright.detect",
                           "-o", folder / "cluster.toml", *options], env=environment, capture_output=True, text=True, check=False)


def writes_a_cluster(program: Path, folder: Path) -> None:
    done = detect(program, folder, "--device", DEVICE, "--keep", folder / "links.csv", *STARTED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is written: 1 x 4 devices") == 1, done.stdout
    cluster = (folder / "cluster.toml").read_bytes()
    lines = (folder / "links.csv").read_text().splitlines()
    assert sum(len(line.split(",")) == 4 for line in lines) == 1 + RANKS * (RANKS - 1) and any(line.startswith("0 1 2 3,") for line in lines), lines
    subprocess.run([program, "plan", MODEL, "--cluster", folder / "cluster.toml", "-o", folder / "plan.json"], check=True, capture_output=True)
    subprocess.run([program, "detect", "--from", folder / "links.csv", "--device", DEVICE, "-o", folder / "cluster.toml", *STARTED], check=True,
                   capture_output=True)
    assert (folder / "cluster.toml").read_bytes() == cluster


def refuses(program: Path, folder: Path) -> None:
    for ranks, options, sentence in ((1, (), "one rank alone has no links to measure"),
                                     (2, ("--device", folder / "none.toml"), "none.toml: no such file"),
                                     (2, ("--from", "x.csv"), "unrecognized arguments: --from x.csv")):
        done = detect(program, folder, *options, ranks=ranks)
        assert done.returncode != 0 and done.stderr.count("meshwright: error: ") == 1 and sentence in done.stderr, done.stderr
        assert not (folder / "cluster.toml").exists(), options


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.folder is not None:
        on_ranks(options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        refuses(options.program, Path(folder))
        writes_a_cluster(options.program, Path(folder))
        start(__file__, options.program, Path(folder), RANKS)


if __name__ == "__main__":
    main()
