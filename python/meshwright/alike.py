"""What must be the same on every rank, and would train wrong without a word if it were not: weights, and global batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from meshwright import ranks


def digest(tensor: torch.Tensor) -> int:
    """A number that two tensors share if they hold the same elements in the same shape; others hardly ever do."""
    if tensor.is_meta or tensor.numel() == 0:
        return hash(tuple(tensor.shape))
    flat = tensor.detach().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    half = flat[: flat.numel() // 2 + 1]  # its place counts too, coarsely
    return hash((tuple(tensor.shape), _bits(flat), _bits(half)))


def _bits(tensor: torch.Tensor) -> int:
    return int(torch.hash_tensor(tensor).view(torch.int64))


def check_weights(state: Mapping[str, torch.Tensor]) -> None:
    """End all ranks, with a sentence, if their models do not have the same weights."""
    own = {name: digest(tensor) for name, tensor in state.items()}
    if len(set(ranks.all_gathered(hash(tuple(own.values()))))) == 1:
        return
    first, *others = ranks.all_gathered(own)
    for number, other in enumerate(others, 1):
        different = [name for name in first if other.get(name) != first[name]]
        if different:
            ranks.fail(f"the weights differ between ranks: '{different[0]}' of rank {number} is not that of rank 0 ({len(different)} of "
                       f"{len(first)} tensors differ); seed every rank alike, or load the same checkpoint on every rank")


def check_batches(fed: int | None, rows: int, inputs: list[Any]) -> None:
    """Raise ValueError on all ranks if their first global batches differ, or the rows of ranks that have the same ones.

    ``fed``: the digest of the first global batch, if this rank cut one; ``rows``: which rows this rank has.
    """
    own = hash(tuple(digest(leaf) for leaf in inputs if isinstance(leaf, torch.Tensor)))
    said = ranks.all_gathered((fed, rows, own))
    if len({one for one, _, _ in said if one is not None}) > 1:
        raise ValueError("the ranks cut their rows out of different global batches; load the same batch on every rank (seed the "
                         "DataLoader's generator alike), or feed rows by a meshwright.Sampler")
    if len({(rows, own) for _, rows, own in said}) != len({rows for _, rows, _ in said}):
        raise ValueError("ranks that have the same rows of the batch were fed different ones; seed their data alike, or use a "
                         "meshwright.Sampler")
