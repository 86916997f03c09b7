"""Machines that are measured: what autoparallelize does on one that it does not know, what it remembers, and rows for `meshwright calibrate`.

    tests/torch/machine.py --program build/bin/meshwright

Two gloo ranks. No time is tested, only that what was measured is taken, kept, and read again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from measured import spoil, start
from threads_left import expect_no_threads_at_the_end

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import meshwright  # noqa: E402
from meshwright.machine import Curve  # noqa: E402

RANKS = 2


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 8)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.down(torch.relu(self.up(x))), labels)


def sharded(**options: object) -> tuple[torch.nn.Module, str]:
    """The model, and what rank 0 said."""
    torch.manual_seed(0)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        model = meshwright.autoparallelize(Net(), (torch.randn(16, 32), torch.randint(8, (16,))), **options)
    return model, said.getvalue()


def on_ranks(folder: Path, program: Path) -> None:
    expect_no_threads_at_the_end()
    dist.init_process_group("gloo")  # the user's own, before anything of ours is imported
    first = dist.get_rank() == 0
    model, said = sharded()
    assert not first or "measuring this machine" in said, said
    cluster = model.plan["cluster"]
    assert cluster["name"] == "1x2_measured" and cluster["product_curves"]["float32"]["sizes"] and cluster["memory_curve"]["sizes"], cluster
    kinds = {each["only"] for level in cluster["levels"] for each in level["measured"]}
    assert kinds == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}, kinds
    again, said = sharded()
    assert "measuring" not in said and again.plan["cluster"] == cluster, said
    shipped, said = sharded(measure=False)
    assert "measuring this machine" not in said and shipped.plan["cluster"]["name"] == "1x2_cpu_core", said
    assert not first or "measuring the links" in said, said
    _, said = sharded(measure=True)
    assert not first or "measuring this machine" in said, said
    spoil(folder / "cache/machines")
    _, said = sharded()
    assert not first or "measuring this machine" in said, said
    rows = folder / "rows.csv"
    try:
        model.statistics().write(rows)
        assert not first, "written before a step"
    except meshwright.Error as error:
        assert first and "nothing to write" in error.message, error.message
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model(*model.local_batch((torch.randn(16, 32), torch.randint(8, (16,))))).backward()
        optimizer.step()
        optimizer.zero_grad()
    for _ in range(2):
        model.statistics().write(rows)
    dist.barrier()
    if first:
        assert len(rows.read_text().splitlines()) == 3, rows.read_text()
        done = subprocess.run([program, "calibrate", rows, "--coefficients", "host_launch", "--format", "json"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"] == 2, done.stdout
    dist.destroy_process_group()


def curves() -> None:
    """What is more is never sooner done, whatever noise says."""
    curve = Curve.of({1: 1.0, 2: 3.0, 4: 2.0, 8: 8.0}, traffic=0.5)
    seconds = [0.5 * size / rate for size, rate in zip(curve.sizes, curve.rates, strict=True)]
    assert all(a < b for a, b in zip(seconds, seconds[1:])), seconds
    assert abs(seconds[0] - 1) < 1e-5 and abs(seconds[1] - 2.5) < 1e-5 and abs(seconds[3] - 8) < 1e-5, seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.folder is not None:
        on_ranks(options.folder, options.program)
        return
    curves()
    with tempfile.TemporaryDirectory() as folder:
        start(__file__, options.program, Path(folder), RANKS)


if __name__ == "__main__":
    main()
