#!/usr/bin/env python3
"""What an export spells out is said again as what it is, and computes the same: see python/meshwright/simplify.py; which
autograd functions are element-wise: pointwise.py.

Exits with 1 if a case is wrong. Needs PyTorch and transformers, no ranks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from meshwright.export import decomposed  # noqa: E402
from meshwright.pointwise import is_pointwise  # noqa: E402

BATCH, LENGTH, WIDTH, HEADS = 2, 12, 32, 4


def simplified(model: nn.Module, inputs: dict[str, torch.Tensor], tolerance: float = 1e-6) -> list[tuple[str, dict]]:
    """The calls of the simplified program by name, with their attributes; it must compute what the model does."""
    program = decomposed(torch.export.export(model, (), inputs, strict=False))
    got, wanted = program.module()(**inputs), model(**inputs)
    difference = float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max())
    assert difference <= tolerance, f"off by {difference:.1e}"
    return [(node.target._schema.name.removeprefix("aten::"), dict(node.kwargs), node) for node in program.graph.nodes
            if node.op == "call_function" and hasattr(node.target, "_schema")]


def attention_of(calls: list) -> tuple[bool, bool, bool]:
    """Whether it has a mask, is causal, groups heads."""
    (_, named, node), = [call for call in calls if call[0] == "scaled_dot_product_attention"]
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args)), **named}
    return given.get("attn_mask") is not None, bool(given.get("is_causal")), bool(given.get("enable_gqa"))


class Attention(nn.Module):
    """Masks as transformers make them: of positions, of a window, of packed sequences, of what the user says."""

    def __init__(self, mask: str, groups: int = HEADS, window: int = 0):
        super().__init__()
        self.mask, self.groups, self.window = mask, groups, window
        self.queries, self.keys = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * groups * WIDTH // HEADS)

    def forward(self, x, padding=None):
        q = self.queries(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.keys(x).unflatten(-1, (2 * self.groups, -1)).transpose(1, 2).chunk(2, 1)
        if self.groups != HEADS:
            k, v = (y[:, :, None].expand(-1, -1, HEADS // self.groups, -1, -1).reshape(q.shape) for y in (k, v))
        rows = torch.arange(x.shape[1])[None, :, None] + 0
        columns = torch.arange(x.shape[1])[None, None, :]
        allowed = columns <= rows
        if self.window:
            allowed = allowed & (rows - columns < self.window)
        if self.mask == "packed":
            packed = (columns.diff(prepend=columns[..., :1] - 1) != 1).cumsum(-1)
            allowed = allowed & (packed == packed.transpose(1, 2))
        if self.mask == "padding":
            allowed = allowed & padding[:, None, :]
        allowed = allowed[:, None].expand(x.shape[0], -1, -1, -1)
        if self.mask == "added":
            allowed = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
        if self.mask == "sloped":
            allowed = torch.where(allowed, (columns - rows)[:, None] * 0.1, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, allowed, scale=0.25)


def masks() -> None:
    x = torch.randn(BATCH, LENGTH, WIDTH)
    padding = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    padding[0, -3:] = False
    for mask, window, padded, wanted in (("packed", 0, {}, (False, True)), ("added", 0, {}, (False, True)), ("packed", LENGTH, {}, (False, True)),
                                         ("packed", 4, {}, (True, False)), ("sloped", 0, {}, (True, False)),
                                         ("padding", 0, {"padding": padding}, (True, False))):
        for groups in (HEADS, 2, 1):
            found = attention_of(simplified(Attention(mask, groups, window), {"x": x, **padded}))
            assert found == (*wanted, groups != HEADS), f"{mask}, window {window}, {groups} groups: {found}"


class Norm(nn.Module):
    def __init__(self, weighted: bool, eps_first: bool = False, centre: bool = False, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH).to(dtype)) if weighted else None
        self.eps_first, self.centre = eps_first, centre

    def forward(self, x):
        y = x.float()
        if self.centre:
            y = y - y.mean(-1, keepdim=True)
        mean = y.pow(2).mean(-1, keepdim=True)
        z = y * torch.rsqrt(mean.clamp(min=1e-6) if self.eps_first else mean + 1e-5)
        z = z.to(x.dtype)
        return z if self.weight is None else self.weight * z


def norms() -> None:
    x = torch.randn(BATCH, LENGTH, WIDTH)
    for weighted in (False, True):
        names = [name for name, *_ in simplified(Norm(weighted), {"x": x})]
        assert names == ["rms_norm"], names
        names = [name for name, *_ in simplified(Norm(weighted, centre=True), {"x": x})]
        assert names == ["mean", "sub", "rms_norm"], names
        names = [name for name, *_ in simplified(Norm(weighted, dtype=torch.bfloat16), {"x": x.bfloat16()}, tolerance=1e-2)]
        assert names == ["rms_norm"], names
        assert "rms_norm" not in [name for name, *_ in simplified(Norm(weighted, eps_first=True), {"x": x})]


def llama() -> None:
    """As transformers has it; the labels' loss too."""
    import transformers

    config = transformers.LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
                                      num_key_value_heads=2, use_cache=False)
    net = transformers.LlamaForCausalLM(config)

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, input_ids):
            return self.net(input_ids=input_ids, labels=input_ids).loss

    calls = simplified(Loss(), {"input_ids": torch.randint(0, 64, (BATCH, LENGTH))})
    assert attention_of(calls) == (False, True, True)
    names = [name for name, *_ in calls]
    assert names.count("rms_norm") == 3 and not {"rsqrt", "cumsum", "le", "index"} & set(names), names


class NumbersFirst(nn.Module):
    def forward(self, x):
        mask = torch.add(0.5, x > 0, alpha=0.25)
        return torch.sub(3, torch.mul(2, x), alpha=0.5) * mask + torch.div(1, torch.add(4, x.square()))


def numbers() -> None:
    calls = simplified(NumbersFirst(), {"x": torch.randn(BATCH, WIDTH)})
    assert all(isinstance(node.args[0], torch.fx.Node) for *_, node in calls), [node.args for *_, node in calls]


class Rotated(nn.Module):
    """As Phi-3 rotates all numbers of a head, and joins them with those that are left."""

    def forward(self, x):
        rotated, rest = x[..., :WIDTH] * 2, x[..., WIDTH:]
        return torch.cat([rotated, rest], -1) + torch.cat([x[:0], rotated, x], 0).sum()


def nothing_joined() -> None:
    calls = simplified(Rotated(), {"x": torch.randn(BATCH, WIDTH)})
    assert all(node.meta["val"].numel() > 0 for *_, node in calls), [name for name, *_ in calls]


def of_own(forward, backward) -> type[torch.autograd.Function]:
    """A function that keeps its input for its backward."""
    def run(ctx, x):
        ctx.save_for_backward(x)
        return forward(x)

    members = {"forward": staticmethod(run), "backward": staticmethod(lambda ctx, gradient: backward(gradient, *ctx.saved_tensors))}
    return type("Own", (torch.autograd.Function,), members)


def functions() -> None:
    mask = torch.rand(WIDTH, WIDTH)
    x = torch.empty(WIDTH, WIDTH)
    cases = [
        (True, lambda x: x.round(), lambda g, x: g * (x.abs() < 1)),
        (True, lambda x: torch.where(x > 0, x, 0.1 * x).view_as(x), lambda g, x: -0.3 * g),
        (False, lambda x: x / x.abs().max(), lambda g, x: g),
        (False, lambda x: x * 2, lambda g, x: g - g.mean()),
        (False, lambda x: x.t().contiguous(), lambda g, x: g.t()),
        (False, lambda x: x.flip(0), lambda g, x: g),
        (False, lambda x: x * mask, lambda g, x: g),
        (False, lambda x: x.cumsum(0), lambda g, x: g),
        (False, lambda x: x + torch.rand_like(x), lambda g, x: g),
        (False, lambda x: x[:1] + x, lambda g, x: g),
        (False, lambda x: x.clone() if x.sum() > 0 else -x, lambda g, x: g),
    ]
    for number, (wanted, forward, backward) in enumerate(cases):
        assert is_pointwise(of_own(forward, backward).apply, [x], [x]) == wanted, f"function {number}"
    assert not is_pointwise(of_own(lambda x: x.exp(), lambda g, x: g).apply, [x], [x[:1]])


def main() -> int:
    torch.manual_seed(0)
    for case in (masks, norms, llama, numbers, nothing_joined, functions):
        case()
        print(f"ok    {case.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
