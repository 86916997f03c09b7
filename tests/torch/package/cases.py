"""What autoparallelize promises, on the ranks that run this: each case trains a model and its copy on one device.

Run by run.py. A case that is wrong raises, and so ends all ranks.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from models import BATCH, LENGTH, LETTERS, AlwaysDropping, Counting, Dropping, WithLoss, WithoutLoss, letters, seeded  # noqa: E402

import meshwright  # noqa: E402

CASES: list[Callable[[], str]] = []
# Plans that leave nothing whole on a mesh of 2x2: batch on one axis or both, weights on the rest.
DATA = {"search.batch_axes": "all"}
HYBRID = {"search.batch_axes": "0", "search.weights": "sharded"}
TENSOR = {"search.weights": "sharded"}


def case(function: Callable[[], str]) -> Callable[[], str]:
    CASES.append(function)
    return function


def same(got: torch.Tensor, wanted: torch.Tensor, what: str, tolerance: float = 2e-5) -> float:
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, f"{what}: {got.shape} {got.dtype}, not {wanted.shape} {wanted.dtype}"
    worst = ((got.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp(min=1e-12)).item()
    assert worst <= tolerance, f"{what} differs by {worst:.2g} of its largest element"
    return worst


def refused(call: Callable[[], object], beginning: str) -> str:
    try:
        call()
    except ValueError as error:
        assert str(error).startswith(beginning), f"another sentence: {error}"
        return str(error)
    raise AssertionError(f"it was not refused: {beginning}")


def trained(model: torch.nn.Module, step: Callable[[torch.nn.Module, int], torch.Tensor], steps: int = 4) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.3, momentum=0.9)
    losses = []
    for number in range(steps):
        loss = step(model, number)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def pair(config: dict, model: torch.nn.Module | None = None) -> tuple[torch.nn.Module, torch.nn.Module]:
    """A model sharded over 2x2 ranks, and its copy on one device."""
    model = seeded(WithLoss) if model is None else model
    serial = copy.deepcopy(model)
    return meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=config), serial


def own(model: torch.nn.Module, inputs):
    """What a model is fed of a global batch: its rows, if it is sharded."""
    return model.local_batch(inputs) if hasattr(model, "local_batch") else inputs


def loss(model: torch.nn.Module, number: int) -> torch.Tensor:
    return model(*own(model, (letters(number), letters(number + 1)))).loss


@contextlib.contextmanager
def shared_folder() -> Iterator[str]:
    """A folder of rank 0's, for all ranks."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        names = [folder]
        dist.broadcast_object_list(names)
        yield names[0]
        dist.barrier()


def weights_within(sharded: torch.nn.Module, serial: torch.nn.Module, tolerance: float = 2e-5) -> str:
    whole = sharded.whole_state_dict()
    assert list(whole) == list(serial.state_dict()), "the state dict has other names"
    worst = max(same(whole[name], one, name, tolerance) for name, one in serial.state_dict().items())
    return f"weights within {worst:.1e}"


def compared(sharded: torch.nn.Module, serial: torch.nn.Module, step: Callable = loss, tolerance: float = 2e-5) -> str:
    losses, wanted = trained(sharded, step), trained(serial, step)
    for got, one in zip(losses, wanted):
        same(got, one, "loss", tolerance)
    assert wanted[-1] < wanted[0], "the loss on one device does not fall"
    return f"loss {wanted[0]:.4f} to {wanted[-1]:.4f}, {weights_within(sharded, serial, tolerance)}"


def with_loss(config: dict) -> str:
    sharded, serial = pair(config)

    def step(model, number):
        result = model(*own(model, (letters(number), letters(number + 1))))
        assert type(result).__name__ == "Result", "not the container that the model returns"
        alike = [torch.empty_like(result.loss) for _ in range(dist.get_world_size())]
        dist.all_gather(alike, result.loss.detach())
        assert all(one == alike[0] for one in alike), "the loss is not the same on every rank"
        return result.loss

    said = compared(sharded, serial, step)
    return f"{said}; {sharded.local_batch_size} of {sharded.global_batch_size} rows a rank"


@case
def data_parallel():
    return with_loss(DATA)


@case
def hybrid():
    return with_loss(HYBRID)


@case
def tensor_parallel():
    return with_loss(TENSOR)


@case
def fully_sharded():
    return with_loss({"search.zero": 3, **DATA})


@case
def configuration_reaches_the_emitter():
    try:
        meshwright.autoparallelize(seeded(WithLoss), (letters(1), letters(2)), config={"emit.torch.checkpoint": ["body.layers"]})
    except meshwright.Error as error:
        assert 'unknown key "checkpoint" in [emit.torch]' in error.message, error.message
        return error.message
    raise AssertionError("a key that the backend does not have was taken")


@case
def mesh_and_cluster_found():
    model = seeded(WithLoss)
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, {"following": letters(2), "letters": letters(1), "scale": 2.0})
    sizes = [axis["size"] for axis in sharded.plan["mesh"]]

    def step(model, number):
        return model(scale=2.0, **own(model, {"letters": letters(number), "following": letters(number + 1)})).loss

    return f"mesh {sizes} of {sharded.plan['cluster']['name']}; {compared(sharded, serial, step)}"


def outside(outputs: str | None, config: dict) -> str:
    """MAP's Listing 1: the loss is computed of what the model returns."""
    model = seeded(WithoutLoss)
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, ({"letters": letters(1)},), mesh=(2, 2), config=config, outputs=outputs)
    wanted_rows = sharded.local_batch_size if outputs == "rows" else BATCH

    def loss_of(result, following):
        return F.cross_entropy(result["logits"].flatten(0, 1), following.flatten()) + 0.1 * result["pooled"].square().mean()

    def step(model, number):
        result = model(model.local_batch({"letters": letters(number)}))
        assert list(result) == ["logits", "nothing", "pooled"] and result["nothing"] is None
        assert result["logits"].shape == (wanted_rows, LENGTH, LETTERS), f"the outputs have the shape {result['logits'].shape}"
        following = letters(number + 1)
        return loss_of(result, model.local_batch(following) if outputs == "rows" else following)

    losses = trained(sharded, step)
    wanted = trained(serial, lambda model, number: loss_of(model({"letters": letters(number)}), letters(number + 1)))
    for got, one in zip(losses, wanted):
        same(sharded.mean(got), one, "loss")
    return f"loss {wanted[0]:.4f} to {wanted[-1]:.4f}, {weights_within(sharded, serial)}"


@case
def loss_outside_gathered():
    return outside(None, HYBRID)


@case
def loss_outside_of_rows():
    return outside("rows", HYBRID)


@case
def loss_outside_of_planned_parts():
    """Each rank has a part of the sum; the parts' gradients are the whole's."""
    model = seeded(WithoutLoss)
    serial = copy.deepcopy(model)
    sharded = meshwright.autoparallelize(model, ({"letters": letters(1)},), mesh=(2, 2), config=DATA, outputs="planned")
    for one in (sharded, serial):
        trained(one, lambda model, number: 1e-3 * model(own(model, {"letters": letters(number)}))["logits"].square().sum(), 2)
    return weights_within(sharded, serial)


@case
def outputs_beside_the_loss():
    model = seeded(WithLoss)
    wanted = model(letters(1), letters(2)).logits.detach()
    inputs = (letters(1), letters(2))
    gathered = meshwright.autoparallelize(model, inputs, mesh=(2, 2), config=HYBRID, outputs="gathered")
    same(gathered(*gathered.local_batch(inputs)).logits, wanted, "gathered logits")
    rows = meshwright.autoparallelize(model, inputs, mesh=(2, 2), config=HYBRID, outputs="rows")
    result = rows(*rows.local_batch(inputs))
    same(result.logits, rows.local_batch(wanted), "rows of logits")
    assert not result.logits.requires_grad and result.loss.requires_grad
    return f"{tuple(result.logits.shape)} of {tuple(wanted.shape)}"


@case
def loader_with_sampler():
    """One epoch of a DataLoader: together the ranks see what one device sees."""
    data = torch.utils.data.TensorDataset(letters(3, 37), letters(4, 37))
    sharded, serial = pair(HYBRID)
    sampler = meshwright.Sampler(data, sharded, seed=5)
    loader = torch.utils.data.DataLoader(data, batch_size=sharded.local_batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(sharded.parameters(), lr=0.3)
    reference = torch.optim.SGD(serial.parameters(), lr=0.3)
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        order = torch.randperm(37, generator=torch.Generator().manual_seed(5 + epoch))
        batches = list(loader)
        assert len(batches) == 37 // BATCH and len(sampler) == len(batches) * sharded.local_batch_size
        for number, batch in enumerate(batches):
            got = sharded(*batch).loss
            chosen = order[number * BATCH:(number + 1) * BATCH]
            wanted = serial(*data[chosen]).loss
            same(got.detach(), wanted.detach(), "loss")
            for one, used in ((got, optimizer), (wanted, reference)):
                used.zero_grad()
                one.backward()
                used.step()
            seen.append(wanted.item())
    return f"{len(seen)} batches, loss {seen[0]:.4f} to {seen[-1]:.4f}"


@case
def clipped_and_accumulated():
    """Two backward passes before each step, and the norm of whole gradients."""
    sharded, serial = pair({"search.zero": 2, **HYBRID})
    norms = []
    for one, clip in ((sharded, sharded.clip_grad_norm_),
                      (serial, lambda limit: torch.nn.utils.clip_grad_norm_(serial.parameters(), limit))):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.3)
        for number in range(2):
            optimizer.zero_grad()
            for half in range(2):
                one(*own(one, (letters(2 * number + half), letters(9 + half)))).loss.backward()
            norms.append(clip(0.1))
            optimizer.step()
    for got, wanted in zip(norms[:2], norms[2:]):
        same(got.float(), wanted, "norm")
    return f"norm {norms[0]:.4f}, {weights_within(sharded, serial)}"


@case
def frozen_parameters():
    model = seeded(WithLoss)
    for parameter in (*model.body.up.parameters(), model.body.down.bias):
        parameter.requires_grad_(False)
    sharded, serial = pair(HYBRID, model)
    assert not sharded.get_parameter("body.up.weight").requires_grad
    # An addend under a sharded sum: added once, and held whole.
    assert "keep_one(1)], self.body.down.bias)" in sharded.source and None in sharded.get_parameter("body.down.bias").sharding.axes
    return compared(sharded, serial)


@case
def bfloat16():
    sharded, serial = pair(HYBRID, seeded(WithLoss).bfloat16())
    assert {parameter.dtype for parameter in sharded.parameters()} == {torch.bfloat16}
    assert sharded.plan["training"]["master_dtype"] == "bfloat16"
    return compared(sharded, serial, tolerance=0.05)


@case
def compiled():
    sharded, serial = pair(HYBRID)
    return compared(torch.compile(sharded, backend="aot_eager"), serial)


@case
def autocast():
    """Weights in float32, products in bfloat16, in two layouts."""
    def step(model, number):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = model(*own(model, (letters(number), letters(number + 1))))
        assert result.logits.dtype == torch.bfloat16 and result.loss.dtype == torch.float32, result
        return result.loss

    return "; ".join(compared(*pair(config), step, tolerance=0.05) for config in (HYBRID, {**DATA, "search.zero": 3}))


@case
def scaled_losses():
    """A gradient that is infinite on one rank leaves out the step on all."""
    sharded, serial = pair(TENSOR)
    scales = []
    for one, scaler in ((sharded, meshwright.GradScaler("cpu")), (serial, torch.amp.GradScaler("cpu"))):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.3)
        for number in range(4):
            optimizer.zero_grad()
            scaler.scale(loss(one, number)).backward()
            if number == 1 and (one is serial or dist.get_rank() == 2):
                one.get_parameter("body.up.weight").grad[0, 0] = float("inf")
            if number == 2:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [2.0**15, 2.0**15], scales
    return weights_within(sharded, serial)


@case
def state_dicts_through_pytorch_itself():
    """Saved with torch.distributed.checkpoint alone; loaded on one device, and into another layout that begins on the meta device."""
    import torch.distributed.checkpoint as checkpoint

    sharded, serial = pair(HYBRID)
    trained(sharded, loss)
    with torch.device("meta"):
        other, _ = pair({**DATA, "search.zero": 3}, WithLoss())
    with shared_folder() as folder:
        state = sharded.state_dict()
        assert sorted(state) == sorted(serial.state_dict())
        checkpoint.save({"model": state}, checkpoint_id=folder)
        for one in (serial, other):
            state = {"model": one.state_dict()}
            checkpoint.load(state, checkpoint_id=folder)
            one.load_state_dict(state["model"])
    other.load_whole({"body.ramp": serial.body.ramp}, strict=False)
    same(loss(other, 1), loss(serial, 1), "loss")
    return f"{weights_within(sharded, serial, 0.0)}, {weights_within(other, serial, 0.0)}"


@case
def meta_then_weights():
    with torch.device("meta"):
        model = WithLoss()
    sharded = meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=HYBRID)
    assert all(parameter.is_meta for parameter in sharded.parameters())
    serial = seeded(WithLoss)
    sharded.load_whole({**serial.state_dict(), "body.ramp": serial.body.ramp})
    return compared(sharded, serial)


@case
def evaluation_between_steps():
    """Training, evaluation on the running statistics without dropout, training again, in two layouts."""
    said = []
    for config in (HYBRID, {**DATA, "search.zero": 3}):
        model = seeded(Counting)
        modes = [module.training for module in model.modules()]
        serial = copy.deepcopy(model)
        sharded = meshwright.autoparallelize(model, (letters(1),), mesh=(2, 2), config=config)
        assert modes == [module.training for module in model.modules()]
        optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
        for step in range(3):
            sharded.train()
            optimizer.zero_grad()
            sharded(sharded.local_batch(letters(step))).backward()
            optimizer.step()
            state = sharded.whole_state_dict()
            assert state["norm.num_batches_tracked"] == step + 1 and state["frozen.num_batches_tracked"] == 0
            serial.load_state_dict(state)
            serial.eval()
            sharded.eval()
            for number in range(2):
                with torch.no_grad():
                    worst = same(sharded(sharded.local_batch(letters(9 + number))), serial(letters(9 + number)), "loss")
            for name, value in sharded.whole_state_dict().items():
                assert torch.equal(value, state[name]), f"evaluation changed {name}"
        said.append(f"{worst:.1e}")
    return "loss without dropout within " + ", ".join(said)


@case
def modes_that_differ():
    sharded = meshwright.autoparallelize(seeded(AlwaysDropping), (letters(1),), mesh=(2, 2), config=DATA)
    return refused(lambda: sharded.eval()(sharded.local_batch(letters(1))), "the model was planned in training mode, and eval mode is more")


@case
def evaluation_mode():
    model = seeded(Dropping).eval()
    wanted = model(letters(1)).detach()
    sharded = meshwright.autoparallelize(model, (letters(1),), mesh=(2, 2), config=HYBRID)
    assert not sharded.training
    with torch.no_grad():
        same(sharded(sharded.local_batch(letters(1))), wanted, "loss")
    return refused(lambda: sharded.train()(sharded.local_batch(letters(1))), "the model was planned in eval mode")


@case
def calls_that_do_not_fit():
    inputs = (letters(1), letters(2))
    sharded = meshwright.autoparallelize(seeded(WithLoss), inputs, mesh=(2, 2), config=DATA)
    local = sharded.local_batch(inputs)
    said = [
        refused(lambda: sharded(*inputs), "'letters' has the shape (8, 16), and this rank's rows of a batch of 8 are (2, 16); cut"),
        refused(lambda: sharded(local[0][:1], local[1]), "'letters' has the shape (1, 16)"),
        refused(lambda: sharded(local[0]), "'following' is missing"),
        refused(lambda: sharded(*local, mask=local[0]), "'mask' is a tensor, but the sample inputs"),
        refused(lambda: sharded(*local, scale=3.0), "'scale' is 3.0, but"),
        refused(lambda: meshwright.Sampler(range(7), sharded), "the dataset has 7 elements, and one batch of the plan has 8"),
        refused(lambda: sharded.load_whole({"body.norm.weight": torch.ones(3)}), "the state dict does not fit the model"),
    ]
    return f"{len(said)} refusals"


@case
def plan_given():
    with shared_folder() as folder:
        model = seeded(WithLoss)
        first = meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=HYBRID, folder=folder)
        again = meshwright.autoparallelize(model, (letters(1), letters(2)), plan=Path(folder) / "plan.json")
    assert again.plan == first.plan and again.source == first.source
    same(loss(again, 1).detach(), loss(first, 1).detach(), "loss", 0.0)
    return f"{len(first.source.splitlines())} lines of model.py"


def main(cases: list[Callable[[], str]], wanted: list[str]) -> None:
    """Runs those that are wanted; all of them if none is named."""
    for one in cases:
        if wanted and one.__name__ not in wanted:
            continue
        start = time.monotonic()
        said = one()
        if dist.get_rank() == 0:
            print(f"ok    {one.__name__}: {said}, {time.monotonic() - start:.1f} s", flush=True)
