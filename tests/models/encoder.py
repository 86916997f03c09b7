#!/usr/bin/env python3
"""A small transformer of torch alone, and what another version of torch than export.py's writes of it.

    python tests/models/encoder.py tests/models/encoder_torch_2_6.pt2
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import meshwright  # noqa: E402  (found through the path above)

WIDTH, HEADS, VOCABULARY = 32, 4, 50


class Encoder(torch.nn.Module):
    """A transformer layer whose sizes of batch and sequence stand in its code."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        batch, length = inputs.shape
        hidden = self.embedding(inputs) + torch.arange(length, device=inputs.device).view(1, length, 1) * 0.01
        logits = self.head(self.layer(hidden))
        return torch.nn.functional.cross_entropy(logits.view(batch * length, VOCABULARY), labels.reshape(-1))


def encoder(batch: int, length: int):
    return Encoder(), {name: torch.zeros(batch, length, dtype=torch.int64) for name in ("inputs", "labels")}


def open_dimensions(inputs: dict[str, torch.Tensor]) -> dict[str, dict[int, torch.export.Dim]]:
    return {name: {0: torch.export.Dim("batch", min=2, max=512), 1: torch.export.Dim("length", min=2, max=512)}
            for name in inputs}


if __name__ == "__main__":
    with torch.device("meta"):
        model, inputs = encoder(8, 16)
    meshwright.export(model.train(), inputs, sys.argv[1], dynamic_shapes=open_dimensions(inputs))
