"""What is seen of the work: what rank 0 says, what statistics tell, how long ranks wait, how a model may be called.

Run by run.py, as cases.py.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from cases import DATA, HYBRID, TENSOR, compared, loss, own, pair, same, shared_folder  # noqa: E402
from models import BATCH, LENGTH, LETTERS, WIDTH, WithLoss, letters, seeded  # noqa: E402

import meshwright  # noqa: E402
import meshwright.planning  # noqa: E402

CASES: list[Callable[[], str]] = []
INPUTS = (letters(1), letters(2))


def case(function: Callable[[], str]) -> Callable[[], str]:
    CASES.append(function)
    return function


class Writes(io.StringIO):
    """Of whole lines only: what another rank or thread writes would be in the middle of one that takes two."""

    def write(self, text: str) -> int:
        assert text.endswith("\n"), f"a line is written in parts: {text!r}"
        return super().write(text)


def told(**arguments) -> tuple[list[str], torch.nn.Module]:
    """What is said until the first step is done."""
    with contextlib.redirect_stderr(Writes()) as said:
        model = meshwright.autoparallelize(seeded(WithLoss), INPUTS, mesh=(2, 2), config=HYBRID, **arguments)
        for number in range(2):
            loss(model, number).backward()
    return said.getvalue().splitlines(), model


@case
def rank_0_tells():
    lines, model = told()
    seconds = r"\d[\d.]* (s|ms|us)"
    patterns = ["exporting the model", f"exported in {seconds}", "planning for 4 ranks", f"planned in {seconds}", "writing the program",
                f"written in {seconds}", r"mesh         2x2 of 4 x CPU-core: axis 0 over links_4, axis 1 over links_4",
                r"batch        8 rows, 4 a rank: cut over axis 0", r"parameters   7, axis 0 cuts .*; axis 1 cuts \d in computing.*",
                f"step         {seconds} predicted, with {seconds} of communication, partly beside the computing",
                r"memory       [\d.]+ KiB of [\d.]+ GiB per device",
                f"certificate  (?:optimal|bounded): a step takes {seconds}, and by no plan in this space less than {seconds}", f"first step in {seconds}"]
    if dist.get_rank() != 0:
        patterns = []
    assert len(lines) == len(patterns), lines
    for line, pattern in zip(lines, patterns):
        assert re.fullmatch("meshwright: " + pattern, line), f"{line!r} is not like {pattern!r}"
    sharded = [name for name, part in model.named_parameters() if 1 in part.sharding.axes or 0 in part.sharding.axes]
    assert len(sharded) >= 6, sharded
    quiet, _ = told(verbose=False)
    assert quiet == [], quiet
    return f"{len(lines)} lines"


@case
def statistics_of_steps():
    """Of data parallelism without ZeRO all is known: the gradients are reduced, and nothing else of size moves."""
    with shared_folder() as folder:
        model = meshwright.autoparallelize(seeded(WithLoss), INPUTS, mesh=(4,), config={**DATA, "search.zero": 0}, folder=folder)
        said = subprocess.run([os.environ["MESHWRIGHT_PROGRAM"], "simulate", f"{folder}/plan.json", "--format", "json"], capture_output=True, check=True)
    nothing = model.statistics()
    assert nothing.steps == 0 and nothing.step_seconds is nothing.mfu is nothing.bytes_sent is nothing.first_step_seconds is None, nothing
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(5):
        loss(model, number).backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.02)
    with torch.no_grad():
        loss(model, 1)
    found = model.statistics()
    assert found.steps == 4 and found.first_step_seconds >= 0.02 and found.step_seconds >= 0.02, found
    # Three linear layers and a tied head, each forward and for both gradients.
    tokens = BATCH * LENGTH
    assert found.model_flops == 3 * 2 * tokens * (2 * WIDTH * 4 * WIDTH + WIDTH * LETTERS), found
    rate = model.plan["cluster"]["matrix_flops_per_second"]["float32"]
    same(torch.tensor(found.mfu), torch.tensor(found.model_flops / rate / 4 / found.step_seconds), "MFU")
    sent = torch.tensor(found.bytes_sent)
    dist.all_reduce(sent)
    predicted = json.loads(said.stdout)["bytes_sent"]
    # The program reduces the loss and its count apart, where the plan does so at once: a few numbers.
    same(sent.double(), torch.tensor(predicted).double(), "bytes sent by all ranks", 1e-3)
    assert found.peak_bytes > 1 << 20 and found.predicted_peak_bytes == model.plan["peak_bytes"]
    assert re.fullmatch(r"step .* predicted\), MFU .* %, .* sent a step, peak .* predicted\)", str(found)), str(found)
    return str(found)


@case
def statistics_of_a_compiled_model():
    model, _ = pair(TENSOR)
    run = torch.compile(model, backend="aot_eager")
    for number in range(3):
        loss(run, number).backward()
    found = model.statistics()
    assert found.steps == 2 and found.bytes_sent is None, found
    return str(found)


@case
def waiting_longer_than_the_group_does():
    """Ranks wait for rank 0, which exports for longer than the timeout of their collectives."""
    model = seeded(WithLoss)
    meshwright.autoparallelize(model, INPUTS, verbose=False)  # makes the group
    trace, usual = meshwright.planning.trace, datetime.timedelta(minutes=30)

    def slow(*arguments):
        time.sleep(12)
        return trace(*arguments)

    meshwright.planning.trace = slow
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=8), dist.group.WORLD)
    try:
        begun = time.monotonic()
        meshwright.autoparallelize(model, INPUTS, verbose=False)
        waited = time.monotonic() - begun
    finally:
        meshwright.planning.trace = trace
        dist.distributed_c10d._set_pg_timeout(usual, dist.group.WORLD)
    assert waited >= 12, "rank 0 did not take long"
    return "12 s with a timeout of 8 s"


@case
def sharded_twice():
    model = meshwright.autoparallelize(seeded(WithLoss), INPUTS, verbose=False)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            meshwright.autoparallelize(model, INPUTS)
        except meshwright.Error as error:
            assert error.message.startswith("the model is sharded already; call autoparallelize with the original"), error.message
            assert said.getvalue() == (f"meshwright: error: {error.message}\n" if dist.get_rank() == 0 else ""), said.getvalue()
            return error.message
    raise AssertionError("a sharded model was sharded again")


@case
def positional_and_keyword_arguments():
    model = seeded(WithLoss)
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, (letters(1),), {"following": letters(2), "scale": 2.0}, mesh=(2, 2), config=HYBRID)

    def step(model, number):
        first, second = own(model, (letters(number), letters(number + 1)))
        return model(first, scale=2.0, following=second).loss

    return compared(sharded, serial, step)
