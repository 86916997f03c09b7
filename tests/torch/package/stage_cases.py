"""Models in several pipeline stages.

Run by run.py, as cases.py.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from cases import same, shared_folder  # noqa: E402
from models import BATCH, LENGTH, LETTERS, WIDTH, WithLoss, letters, seeded  # noqa: E402

import meshwright  # noqa: E402
from meshwright import ranks  # noqa: E402

CASES: list[Callable[[], str]] = []
STAGED = {"search.stages": 2, "train.microbatches": 4}
INPUTS = (letters(1), letters(2))


def case(function: Callable[[], str]) -> Callable[[], str]:
    CASES.append(function)
    return function


def drawn(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return WithLoss()


def two_stages(**arguments) -> tuple[torch.nn.Module, torch.nn.Module]:
    model = seeded(WithLoss)
    serial = copy.deepcopy(model)
    return meshwright.autoparallelize(model, INPUTS, config=STAGED, **arguments), serial


@case
def trains_in_two_stages():
    staged, serial = two_stages()
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-5) for model in (staged, serial)]
    losses = []
    for number in range(4):
        batch = letters(number), letters(number + 1)
        wanted = serial(*batch).loss
        wanted.backward()
        losses.append(wanted.item())
        same(staged.evaluate(*batch).float(), wanted.detach(), "the loss of a forward alone")
        same(staged.step(*batch).float(), wanted.detach(), "the loss")
        norm = torch.nn.utils.clip_grad_norm_(serial.parameters(), 0.3)
        same(staged.clip_grad_norm_(0.3).float(), norm, "the norm")
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert losses[-1] < losses[0], "the loss on one device does not fall"
    whole = staged.whole_state_dict()
    for name, value in serial.state_dict().items():
        if "spare" not in name:  # nothing computes with it
            same(whole[name], value, name, tolerance=1e-4)
    return f"loss {losses[0]:.4f} to {losses[-1]:.4f}; rank 0 has {sum(1 for _ in staged.parameters())} of {len(whole)} tensors"


def trained_alike(staged: torch.nn.Module, serial: torch.nn.Module) -> list[torch.optim.Optimizer]:
    """Three steps of both, which end alike. Returns the optimizers."""
    optimizers = [torch.optim.AdamW(made.parameters(), lr=1e-2, eps=1e-5) for made in (staged, serial)]
    for number in range(3):
        batch = letters(number), letters(number + 1)
        wanted = serial(*batch).loss
        wanted.backward()
        same(staged.step(*batch).float(), wanted.detach(), "the loss")
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    whole = staged.whole_state_dict()
    for name, value in serial.state_dict().items():
        if "spare" not in name:  # nothing computes with it
            same(whole[name], value, name, tolerance=1e-4)
    return optimizers


@case
def trains_with_backwards_in_two_parts():
    model = seeded(WithLoss)
    serial = copy.deepcopy(model)
    staged = meshwright.autoparallelize(model, INPUTS, config={**STAGED, "search.schedule": "zb_v"})
    assert all("W0" in order for order in staged.plan["orders"]), "no backward is in two parts"
    trained_alike(staged, serial)
    return f"{len(staged.plan['stages'])} stages"


@case
def trains_in_four_stages_of_which_each_rank_has_two():
    """A weight is shared by stages on other ranks, and others are frozen; what both stages of a rank have is loaded, saved and trained."""
    model = seeded(WithLoss)
    for name, value in model.named_parameters():
        value.requires_grad_("body" not in name or "up" not in name)
    serial = copy.deepcopy(model)
    staged = meshwright.autoparallelize(model, INPUTS, config={**STAGED, "search.schedule": "interleaved", "search.chunks": 2})
    assert len(staged.stages) == 2 and len(staged.plan["orders"]) == 2, "a rank has not two stages"
    optimizers = trained_alike(staged, serial)
    saved = staged.state_dict()
    loss = staged.evaluate(*INPUTS)
    staged.draw_weights()
    assert staged.evaluate(*INPUTS) != loss, "other weights give the same loss"
    staged.load_state_dict(saved)
    same(staged.evaluate(*INPUTS), loss, "the loss of what was loaded")
    state = optimizers[0].state_dict()
    optimizers[0].load_state_dict(state)
    return f"stages {[stage.STAGE for stage in staged.stages]} on rank 0"


@case
def a_model_on_the_meta_device_in_stages():
    """It comes to be by a state dict of the original, with the buffer that it leaves out; by a checkpoint, too."""
    serial = seeded(WithLoss)
    with torch.device("meta"):
        empty = WithLoss()
    staged = meshwright.autoparallelize(empty, INPUTS, config={**STAGED, "search.schedule": "interleaved", "search.chunks": 2})
    assert all(shard.is_meta for shard in staged.parameters())
    try:
        staged.load_whole(serial.state_dict())
        refused = ""
    except ValueError as error:
        refused = str(error)
    assert all("body.ramp" in each for each in ranks.all_gathered(refused)), refused  # though some have no stage with that buffer
    staged.load_whole({**serial.state_dict(), "body.ramp": serial.body.ramp})
    assert not any(shard.is_meta for shard in [*staged.parameters(), *staged.buffers()])
    same(staged.step(*INPUTS).float(), serial(*INPUTS).loss.detach(), "the loss")
    return refused


@case
def statistics_by_stage():
    """The same on all ranks."""
    with shared_folder() as folder:
        staged, _ = two_stages(folder=folder)
        said = subprocess.run([os.environ["MESHWRIGHT_PROGRAM"], "simulate", f"{folder}/plan.json", "--format", "json"], capture_output=True, check=True)
    nothing = staged.statistics()
    assert nothing.steps == 0 and nothing.step_seconds is nothing.bytes_sent is nothing.mfu is None, nothing
    for number in range(4):
        staged.step(letters(number), letters(number + 1))
        staged.zero_grad()
        time.sleep(0.02)
    found = staged.statistics()
    everything = ranks.all_gathered(found)
    assert all(each == found for each in everything), everything
    tokens = BATCH * LENGTH
    assert found.steps == 3 and found.step_seconds >= 0.02, found
    assert found.model_flops == 3 * 2 * tokens * (2 * WIDTH * 4 * WIDTH + WIDTH * LETTERS) == sum(stage.model_flops for stage in found.stages), found
    assert found.bytes_sent == sum(stage.bytes_sent for stage in found.stages) > 0, found
    simulated = json.loads(said.stdout)["stages"]
    assert [stage.predicted_peak_bytes for stage in found.stages] == [each["peak_bytes"] for each in simulated], (found, simulated)
    for stage, each in zip(found.stages, simulated, strict=True):
        same(torch.tensor(stage.predicted_busy_seconds), torch.tensor(each["busy_seconds"]), "seconds of a stage")
    return str(found.stages[0])


@case
def checkpoints_go_to_one_stage_and_back():
    staged, serial = two_stages()
    sharded = meshwright.autoparallelize(drawn(1), INPUTS, mesh=(2, 2))
    with shared_folder() as folder:
        staged.save_checkpoint(f"{folder}/staged")
        sharded.load_checkpoint(f"{folder}/staged")
        whole = sharded.whole_state_dict()
        for name, value in serial.state_dict().items():
            if "spare" not in name:
                same(whole[name], value, name)
        other = meshwright.autoparallelize(drawn(2), INPUTS, config=STAGED, verbose=False)
        sharded.save_checkpoint(f"{folder}/sharded")
        other.load_checkpoint(f"{folder}/sharded")
        same(other.evaluate(*INPUTS).float(), serial(*INPUTS).loss.detach(), "the loss")
    return "a checkpoint of two stages is one of a mesh of 2x2, and the other way round"


@case
def a_plan_of_stages_is_taken():
    with shared_folder() as folder:
        staged, _ = two_stages(folder=folder)
        dist.barrier()
        again = meshwright.autoparallelize(seeded(WithLoss), INPUTS, plan=f"{folder}/plan.json")
        same(again.step(*INPUTS), staged.step(*INPUTS), "the loss")
    return f"{len(again.plan['stages'])} stages"


@case
def what_a_pipeline_lacks_is_said():
    staged, _ = two_stages()
    sentences = []
    for call, kind in ((lambda: staged(*INPUTS), TypeError), (lambda: staged.step(INPUTS[0][:4], INPUTS[1][:4]), ValueError),
                       (staged.microbatches, TypeError)):
        try:
            call()
        except kind as error:
            sentences.append(str(error))
    assert len(sentences) == 3 and "model.step" in sentences[0] and "every rank feeds all of it" in sentences[1], sentences
    return sentences[1]
