#!/usr/bin/env python3
"""A third party's op that depends on the part that a rank has (examples/third_party_emitter): planned so that it is cut, emitted by
the third party's emitter, and run on 2 ranks; loss and gradients are those of one device. Without the emitter it is refused.

    tests/torch/third_party.py --program build/bin/meshwright --plugins FOLDER
"""

from __future__ import annotations

import argparse
import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "third_party_emitter"
sys.path[:0] = [str(HERE), str(EXAMPLE)]

RANKS = 2
REFUSED = ("node 'linear_bias' (thirdparty.linear_bias) can't be written as PyTorch: its result depends on which part a rank has, and no plugin "
           "serves torch:thirdparty.linear_bias")


def rank(folder: Path) -> None:
    import export  # the example's
    import torch
    from equal import TOLERANCES, emitted, worst
    from threads_left import tell_of_threads

    atexit.register(tell_of_threads)  # the emitted program makes the group, and so has to end it
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    whole, inputs = export.Model(), export.inputs()
    wanted = whole(**inputs)
    wanted.backward()
    program, sharding = emitted(folder)
    model = program.Model().double()
    model.load_whole(whole.state_dict())
    loss = model(**model.local_batch(inputs))
    loss.backward()
    found = {"loss": loss, **{name: sharding.whole_of(shard.grad, shard.sharding) for name, shard in model.named_parameters()}}
    expected = {"loss": wanted, **{name: value.grad for name, value in whole.named_parameters()}}
    difference, where = worst(found, expected)
    print(f"{difference:.1e} at {where}", flush=True)
    sys.exit(0 if difference <= TOLERANCES[torch.float64] else 1)


def main() -> None:
    from prepare import CLUSTER, ROOT

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--plugins", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "cluster.toml").write_text(CLUSTER.format(ranks=RANKS, root=ROOT).rpartition("[[level]]")[0])  # one pair

        def run(plugins: Path, *command: object) -> subprocess.CompletedProcess:
            environment = {**os.environ, "MESHWRIGHT_PLUGIN_PATH": str(plugins)}
            return subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)

        plan = folder / "plan.json"
        planned = run(options.plugins, options.program, "plan", EXAMPLE / "model.pt2", "--cluster", folder / "cluster.toml", "--mesh", RANKS,
                      "--set", 'pins.linear_bias="d1"', "-o", plan)
        assert planned.returncode == 0, planned.stderr
        emit = (options.program, "emit", plan, "--backend", "torch", "-o", folder)
        refused = run(options.plugins / "family", *emit)
        assert refused.returncode == 2 and REFUSED in refused.stderr, refused.stderr
        written = run(options.plugins, *emit)
        assert written.returncode == 0, written.stderr
        model, sharding = ((folder / name).read_text() for name in ("model.py", "sharding.py"))
        assert "linear_bias(" in model and "rows=positions((8,), (4,), (0,), ((4,),))" in model, model
        assert "def linear_bias(scores, slope, rows=None, columns=None):" in sharding and "def linear_bias" not in model
        ran = run(options.plugins, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS, __file__, "--rank", folder)
        print(ran.stdout, end="")
        assert ran.returncode == 0 and "threads are left" not in ran.stderr, ran.stderr


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        rank(Path(sys.argv[2]))
    main()
