"""What would train wrong without a word: each case is held against one device, or must be refused by a sentence.

Run by run.py, as cases.py.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from cases import DATA, HYBRID, TENSOR, main, own, same, trained, weights_within  # noqa: E402
from models import LETTERS, WIDTH, Body, letters, seeded  # noqa: E402

import meshwright  # noqa: E402

CASES: list[Callable[[], str]] = []


def case(function: Callable[[], str]) -> Callable[[], str]:
    CASES.append(function)
    return function


def loss(model: nn.Module, number: int) -> torch.Tensor:
    return model(*own(model, (letters(number), letters(number + 1))))


def pair(kind: type[nn.Module], config: dict) -> tuple[nn.Module, nn.Module]:
    model = seeded(kind)
    serial = copy.deepcopy(model)
    return meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=config), serial


def held(kind: type[nn.Module], configs=(DATA, HYBRID)) -> str:
    said = []
    for config in configs:
        sharded, serial = pair(kind, config)
        for got, wanted in zip(trained(sharded, loss), trained(serial, loss)):
            same(got, wanted, "loss")
        said.append(weights_within(sharded, serial))
    return "; ".join(said)


class Distilled(nn.Module):
    """A teacher whose parameters could be trained, and what a student gives it inside of no_grad."""

    def __init__(self):
        super().__init__()
        self.teacher, self.student = Body(), Body()
        self.mix = nn.Linear(LETTERS, LETTERS)

    def forward(self, x, following):
        own = self.student(x)
        with torch.no_grad():
            wanted = self.teacher(x) + 0.1 * self.mix(own)
            with torch.enable_grad():
                mixed = self.mix(wanted)
        torch.set_grad_enabled(False)
        scale = own.abs().mean()
        torch.set_grad_enabled(True)
        distance = (own - wanted).square().mean() + (mixed / (1 + scale)).square().mean()
        return 0.1 * distance + F.cross_entropy(own.flatten(0, 1), following.flatten())


@case
def no_gradient_inside_no_grad():
    return held(Distilled)


class Reversed(torch.autograd.Function):
    """The identity, with another gradient."""

    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.strength * gradient, None


class StraightThrough(torch.autograd.Function):
    """Rounds; written in the newer way, with two tensors and two results."""

    @staticmethod
    def forward(x, y):
        return (4 * x).round() / 4, y * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, first, second):
        return first, 2 * second * ctx.saved_tensors[0].cos()


reverse = Reversed.apply  # before anything was traced


class Adversarial(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.judge = Body(), nn.Linear(LETTERS, 2)

    def forward(self, x, following):
        logits = self.body(x)
        rounded, doubled = StraightThrough.apply(logits, logits.mean(-1, keepdim=True))
        judged = self.judge(reverse(logits, 0.3)).logsumexp(-1).mean()
        return F.cross_entropy(rounded.flatten(0, 1), following.flatten()) + judged + doubled.square().mean()


@case
def functions_keep_their_backward():
    return held(Adversarial, (DATA, HYBRID, TENSOR))


if __name__ == "__main__":
    main(CASES)
