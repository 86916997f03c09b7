"""The models of the tables that score.py reads, on the meta device: GPT as Megatron-LM has it (Narayanan et al. 2021), and MPT."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """`fused`: as one op. Else as Megatron writes it: scaled scores, a mask, softmax, a weighted sum."""

    def __init__(self, width: int, heads: int, length: int, fused: bool, bias: bool):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.inner, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        if not fused:
            self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.inner(x).chunk(3, dim=-1))
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-1, -2)) / math.sqrt(width // self.heads)
            mixed = torch.softmax(scores.masked_fill(~self.mask, -1e4), dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, length: int, fused: bool, bias: bool):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, length, fused, bias)
        self.up, self.down = nn.Linear(width, 4 * width, bias=bias), nn.Linear(4 * width, width, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Words, blocks, and a head that shares the words' table. `half`: in fp16, but for the loss, which is computed in fp32, as Megatron does."""

    def __init__(self, width: int, heads: int, layers: int, length: int, words: int, fused: bool, bias: bool, places: bool, half: bool):
        super().__init__()
        self.loss_dtype = torch.float32 if half else None
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width) if places else None
        self.blocks = nn.ModuleList([Block(width, heads, length, fused, bias) for _ in range(layers)])
        self.norm = nn.LayerNorm(width, bias=bias)
        if half:
            self.half()

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.words.weight)
        if self.loss_dtype is not None:
            logits = torch.ops.aten._to_copy.default(logits, dtype=self.loss_dtype)  # `to` would be exported as an op that has no rule
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def export(path, length: int, **shape) -> None:
    """Writes the model for a batch of 2, which `[model] batch` rebinds."""
    with torch.device("meta"):
        model = Gpt(length=length, **shape).train()
        tokens = torch.zeros(2, length, dtype=torch.long)
    torch.export.save(torch.export.export(model, (tokens, tokens.clone())), path)
