#!/usr/bin/env python3
"""Models that do not fit without recomputation, made to: what a plan takes and holds, and how long it is searched for.

    make recompute-stories
    python bench/recompute/stories.py [-o FOLDER] [--program FILE] [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]

import meshwright  # noqa: E402
import models  # noqa: E402

# Model, tokens of a sequence, sequences of a step, cluster, settings.
STORIES = {
    "llama_8b_32k": (models.llama_8b, 32768, 8, "h100x8", []),
    "llama_8b_128k": (models.llama_8b, 131072, 8, "h100x8", ["train.microbatches=8"]),
    "llama_70b_8k": (models.llama_70b, 8192, 128, "h100x64", ["cluster.mesh=8x8"]),
    "gpt2_map_delta": (None, 1024, 8, "a100x8_nvswitch", []),
}


def export(path: Path, make, length: int, batch: int) -> None:
    if path.exists():
        return
    with torch.device("meta"):
        model, tokens = make(length), torch.zeros(batch, length, dtype=torch.int64)
    meshwright.export(model.train(), {"tokens": tokens, "labels": tokens.clone()}, path)


def gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def verified(program: Path, plan: Path) -> str:
    """What a smaller model with the plan's choices says, all ranks of it."""
    done = subprocess.run([str(program), "verify", str(plan), "--shrink"], capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if " ranks " in line or "blocks  " in line or "error" in line]
    return "; ".join(line.strip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(STORIES))
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "recompute")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        make, length, batch, cluster, settings = STORIES[name]
        model = options.output / f"{name}.pt2" if make else ROOT / "examples" / f"{name}.pt2"
        if make:
            export(model, make, length, batch)
        for recompute in ("none", "free"):
            command = [options.program, "plan", model, "--cluster", ROOT / f"configs/clusters/{cluster}.toml", "--config", ROOT / "configs/demo.toml", "--format", "json",
                       "-o", options.output / f"{name}.json"]
            for each in [f"search.recompute={recompute}", *settings]:
                command += ["--set", each]
            begin = time.monotonic()
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
            took = time.monotonic() - begin
            if done.returncode != 0:
                refusal = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
                print(f"{name:<16} {recompute:<5} {refusal[:150]}  ({took:.0f} s)", flush=True)
                continue
            plan = json.loads((options.output / f"{name}.json").read_text())
            bound = plan["step_lower_bound_seconds"]
            print(f"{name:<16} {recompute:<5} step {plan['step_seconds'] * 1e3:.0f} ms, at least {bound * 1e3:.0f}; the program holds {gib(plan['peak_bytes'])}"
                  f" ({took:.0f} s)", flush=True)
            print(*(f"    {note}" for note in plan["notes"] if "runs again" in note), sep="\n", flush=True)
            print(f"    {verified(options.program, options.output / f'{name}.json')}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
