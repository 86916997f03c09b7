"""Small exported models of many ops, from which fuzzing begins: `corpus/pt2/seed_*.json`.

    build/torch/bin/python tests/fuzz/seeds.py tests/fuzz/corpus/pt2

Each is the models/model.json of one layer or a few functions with a loss; what does not say what is computed (traces of
the source, examples of inputs) is left out.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


class Of(nn.Module):
    def __init__(self, layer, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x):
        return self.function(self.layer, x).square().mean()


IMAGE, ROWS, WORDS = torch.randn(4, 8, 6, 6), torch.randn(4, 6, 8), torch.randint(0, 8, (4, 6))
NOTHING = nn.Linear(8, 8)

SEEDS = {
    "conv": (nn.Sequential(nn.Conv2d(8, 4, 3, padding=1, groups=2), nn.BatchNorm2d(4), nn.ReLU()), lambda f, x: f(x), IMAGE),
    "conv_transposed": (nn.ConvTranspose2d(8, 4, 3, stride=2), lambda f, x: f(x), IMAGE),
    "conv1d": (nn.Conv1d(6, 4, 3, dilation=2), lambda f, x: F.gelu(f(x)), ROWS),
    "norms": (nn.Sequential(nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True)), lambda f, x: f(x), IMAGE),
    "layer_norm": (nn.Sequential(nn.LayerNorm(8), nn.RMSNorm(8)), lambda f, x: f(x), ROWS),
    "pools": (nn.Conv2d(8, 8, 1), lambda f, x: F.max_pool2d(f(x), 2) + F.avg_pool2d(f(x), 2) + F.adaptive_avg_pool2d(x, 3), IMAGE),
    "upsample": (nn.Conv2d(8, 8, 1), lambda f, x: F.interpolate(f(x), scale_factor=2.0) + F.interpolate(f(x), size=(12, 12), mode="bilinear"), IMAGE),
    "shuffle": (nn.Conv2d(8, 8, 1), lambda f, x: F.pad(F.pixel_shuffle(f(x), 2), (1, 2, 0, 1)), IMAGE),
    "unfold": (nn.Conv2d(8, 8, 1), lambda f, x: F.unfold(f(x), 3, padding=1), IMAGE),
    "grid": (nn.Conv2d(8, 2, 1), lambda f, x: F.grid_sample(x, f(x).permute(0, 2, 3, 1), align_corners=False), IMAGE),
    "attention": (nn.Linear(8, 24), lambda f, x: F.scaled_dot_product_attention(*(t.unflatten(-1, (2, 4)).transpose(1, 2) for t in f(x).chunk(3, -1)), is_causal=True), ROWS),
    "masked_attention": (nn.Linear(8, 8), lambda f, x: torch.softmax((f(x) @ x.mT).masked_fill(torch.ones(6, 6).triu(1).bool(), -1e9), -1) @ x, ROWS),
    "multihead": (nn.MultiheadAttention(8, 2, batch_first=True), lambda f, x: f(x, x, x, need_weights=False)[0], ROWS),
    "einsum": (NOTHING, lambda f, x: torch.einsum("bld,bmd->blm", f(x), x) + torch.bmm(x, x.transpose(1, 2)), ROWS),
    "embedding": (nn.Embedding(8, 16, padding_idx=0), lambda f, x: f(x) + f.weight.sum(), WORDS),
    "embedding_bag": (nn.EmbeddingBag(8, 16, mode="mean"), lambda f, x: f(x), WORDS),
    "cross_entropy": (nn.Embedding(8, 8), lambda f, x: F.cross_entropy(f(x).flatten(0, 1), x.flatten(), ignore_index=1, label_smoothing=0.1), WORDS),
    "losses": (NOTHING, lambda f, x: F.mse_loss(f(x), x) + F.binary_cross_entropy_with_logits(f(x), x.sigmoid()) + F.smooth_l1_loss(f(x), x) + F.kl_div(f(x), x), ROWS),
    "lstm": (nn.LSTM(8, 4, bidirectional=True, batch_first=True), lambda f, x: f(x)[0], ROWS),
    "gru": (nn.GRU(8, 4, num_layers=2, batch_first=True), lambda f, x: f(x)[0], ROWS),
    "indexing": (NOTHING, lambda f, x: f(x)[:, torch.tensor([0, 2, 1])] + x.index_select(1, torch.tensor([1, 1, 0])) + x[:, ::2], ROWS),
    "gather": (NOTHING, lambda f, x: f(x).gather(2, x.argsort(-1)) + torch.zeros_like(x).scatter(2, x.argmax(-1, keepdim=True), 1.0), ROWS),
    "scatter": (NOTHING, lambda f, x: torch.zeros(4, 3, 8).index_add(1, torch.tensor([0, 1, 2, 0, 1, 2]), f(x)), ROWS),
    "joins": (NOTHING, lambda f, x: torch.cat([f(x), x], 1).sum(1) + torch.stack(x.split([2, 4], 1)[0].unbind(1)).sum(0), ROWS),
    "views": (NOTHING, lambda f, x: f(x).reshape(4, 12, 4).permute(2, 0, 1).flatten(1).expand(3, 4, 48).squeeze(0) + x.unsqueeze(0).sum(), ROWS),
    "order": (NOTHING, lambda f, x: f(x).cumsum(1) + x.roll(1, 2).flip(1) + f(x).sort(-1).values + f(x).topk(1).values, ROWS),
    "reductions": (NOTHING, lambda f, x: f(x).var(-1) + f(x).amax(-1) + f(x).logsumexp(-1) + f(x).norm(dim=-1) + f(x).std(-1) + f(x).mean(-1), ROWS),
    "pointwise": (NOTHING, lambda f, x: torch.where(x > 0, f(x).exp(), f(x).tanh()).clamp(-3, 3) / (x.abs() + 1).pow(1.5) + F.silu(x) * x.erf() - x.remainder(2), ROWS),
    "activations": (NOTHING, lambda f, x: F.glu(f(x), -1).repeat(1, 1, 2) + F.leaky_relu(x) + F.elu(x) + F.hardswish(x) + F.softplus(x) + F.mish(x), ROWS),
    "triangle": (NOTHING, lambda f, x: (f(x) @ x.mT).tril() + torch.arange(6) + torch.full((6, 6), 2.0).triu(1), ROWS),
    "dropout": (NOTHING, lambda f, x: F.dropout(f(x), 0.5) + torch.randn(4, 6, 8), ROWS),
    "dtypes": (NOTHING, lambda f, x: (f(x).double() + x.to(torch.bfloat16)).float() * (x > 0), ROWS),
    "fft": (NOTHING, lambda f, x: torch.fft.rfft(f(x)).abs(), ROWS),
    "rotary": (NOTHING, lambda f, x: torch.view_as_real(torch.view_as_complex(f(x).unflatten(-1, (4, 2))) * torch.polar(torch.ones(6, 4), torch.ones(6, 4))), ROWS),
    "linear_algebra": (NOTHING, lambda f, x: torch.addmm(x[0], x[0], f.weight, beta=0.5) + torch.baddbmm(x, x, f.weight.expand(4, 8, 8)) + torch.outer(x[0, 0, :6], x[0, 1]), ROWS),
    "diagonal": (NOTHING, lambda f, x: (f(x) @ x.mT).diagonal(dim1=1, dim2=2).diag_embed(), ROWS),
    "windows": (NOTHING, lambda f, x: f(x).unfold(1, 2, 1), ROWS),
    "one_hot": (nn.Linear(8, 4), lambda f, x: f(F.one_hot(x, 8).float()) + torch.bucketize(x, torch.tensor([1, 3])).unsqueeze(-1), WORDS),
}

UNSAID = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")


def document(name: str) -> str:
    layer, function, x = SEEDS[name]
    program = torch.export.export(Of(layer.train(), function), (x,)).run_decompositions({})
    file = io.BytesIO()
    torch.export.save(program, file)
    with zipfile.ZipFile(file) as archive:
        path = next(entry for entry in archive.namelist() if entry.endswith("models/model.json"))
        model = json.loads(archive.read(path))
    for node in model["graph_module"]["graph"]["nodes"]:
        node["metadata"] = {key: value for key, value in node["metadata"].items() if key not in UNSAID}
    return json.dumps(model, separators=(",", ":"))


def main() -> None:
    torch.manual_seed(0)
    for name in SEEDS:
        try:
            text = document(name)
        except Exception as error:  # so that one seed that this PyTorch can't export does not hide the others
            sys.exit(f"seeds: {name}: {error}")
        (Path(sys.argv[1]) / f"seed_{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
