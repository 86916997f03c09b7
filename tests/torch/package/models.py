"""Small models, each with something that a model may have."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
import torch.nn.functional as F

BATCH, LENGTH, WIDTH, LETTERS = 8, 16, 32, 64


class Result(NamedTuple):
    loss: torch.Tensor
    logits: torch.Tensor


class Body(nn.Module):
    """A tied head, a buffer that no state dict has, and a parameter that nothing reads."""

    def __init__(self):
        super().__init__()
        self.letter = nn.Embedding(LETTERS, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, LETTERS, bias=False)
        self.head.weight = self.letter.weight
        self.spare = nn.Linear(3, 3)
        self.register_buffer("ramp", torch.arange(WIDTH) / WIDTH, persistent=False)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        x = self.letter(letters) + self.ramp
        return self.head(self.norm(x + self.down(F.gelu(self.up(x)))))


class WithLoss(nn.Module):
    """Returns a named tuple; takes a constant and nothing besides its tensors."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, letters, following=None, scale: float = 1.0, mask=None):
        logits = self.body(letters) * scale
        return Result(F.cross_entropy(logits.flatten(0, 1), following.flatten()), logits)


class WithoutLoss(nn.Module):
    """Takes a nested batch, returns a dict with something that is no tensor in it."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, batch, **others):
        logits = self.body(batch["letters"])
        return {"logits": logits, "nothing": None, "pooled": logits.mean(1)}


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.drop = Body(), nn.Dropout(0.5)

    def forward(self, letters):
        return self.drop(self.body(letters)).square().mean()


class Counting(nn.Module):
    """Everything that another mode turns off or on: batch norm, dropout of several kinds."""

    def __init__(self):
        super().__init__()
        self.body, self.drop = Body(), nn.Dropout(0.5)
        self.norm, self.frozen = nn.BatchNorm1d(LENGTH), nn.BatchNorm1d(LENGTH, affine=False)
        self.frozen.eval()

    def forward(self, letters):
        x = self.frozen(self.norm(self.body(letters)))
        queries = x.unflatten(-1, (4, -1)).transpose(1, 2)
        x = x + F.scaled_dot_product_attention(queries, queries, queries, dropout_p=0.3 * self.training).transpose(1, 2).flatten(2)
        return F.dropout(self.drop(x), 0.1, self.training).square().mean()


class AlwaysDropping(nn.Module):
    """Drops in eval mode too."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, letters):
        return F.dropout(self.body(letters), 0.5).square().mean()


class Wider(nn.Module):
    """WithLoss after a change of its sizes."""

    def __init__(self):
        super().__init__()
        self.body = Body()
        self.body.up, self.body.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    forward = WithLoss.forward


class OtherActivation(WithLoss):
    """WithLoss after a change of an op, with the same parameters."""

    def forward(self, letters, following=None):
        body = self.body
        x = body.letter(letters) + body.ramp
        logits = body.head(body.norm(x + body.down(F.relu(body.up(x)))))
        return Result(F.cross_entropy(logits.flatten(0, 1), following.flatten()), logits)


class Branching(nn.Module):
    """What torch.export can't trace."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, letters):
        loss = self.body(letters).square().mean()
        return loss if loss.item() > 1 else 2 * loss


def letters(seed: int, batch: int = BATCH) -> torch.Tensor:
    return torch.randint(0, LETTERS, (batch, LENGTH), generator=torch.Generator().manual_seed(seed))


def seeded(kind: type[nn.Module], **arguments) -> nn.Module:
    torch.manual_seed(0)
    return kind(**arguments)
