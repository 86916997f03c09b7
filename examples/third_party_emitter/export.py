#!/usr/bin/env python3
"""Write model.pt2, beside this script: attention with an op that neither PyTorch nor Meshwright knows, thirdparty::linear_bias.

Needs the packages of examples/requirements.txt.

    python examples/third_party_emitter/export.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parents[1] / "python"))

import meshwright  # noqa: E402  (found through the path above)

BATCH, LENGTH, WIDTH, CLASSES = 4, 8, 16, 8


@torch.library.custom_op("thirdparty::linear_bias", mutates_args=())
def linear_bias(self: torch.Tensor, slope: float) -> torch.Tensor:
    q, k = (torch.arange(size, device=self.device) for size in self.shape[-2:])
    return self - slope * (q[:, None] - k).abs().to(self.dtype)


@linear_bias.register_fake
def _(self: torch.Tensor, slope: float) -> torch.Tensor:
    return torch.empty_like(self)


linear_bias.register_autograd(lambda ctx, gradient: (gradient, None))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = linear_bias(self.query(features) @ self.key(features).transpose(1, 2), 0.5)
        return F.cross_entropy(self.head(scores.softmax(-1) @ self.value(features)).flatten(0, 1), labels)


def inputs() -> dict[str, torch.Tensor]:
    return {"features": torch.randn(BATCH, LENGTH, WIDTH), "labels": torch.randint(CLASSES, (BATCH * LENGTH,))}


def main() -> None:
    with torch.device("meta"):
        model = Model()
        sample = {name: tensor.to("meta") for name, tensor in inputs().items()}
    path = meshwright.export(model.train(), sample, ROOT / "model.pt2")
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
