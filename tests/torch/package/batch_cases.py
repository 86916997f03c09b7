"""Batches of other shapes than the planned one.

Run by run.py, as cases.py.
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from cases import DATA, HYBRID, TENSOR, same, weights_within  # noqa: E402
from models import BATCH, LENGTH, LETTERS, WIDTH, Body, WithLoss, WithoutLoss, seeded  # noqa: E402

import meshwright  # noqa: E402

CASES: list[Callable[[], str]] = []
# The planned one, the last of an epoch, a single sample, shorter texts, a larger batch.
SHAPES = [(BATCH, LENGTH), (3, LENGTH), (1, LENGTH), (BATCH, LENGTH), (2, 7), (11, LENGTH), (3, LENGTH), (BATCH, LENGTH)]


def case(function: Callable[[], str]) -> Callable[[], str]:
    CASES.append(function)
    return function


def draw(shape: tuple[int, int], seed: int) -> torch.Tensor:
    return torch.randint(0, LETTERS, shape, generator=torch.Generator().manual_seed(seed))


class Summed(nn.Module):
    """The sum of the losses of all letters, over a number that has nothing to do with the batch."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, letters, following):
        return 0.01 * F.cross_entropy(self.body(letters).flatten(0, 1), following.flatten(), reduction="sum")


def trained(model: nn.Module, call: Callable, optimizer: torch.optim.Optimizer, accumulate: int = 1) -> list[torch.Tensor]:
    losses = []
    for number, shape in enumerate(SHAPES):
        found = call(draw(shape, number), draw(shape, 100 + number))
        found = found if isinstance(found, torch.Tensor) else found.loss
        found.backward()
        losses.append(found.detach())
        if number % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
    return losses


def held(kind: type[nn.Module], config: dict, accumulate: int = 1) -> str:
    """A model and its copy on one device see the same batches of all shapes."""
    model = seeded(kind)
    serial = copy.deepcopy(model)
    inputs = (draw(SHAPES[0], 0), draw(SHAPES[0], 100))
    sharded = meshwright.autoparallelize(model, inputs, mesh=(2, 2), config=config, verbose=False)
    losses = trained(sharded, sharded.call_whole, torch.optim.AdamW(sharded.parameters(), lr=1e-2, eps=1e-5), accumulate)
    wanted = trained(serial, serial, torch.optim.AdamW(serial.parameters(), lr=1e-2, eps=1e-5), accumulate)
    for got, one, shape in zip(losses, wanted, SHAPES):
        same(got, one, f"loss of {shape}")
    assert len(sharded._others._models) == len(set(SHAPES)) - 1, "programs are not kept"
    return weights_within(sharded, serial, 2e-4)


@case
def means_over_any_batch():
    return "; ".join(held(WithLoss, config) for config in (TENSOR, {**DATA, "search.zero": 3}))


@case
def sums_over_any_batch():
    return "; ".join(held(Summed, config, accumulate=2) for config in (HYBRID, {**DATA, "search.zero": 2}))


@case
def losses_outside_of_any_batch():
    model = seeded(WithoutLoss)
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, ({"letters": draw(SHAPES[0], 1)},), mesh=(2, 2), config=HYBRID, verbose=False)

    def call(of: Callable) -> Callable:
        def loss(letters, following):
            result = of({"letters": letters})
            assert result["logits"].shape == (*letters.shape, LETTERS) and result["nothing"] is None
            return F.cross_entropy(result["logits"].flatten(0, 1), following.flatten())
        return loss

    losses = trained(sharded, call(sharded.call_whole), torch.optim.SGD(sharded.parameters(), lr=0.1))
    wanted = trained(serial, call(serial), torch.optim.SGD(serial.parameters(), lr=0.1))
    for got, one, shape in zip(losses, wanted, SHAPES):
        same(got, one, f"loss of {shape}")
    return weights_within(sharded, serial)


class Normed(nn.Module):
    """Statistics of batches, which every program must keep in the same buffers."""

    def __init__(self):
        super().__init__()
        self.letter, self.norm, self.head = nn.Embedding(LETTERS, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, letters, following):
        return F.cross_entropy(self.head(self.norm(self.letter(letters).flatten(0, 1))), following.flatten())


@case
def running_statistics_of_any_batch():
    return held(Normed, HYBRID)


@case
def evaluated_with_any_batch():
    """What is kept from step to step follows the optimizer, and other arguments make another program."""
    model = seeded(WithLoss)
    serial = copy.deepcopy(model)
    inputs = (draw(SHAPES[0], 0), draw(SHAPES[0], 100))
    sharded = meshwright.autoparallelize(model, inputs, mesh=(2, 2), config={**DATA, "search.zero": 3}, verbose=False)
    other = (draw((3, 4), 1), draw((3, 4), 2))
    for step in range(3):
        for one, call in ((sharded, sharded.call_whole), (serial, serial)):
            optimizer = torch.optim.AdamW(one.parameters(), lr=1e-2, fused=True)
            call(*inputs).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        sharded.eval(), serial.eval()
        with torch.no_grad():
            same(sharded.call_whole(*other).loss, serial(*other).loss, "loss")
            same(sharded.call_whole(other[0], scale=2.0, following=other[1]).loss, serial(*other, scale=2.0).loss, "loss with another scale")
        sharded.train(), serial.train()
    return weights_within(sharded, serial, 2e-4)


@case
def whole_epochs():
    """A sampler's full batches and what is left of each epoch: every sample once."""
    data = torch.utils.data.TensorDataset(draw((21, LENGTH), 3), draw((21, LENGTH), 4))
    model = seeded(WithLoss)
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, data[:BATCH], mesh=(2, 2), config=HYBRID, verbose=False)
    sampler = meshwright.Sampler(data, sharded, seed=5)
    loader = torch.utils.data.DataLoader(data, batch_size=sharded.local_batch_size, sampler=sampler)
    optimizer, reference = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (sharded, serial))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        order = torch.randperm(21, generator=torch.Generator().manual_seed(5 + epoch))
        calls = [lambda batch=batch: sharded(*batch) for batch in loader]
        rest = sampler.rest()
        assert rest == order[16:].tolist() and len(calls) == 2
        calls.append(lambda: sharded.call_whole(*torch.utils.data.default_collate([data[i] for i in rest])))
        for call, chosen in zip(calls, order.split(BATCH), strict=True):
            got, wanted = call().loss, serial(*data[chosen]).loss
            same(got.detach(), wanted.detach(), "loss")
            for one, used in ((got, optimizer), (wanted, reference)):
                used.zero_grad()
                one.backward()
                used.step()
    return weights_within(sharded, serial)


@case
def batches_that_are_refused():
    inputs = (draw(SHAPES[0], 0), draw(SHAPES[0], 100))
    sharded = meshwright.autoparallelize(seeded(WithLoss), inputs, mesh=(2, 2), config=DATA, verbose=False)
    said = []

    def refused(beginning: str, call: Callable[[], object]) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as told:
            try:
                call()
            except meshwright.Error as error:
                assert error.message.startswith(beginning), error.message
                assert told.getvalue() == (f"meshwright: error: {error.message}\n" if dist.get_rank() == 0 else "")
                said.append(error.message)
                return
        raise AssertionError(f"it was not refused: {beginning}")

    refused("torch.export can't trace the model", lambda: sharded.call_whole(inputs[0], inputs[1][:, :3]))
    sharded.step_in_backward(torch.optim.SGD(sharded.parameters(), lr=0.1))
    refused("a batch of another shape can't be computed after step_in_backward", lambda: sharded.call_whole(inputs[0][:3], inputs[1][:3]))
    return f"{len(said)} refusals"
