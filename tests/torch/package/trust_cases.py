"""What would train wrong without a word: each case is held against one device, or must be refused by a sentence.

Run by run.py, as cases.py.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from cases import DATA, HYBRID, TENSOR, own, same, trained, weights_within  # noqa: E402
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


def raises(kind: type[BaseException], beginning: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind as error:
        assert str(getattr(error, "message", error)).startswith(beginning), f"another sentence: {error}"
        return
    raise AssertionError(f"it was not refused: {beginning}")


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
    said = held(Adversarial, (DATA, HYBRID, TENSOR))
    sharded, _ = pair(Adversarial, DATA)
    nodes = {variable["op"]: variable["axes"] for variable in sharded.plan["variables"] if variable.get("op", "").startswith("meshwright_function")}
    # One is element-wise, the other one has tensors of two shapes.
    assert nodes == {"meshwright_function.pointwise": ["d0", "d0"], "meshwright_function.call": ["repeat", "repeat"]}, nodes
    return said


@case
def what_wraps_or_converts_a_sharded_model():
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel
    from torch.nn.utils import clip_grad_norm_

    sharded, _ = pair(Distilled, HYBRID)
    raises(TypeError, "DistributedDataParallel takes each rank's shards", lambda: DistributedDataParallel(sharded))
    raises(TypeError, "the plan is for '", lambda: sharded.bfloat16())
    raises(TypeError, "the plan is for '", lambda: sharded.to(torch.float64))
    sharded.to("cpu").float()
    loss(sharded, 0).backward()
    raises(ValueError, "torch.nn.utils.clip_grad_norm_ takes the norm of this rank's shards", lambda: clip_grad_norm_(sharded.parameters(), 1.0))
    sharded.clip_grad_norm_(1.0)
    for optimizer in (torch.optim.Adafactor(sharded.parameters()), torch.optim.LBFGS(sharded.parameters())):
        raises(ValueError, f"{type(optimizer).__name__} looks at whole matrices", lambda: optimizer.step(lambda: loss(sharded, 0)))
    matrices = [p for p in sharded.parameters() if p.dim() == 2]
    raises(ValueError, "Muon looks at whole matrices", torch.optim.Muon(matrices).step)
    for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        kind(sharded.parameters(), lr=1e-3).step()
    raises(TypeError, "fully_shard takes each rank's shards", lambda: fully_shard(sharded))
    return "9 refusals, 4 optimizers that are right"


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, x, following):
        return F.cross_entropy(self.body(x).flatten(0, 1), following.flatten())


class Bulky(nn.Sequential):
    """Numbered children of the model and of numbered blocks, names that are no identifiers, a buffer called as a method is."""

    def __init__(self):
        super().__init__(nn.Embedding(LETTERS, WIDTH), nn.Sequential(*(self.block() for _ in range(3))))
        self.named = nn.ModuleDict({"a-b": nn.Linear(WIDTH, WIDTH), "class": nn.LayerNorm(WIDTH), "import": nn.Linear(WIDTH, LETTERS)})
        self.register_buffer("mean", torch.linspace(0, 1, WIDTH))
        self.plan = nn.Parameter(torch.ones(WIDTH))
        self.bag = nn.EmbeddingBag(LETTERS, WIDTH, mode="sum")

    @staticmethod
    def block():
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)), nn.GELU())

    def forward(self, x, following):
        bag = self.bag(x)
        x = self[1](self[0](x) + self.mean * self.plan)
        x = F.interpolate(x.transpose(1, 2), scale_factor=2.0, mode="linear").transpose(1, 2)[:, ::2]
        parts = torch.zeros_like(x)
        parts[:, :, : WIDTH // 2] = x[..., WIDTH // 2:]
        parts[:, 1:, WIDTH // 2:] = self.named["a-b"](x)[:, :-1, : WIDTH // 2] + bag[:, None, : WIDTH // 2]
        (alone,) = parts.split(parts.shape[1], dim=1)
        scores = self.named["import"](self.named["class"](alone))
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())


@case
def members_of_any_name_and_ops_of_any_arguments():
    return held(Bulky, ({"search.zero": 3}, {"search.zero": 1}))


@case
def weights_and_batches_that_differ_between_ranks():
    rank = int(os.environ.get("RANK", "0"))
    model = seeded(Plain)
    if rank == 3:
        with torch.no_grad():
            model.body.down.weight[5, 7] += 1e-3
    raises(meshwright.Error, "the weights differ between ranks: 'body.down.weight' of rank 3 is not that of rank 0 (1 of ", lambda:
           meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=DATA))
    sharded, _ = pair(Plain, HYBRID)
    raises(ValueError, "the ranks cut their rows out of different global batches", lambda:
           sharded(*sharded.local_batch((letters(rank), letters(9)))))
    sharded, _ = pair(Plain, HYBRID)
    rows = [one[:4] for one in (letters(rank), letters(9))]
    raises(ValueError, "ranks that have the same rows of the batch were fed different ones", lambda: sharded(*rows))
    sharded, _ = pair(Plain, DATA)
    sharded(*(one[:2] for one in (letters(rank), letters(9))))  # each has rows of its own
    return "3 refusals"


@case
def optimizers_of_matrices_on_whole_parameters():
    sharded, serial = pair(Plain, {**DATA, "search.zero": 0})
    for model in (sharded, serial):
        optimizer = torch.optim.Adafactor(model.parameters(), lr=0.1)
        for number in range(3):
            optimizer.zero_grad()
            loss(model, number).backward()
            optimizer.step()
    return weights_within(sharded, serial)


class Decoder(nn.Module):
    """Takes what an encoder made, twice, and what needs no gradient."""

    def __init__(self):
        super().__init__()
        self.body, self.mix = Body(), nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden, following):
        body = self.body
        x = body.norm(hidden + body.down(F.gelu(body.up(self.mix(hidden).transpose(1, 2).transpose(1, 2)))))
        return F.cross_entropy(body.head(x).flatten(0, 1), following.flatten()) + 0.1 * hidden.square().mean()


@case
def inputs_get_gradients():
    said = []
    for config in (DATA, HYBRID, TENSOR, {"search.zero": 3}):
        encoder, model = seeded(nn.Embedding, num_embeddings=LETTERS, embedding_dim=WIDTH), seeded(Decoder)
        serial_encoder, serial = copy.deepcopy(encoder), copy.deepcopy(model)
        sample = torch.zeros(8, 16, WIDTH, requires_grad=True)
        sharded = meshwright.autoparallelize(model, (sample, letters(2)), mesh=(2, 2), config=config)
        for number in range(2):
            wanted = serial(serial_encoder(letters(number)), letters(number + 1))
            wanted.backward()
            x, following = sharded.local_batch((letters(number), letters(number + 1)))
            got = sharded(encoder(x), following)
            got.backward()
            same(got.detach(), wanted.detach(), "loss")
        # Ranks with the same rows have the same gradient; those of different rows add up.
        total = encoder.weight.grad.clone()
        torch.distributed.all_reduce(total)
        ranks_with_the_same = 4 * sharded.local_batch_size // sharded.global_batch_size
        same(total / ranks_with_the_same, serial_encoder.weight.grad, "gradient of the encoder")
        said.append(f"{sharded.local_batch_size} rows a rank")
    unplanned = meshwright.autoparallelize(seeded(Decoder), (sample.detach(), letters(2)), mesh=(2, 2), config=DATA)
    raises(ValueError, "'hidden' requires a gradient", lambda: unplanned(*unplanned.local_batch((sample, letters(2)))))
    return "; ".join(said)


@case
def hooks_on_parameters():
    """On the model before it is planned: of the whole gradient. Behind: of the shard."""
    said = []
    for config in (DATA, {**DATA, "search.zero": 3}, HYBRID):
        model, serial = seeded(Plain), seeded(Plain)
        for one in (model, serial):
            one.body.up.weight.register_hook(lambda gradient: gradient / gradient.norm())
            one.body.norm.bias.register_hook(lambda gradient: gradient.flip(0))
        sharded = meshwright.autoparallelize(model, (letters(1), letters(2)), mesh=(2, 2), config=config)
        seen: list[int] = []
        for one in (sharded, serial):
            parameter = one.get_parameter("body.down.weight")
            parameter.register_hook(lambda gradient: 2 * gradient)
            parameter.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.numel()))
        for got, wanted in zip(trained(sharded, loss), trained(serial, loss)):
            same(got, wanted, "loss")
        assert len(seen) == 8 and seen[-1] == serial.body.down.weight.numel(), seen
        said.append(weights_within(sharded, serial))
    return "; ".join(said)


class Cautious(nn.Module):
    """Clamps what has overflowed, and nothing else, as DETR does; asks whole tensors, and masks single numbers."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, x, following):
        logits = self.body(x)
        if not torch.isfinite(logits).all() or logits.isnan().any():
            logits = logits.clamp(-1.0, 1.0)
        if torch.any(torch.isinf(logits)):
            logits = logits * 0
        return F.cross_entropy(torch.where(torch.isfinite(logits), logits, 0.0).flatten(0, 1), following.flatten())


@case
def branches_for_overflow_are_not_taken():
    before = torch.Tensor.__bool__, torch.isfinite, torch.Tensor.all
    said = held(Cautious)
    assert before == (torch.Tensor.__bool__, torch.isfinite, torch.Tensor.all), "what a trace replaced has stayed"
    assert not torch.isfinite(torch.tensor([1.0, float("inf")])).all()
    return said


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Layered(nn.Module):
    """Layers of one kind, which are modules of the program too."""

    def __init__(self):
        super().__init__()
        self.table, self.layers, self.head = nn.Embedding(LETTERS, WIDTH), nn.ModuleList(Layer() for _ in range(3)), nn.Linear(WIDTH, LETTERS)

    def forward(self, x, following):
        x = self.table(x)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), following.flatten())


@case
def hooks_on_modules_of_the_sharded_model():
    sharded, serial = pair(Layered, DATA)
    calls = {sharded: [], serial: []}
    for model, called in calls.items():
        model.layers[0].register_forward_pre_hook(lambda module, given: (given[0] * 2, *given[1:]))
        model.layers[1].register_forward_hook(lambda module, given, made: 0.5 * (made[0] if isinstance(made, tuple) else made))
        model.layers[2].register_full_backward_hook(lambda module, into, out, called=called: called.append("backward"))
        model.register_forward_hook(lambda module, given, made, called=called: called.append("forward"))
    for got, wanted in zip(trained(sharded, loss), trained(serial, loss)):
        same(got, wanted, "loss")
    assert calls[sharded] == calls[serial] and "backward" in calls[serial], calls
    raises(RuntimeError, "the program computes with the parameters of this module itself",
           lambda: sharded.table.register_forward_hook(lambda *_: None))
    return weights_within(sharded, serial)


class TiedFirst(nn.Module):
    """A head that is named before the embedding whose tensor it has, and two more names of one."""

    def __init__(self):
        super().__init__()
        self.head, self.body = nn.Linear(WIDTH, LETTERS, bias=False), Body()
        self.head.weight = self.body.letter.weight
        self.body.down.bias = self.body.norm.bias

    def forward(self, x, following):
        body = self.body
        hidden = body.norm(body.letter(x) + body.down(F.gelu(body.up(body.letter(x)))))
        return F.cross_entropy(self.head(hidden).flatten(0, 1), following.flatten())


class WithSpare(Plain):
    """A head that nothing computes with, of the shape of one that is used, and a layer whose norm alone is counted."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(WIDTH, LETTERS, bias=False)
        self.counted = nn.BatchNorm1d(16)

    def forward(self, x, following):
        self.counted(self.body.letter(x))
        return super().forward(x, following)


@case
def what_nothing_computes_with_keeps_its_weights():
    sharded, serial = pair(WithSpare, DATA)
    for got, wanted in zip(trained(sharded, loss), trained(serial, loss)):
        same(got, wanted, "loss")
    return weights_within(sharded, serial)


@case
def tied_weights_keep_the_model_s_names():
    sharded, serial = pair(TiedFirst, HYBRID)
    names = [name for name, _ in sharded.named_parameters()]
    known = [name for name, _ in serial.named_parameters() if "spare" not in name]
    assert sorted(names) == sorted(known), f"{names}, not {known}"
    for got, wanted in zip(trained(sharded, loss), trained(serial, loss)):
        same(got, wanted, "loss")
    return weights_within(sharded, serial)
