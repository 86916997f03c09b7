"""GPT-2 and Llama as people write them, small: the models that beside.py trains in several ways."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = 4, 192, 8, 2048, 64, 16


class Attention(nn.Module):
    """Each rank of tensor parallelism has some of the heads."""

    def __init__(self, bias: bool):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(4))

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor] | None = None) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (project(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for project in (self.q, self.k, self.v))
        if turn is not None:
            q, k = turned(q, *turn), turned(k, *turn)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


def turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


class Gpt2Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(bias=True)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Gpt2Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("order", torch.arange(LENGTH), persistent=False)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(self.order)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention(bias=False)
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((WIDTH, 3 * WIDTH), (WIDTH, 3 * WIDTH), (3 * WIDTH, WIDTH)))

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x), (cosine, sine))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([LlamaBlock() for _ in range(LAYERS)])
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        size = WIDTH // HEADS
        angles = torch.outer(torch.arange(LENGTH).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


MODELS = {"GPT-2": Gpt2, "Llama": Llama}


def made(name: str) -> nn.Module:
    """The same weights wherever it is called."""
    torch.manual_seed(0)
    model = MODELS[name]()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    return model


def batch(step: int) -> dict[str, torch.Tensor]:
    """A step's whole batch."""
    generator = torch.Generator().manual_seed(step)
    return {name: torch.randint(WORDS, (BATCH, LENGTH), generator=generator) for name in ("tokens", "labels")}
