#!/usr/bin/env python3
"""Write model.pt2, beside this script: a model with an op that neither PyTorch nor Meshwright knows.

The op is ``thirdparty::squared_relu``; in the graph it stands as ``thirdparty.squared_relu``. Without a plugin for it a
plan runs it replicated and says so. Needs the packages of examples/requirements.txt.

    python examples/third_party_op/export.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parents[1] / "python"))

import meshwright  # noqa: E402  (found through the path above)


@torch.library.custom_op("thirdparty::squared_relu", mutates_args=())
def squared_relu(self: torch.Tensor) -> torch.Tensor:
    return torch.relu(self).square()


@squared_relu.register_fake
def _(self: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(self)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 2 * torch.relu(ctx.saved_tensors[0])


squared_relu.register_autograd(_backward, setup_context=_save)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = torch.nn.Linear(32, 128)
        self.contract = torch.nn.Linear(128, 16)

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = squared_relu(self.expand(features))
        return torch.nn.functional.cross_entropy(self.contract(hidden), labels)


def main() -> None:
    with torch.device("meta"):
        model = Model()
        inputs = {"features": torch.zeros(16, 32), "labels": torch.zeros(16, dtype=torch.int64)}
    path = meshwright.export(model.train(), inputs, ROOT / "model.pt2")
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
