"""A sampler that gives each rank its rows of each global batch."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch
from torch.utils.data import Sampler as TorchSampler


class Sampler(TorchSampler[int]):
    """The indices of this rank's rows, batch after batch; ranks that share rows get the same.

    For ``DataLoader(dataset, batch_size=model.local_batch_size, sampler=Sampler(dataset, model))``. All ranks together see
    each element at most once in an epoch; what does not fill a batch is left to ``rest``.

    Args:
        dataset: anything with a length.
        model: what ``autoparallelize`` gave.
        shuffle: a new order in each epoch: call ``set_epoch`` before each.
        seed: of that order, the same on every rank.

    Raises:
        ValueError: the dataset has less than one batch.
    """

    def __init__(self, dataset: Sized, model: torch.nn.Module, *, shuffle: bool = True, seed: int = 0):
        self._length = len(dataset)
        self._batch = model.global_batch_size
        self._rows = model.local_batch(torch.arange(self._batch, device="cpu")).cpu()
        self._shuffle, self._seed, self._epoch = shuffle, seed, 0
        if self._length < self._batch:
            raise ValueError(f"the dataset has {self._length} elements, and one batch of the plan has {self._batch}; plan the model with "
                        "a smaller sample batch")

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = self._order()
        for start in range(0, self._length - self._batch + 1, self._batch):
            yield from order[start + self._rows].tolist()

    def rest(self) -> list[int]:
        """The elements of this epoch that fill no batch, the same on every rank: for ``model.call_whole``."""
        return self._order()[self._length // self._batch * self._batch:].tolist()

    def _order(self) -> torch.Tensor:
        if not self._shuffle:
            return torch.arange(self._length, device="cpu")
        return torch.randperm(self._length, generator=torch.Generator().manual_seed(self._seed + self._epoch), device="cpu")

    def __len__(self) -> int:
        return self._length // self._batch * len(self._rows)
