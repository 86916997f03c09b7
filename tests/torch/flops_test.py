#!/usr/bin/env python3
"""Holds the operations counted of a plan against those that PyTorch counts of the model's forward and backward.

    tests/torch/flops_test.py --program build/bin/meshwright
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import export  # noqa: E402  (found through the paths above)
from meshwright.flops import step_flops  # noqa: E402

MODELS = ["mlp_tiny", "gpt2_tiny", "bert_tiny", "llama_tiny", "t5_tiny", "vit_tiny", "resnet_tiny", "clip_tiny", "unet_tiny"]


def of_plan(program: Path, name: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        subprocess.run([program, "plan", ROOT / "tests" / "models" / f"{name}.pt2", "--cluster", ROOT / "configs" / "clusters" / "h100x8.toml",
                        "--mesh", "8", "-o", plan], check=True, capture_output=True)
        return sum(step_flops(json.loads(plan.read_text())).values())


def of_pytorch(name: str) -> int:
    model, inputs = export.MODELS[name]()
    model.train()
    inputs = {key: torch.ones_like(value) for key, value in inputs.items()}
    # The plain kernel: PyTorch counts its products, of the fused ones a backward with what they compute again.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(**inputs).backward()
    return counter.get_total_flops()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    wrong = 0
    for name in options.models:
        ours, theirs = of_plan(options.program, name), of_pytorch(name)
        wrong += ours != theirs
        print(f"{name:14} {ours:12} of the plan, {theirs:12} of PyTorch{'' if ours == theirs else '  WRONG'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
