"""Models that are planned with recomputation, on the meta device: GPT as Megatron-LM has it, with dropout, and Llama 3 (Grattafiori et al. 2024, table 3) as its paper describes it, with fused causal attention and no mask."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Rotary(nn.Module):
    """Rotates pairs of a head's halves by angles of the place (RoPE, Su et al. 2021)."""

    def __init__(self, length: int, head: int, base: float):
        super().__init__()
        angles = torch.outer(torch.arange(length), base ** (-torch.arange(0, head, 2) / head))
        angles = torch.cat([angles, angles], dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * self.cos.to(x.dtype) + torch.cat([-second, first], dim=-1) * self.sin.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, groups: int):
        super().__init__()
        self.heads, self.groups, head = heads, groups, width // heads
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, groups * head, bias=False), nn.Linear(width, groups * head, bias=False)

    def forward(self, x: torch.Tensor, rotary: Rotary) -> torch.Tensor:
        batch, length, width = x.shape
        q = rotary(self.q(x).view(batch, length, self.heads, -1).transpose(1, 2))
        k = rotary(self.k(x).view(batch, length, self.groups, -1).transpose(1, 2))
        v = self.v(x).view(batch, length, self.groups, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, inner: int):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, groups)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, rotary: Rotary) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x), rotary)
        normed = self.norm_2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, inner: int, layers: int, length: int, words: int = 128256):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.rotary = Rotary(length, width // heads, 500000.0)
        self.layers = nn.ModuleList([Block(width, heads, groups, inner) for _ in range(layers)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, self.rotary)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def llama_8b(length: int) -> Llama:
    return Llama(4096, 32, 8, 14336, 32, length)


def llama_70b(length: int) -> Llama:
    return Llama(8192, 64, 8, 28672, 80, length)


class GptBlock(nn.Module):
    """Attention unfused, with its dropouts, as Korthikanti et al. (2022, arXiv 2205.05198, section 4) count it."""

    def __init__(self, width: int, heads: int, length: int, dropout: float = 0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril(), persistent=False)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.inner(x).chunk(3, dim=-1))
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        weights = F.dropout(torch.softmax(scores.masked_fill(~self.mask, -1e4), dim=-1), self.dropout)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + F.dropout(self.attend(self.norm_1(x)), self.dropout)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh")), self.dropout)


class GptLayers(nn.Module):
    """So many layers, and a loss that takes next to no time."""

    def __init__(self, width: int, heads: int, length: int, layers: int):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(width))
        self.layers = nn.ModuleList([GptBlock(width, heads, length) for _ in range(layers)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.start
        for layer in self.layers:
            x = layer(x)
        return x.float().mean()
