"""Layers that are one op to the planner: recurrent ones, cut along the batch or alike on all ranks where they draw random
numbers, and gpt-oss's experts.

Run by run.py, as cases.py.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from cases import DATA, own, same, trained, weights_within  # noqa: E402
from models import LETTERS, letters, seeded  # noqa: E402

import meshwright  # noqa: E402

CASES: list[Callable[[], str]] = []
HIDDEN = 8


def case(function: Callable[[], str]) -> Callable[[], str]:
    CASES.append(function)
    return function


def loss(model: nn.Module, number: int) -> torch.Tensor:
    return model(*own(model, (letters(number), letters(number + 1))))


class Recurrent(nn.Module):
    """One kind of layer after the other; the last one's states count too."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.table = nn.Embedding(LETTERS, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, 2, batch_first=True, bidirectional=True, dropout=dropout)
        self.gru = nn.GRU(2 * HIDDEN, HIDDEN, bias=False)
        self.elman = nn.RNN(HIDDEN, HIDDEN, nonlinearity="relu")
        self.head = nn.Linear(HIDDEN, LETTERS)

    def forward(self, x, following):
        found, (_, cells) = self.lstm(self.table(x))
        found, state = self.gru(found.transpose(0, 1))
        found, _ = self.elman(found, state)
        logits = self.head(found).transpose(0, 1)
        return F.cross_entropy(logits.flatten(0, 1), following.flatten()) + 0.1 * cells.square().mean()


@case
def layers_are_cut_along_the_batch():
    model = seeded(Recurrent)
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=DATA)
    layers = [layer["axes"] for layer in sharded.plan["variables"] if layer.get("op") == "meshwright.recurrent"]
    assert layers == [["b", "b"]] * 3, layers
    for got, wanted in zip(trained(sharded, loss), trained(serial, loss)):
        same(got, wanted, "loss")
    return weights_within(sharded, serial)


@case
def what_is_dropped_between_layers_is_the_same_on_all_ranks():
    model = seeded(lambda: Recurrent(dropout=0.5))
    sharded = meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=DATA)
    assert "lambda: torch.ops.aten.lstm" in sharded.source, "the layers draw numbers of each rank's own"
    torch.manual_seed(7 + dist.get_rank())
    first, second = loss(sharded, 1), loss(sharded, 1)
    assert first.item() != second.item(), "two steps dropped the same"
    torch.manual_seed(7 + dist.get_rank())
    same(loss(sharded, 1), first, "the loss of the same seed", tolerance=0)
    first.backward()
    return f"losses {first.item():.4f} and {second.item():.4f}"


class GptOss(nn.Module):
    """As transformers has it; of the sizes the router's and the experts' are its own."""

    def __init__(self):
        super().__init__()
        from transformers import GptOssConfig, GptOssForCausalLM

        self.net = GptOssForCausalLM(GptOssConfig(
            vocab_size=LETTERS, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
            num_local_experts=4, num_experts_per_tok=2, sliding_window=8, pad_token_id=0, use_cache=False))

    def forward(self, x, following):
        return self.net(input_ids=x, labels=following).loss


@case
def experts_of_gpt_oss_are_one_op():
    model = seeded(GptOss)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:  # which are zero when they are made
                parameter.normal_()
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=DATA)
    layers = [layer["axes"] for layer in sharded.plan["variables"] if layer.get("op") == "meshwright.experts"]
    assert len(layers) == 2 and all(axis.startswith("t") for axes in layers for axis in axes), layers
    for got, wanted in zip(trained(sharded, loss), trained(serial, loss)):
        same(got, wanted, "loss")
    return weights_within(sharded, serial, 1e-4)
