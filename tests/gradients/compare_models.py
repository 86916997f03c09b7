#!/usr/bin/env python3
"""Compare a whole model's loss and gradients on one device with PyTorch's autograd.

    python compare_models.py PATH/TO/serial_gradients

Small GPT-2, BERT, ViT, and one with poolings and products of heads, with random weights: every parameter's gradient must agree
within 1e-4 of the larger of its own largest value and a thousandth of the model's. The last line says how many models did.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples"), str(ROOT / "tests" / "closeness")]

import meshwright  # noqa: E402  (found through the paths above)
from closeness import distance, distance_of_numbers  # noqa: E402
from export import WithLoss  # noqa: E402  (the script that makes the examples)

TOLERANCE = 1e-4


def gpt2():
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, n_positions=16, vocab_size=61, resid_pdrop=0.0,
                                     embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0)
    ids = torch.randint(0, 61, (2, 16))
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids.clone()}


def bert():
    config = transformers.BertConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64,
                                     vocab_size=61, max_position_embeddings=16, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0)
    ids = torch.randint(1, 61, (2, 16))
    labels = ids.clone()
    labels[:, ::3] = -100
    mask = torch.ones_like(ids)
    mask[1, 12:] = 0
    return transformers.BertForMaskedLM(config), {"input_ids": ids, "attention_mask": mask, "labels": labels}


def vit():
    config = transformers.ViTConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64,
                                    image_size=16, patch_size=8, num_labels=10)
    return transformers.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 16, 16),
                                                            "labels": torch.tensor([3, 7])}


class Pooled(torch.nn.Module):
    """Maxima and means of windows, and attention written as products of batches of heads."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.rows = torch.nn.Linear(8, 24)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor):
        hidden = torch.nn.functional.max_pool2d(torch.relu(self.first(pixel_values)), 3, stride=2, padding=1)
        hidden = torch.nn.functional.adaptive_avg_pool2d(torch.nn.functional.avg_pool2d(hidden, 2), 3).flatten(2).transpose(1, 2)
        query, key, value = self.rows(hidden).view(2, 9, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = torch.softmax(query @ key.transpose(-2, -1), -1) @ value
        scores = self.last(mixed.transpose(1, 2).reshape(2, 9, 8).mean(1))
        return types.SimpleNamespace(loss=torch.nn.functional.cross_entropy(scores, labels))


def pooled():
    return Pooled(), {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([3, 1])}


def numbers(tensor: torch.Tensor) -> list:
    return tensor.detach().reshape(-1).tolist()


def compare(name: str, program: str) -> float:
    torch.manual_seed(1)
    inner, inputs = {"gpt2": gpt2, "bert": bert, "vit": vit, "pooled": pooled}[name]()
    model = WithLoss(inner).train()
    loss = model(**inputs)
    loss.backward()
    with tempfile.TemporaryDirectory() as folder:
        path = meshwright.export(model, inputs, Path(folder) / f"{name}.pt2")
        tensors = {key: numbers(value) for key, value in [*model.named_parameters(remove_duplicate=False),
                                                          *model.named_buffers(remove_duplicate=False), *inputs.items()]}
        (Path(folder) / "tensors.json").write_text(json.dumps(tensors))
        ran = subprocess.run([program, str(path), str(Path(folder) / "tensors.json")], check=True, capture_output=True)
    ours = json.loads(ran.stdout)
    known = dict(model.named_parameters(remove_duplicate=False))
    missing = {id(value) for value in known.values() if value.grad is not None} - {id(known[key]) for key in ours["gradients"]}
    if missing:
        raise AssertionError(f"{len(missing)} parameters have no gradient")
    return max(distance_of_numbers(float(ours["loss"]), loss.item()),
               gradient_error(ours["gradients"], {key: value.grad for key, value in known.items()}))


def gradient_error(ours: dict[str, list], theirs: dict[str, torch.Tensor | None]) -> float:
    """Of each gradient against the larger of its own largest element and a thousandth of the model's; the worst of them."""
    floor = 1e-3 * max(gradient.abs().max().item() for gradient in theirs.values() if gradient is not None)
    return max(distance(torch.tensor([float(number) for number in gradient], dtype=torch.float64), theirs[key].reshape(-1), floor)
               for key, gradient in ours.items())


def main() -> int:
    passed = failed = 0
    for name in ("gpt2", "bert", "vit", "pooled"):
        try:
            error = compare(name, sys.argv[1])
        except subprocess.CalledProcessError as problem:
            print(f"{name}: {problem.stderr.decode().strip()}")
            failed += 1
            continue
        print(f"{name}: largest relative error {error:.2e}")
        passed += error <= TOLERANCE
        failed += error > TOLERANCE
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
