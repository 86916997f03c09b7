#!/usr/bin/env python3
"""Write the example models: the .pt2 files beside this script.

They are built on the meta device, so no weights are downloaded, allocated or
stored; the planner needs shapes only. Needs the packages of requirements.txt.

    python examples/export.py [NAME ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent / "python"))

import meshwright  # noqa: E402  (found through the path above)


class WithLoss(torch.nn.Module):
    """A model of ``transformers`` that returns its loss alone."""

    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(**inputs).loss


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.zeros(batch, length, dtype=torch.int64, device="meta")


def gpt2(layers: int, hidden: int, heads: int, batch: int, length: int = 1024):
    """GPT-2 as a language model. Dropout is off: it belongs to a later step of the project."""
    config = transformers.GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, n_positions=max(1024, length),
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    ids = tokens(batch, length)
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids.clone()}


def bert_base(batch: int = 32, length: int = 512):
    config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ids = tokens(batch, length)
    return transformers.BertForMaskedLM(config), {"input_ids": ids, "attention_mask": tokens(batch, length),
                                                  "labels": ids.clone()}


def vit_base(batch: int = 64):
    config = transformers.ViTConfig(num_labels=1000)
    pixels = torch.zeros(batch, 3, 224, 224, device="meta")
    return transformers.ViTForImageClassification(config), {
        "pixel_values": pixels, "labels": torch.zeros(batch, dtype=torch.int64, device="meta")}


# MAP Table 3: 4 layers, sequence 1024. The paper does not state the batch or the number of heads: we take
# a batch of 8 and heads of 128 columns.
MODELS: dict[str, Callable] = {
    "gpt2_small": lambda: gpt2(layers=12, hidden=768, heads=12, batch=8),
    "gpt2_map_alpha": lambda: gpt2(layers=4, hidden=2048, heads=16, batch=8),
    "gpt2_map_beta": lambda: gpt2(layers=4, hidden=4096, heads=32, batch=8),
    "gpt2_map_gamma": lambda: gpt2(layers=4, hidden=8192, heads=64, batch=8),
    "gpt2_map_delta": lambda: gpt2(layers=4, hidden=16384, heads=128, batch=8),
    "bert_base": bert_base,
    "vit_base": vit_base,
    # What `make demo` runs.
    "gpt2_mini": lambda: gpt2(layers=4, hidden=256, heads=8, batch=8, length=64),
    # Full width, few tokens: what a CPU runs in seconds, for `meshwright verify`.
    "gpt2_small_short": lambda: gpt2(layers=12, hidden=768, heads=12, batch=8, length=64),
    "bert_base_short": lambda: bert_base(batch=8, length=64),
    "vit_base_short": lambda: vit_base(batch=8),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(MODELS)}; all by default")
    parser.add_argument("-o", "--output", type=Path, default=ROOT, help="the folder to write to")
    options = parser.parse_args()
    for name in options.names or MODELS:
        if name not in MODELS:
            parser.error(f"no model named {name!r}; known: {', '.join(MODELS)}")
        with torch.device("meta"):
            model, inputs = MODELS[name]()
        path = meshwright.export(WithLoss(model).train(), inputs, options.output / f"{name}.pt2")
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
