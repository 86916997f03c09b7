"""Published weights: ``model.load_pretrained`` reads safetensors files, and of each tensor only this rank's part."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from meshwright import ranks

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
# So many pieces of a dimension are read one by one; of more, what lies between them is read too.
_MOST_RUNS = 64
_MOST_NAMES = 3  # in a sentence


class Pretrained:
    """Mixed into a sharded model."""

    def load_pretrained(self, path: str | os.PathLike[str], *, names: Callable[[str], str] | None = None,
                        others: Mapping[str, torch.Tensor] | None = None, strict: bool = True) -> int:
        """Take this rank's shards of a checkpoint in safetensors files, slice by slice; give how many bytes were read.

        No rank holds more than its shards and one slice, so a model planned on the ``meta`` device may be larger than a
        rank's memory. All ranks call it, and all need the files.

        Args:
            path: a ``.safetensors`` file, or a folder with ``model.safetensors`` or ``model.safetensors.index.json``.
            names: the name in the files of a name in the model's state dict, where they differ:
                ``lambda name: name.removeprefix("inner.")``.
            others: whole tensors, by the model's names, that go before the files: buffers that no checkpoint has.
            strict: whether the files must have every name of the model's state dict, and no others.

        Raises:
            Error: a file can't be read, or does not fit the model; on every rank alike.
        """
        given, problem, wanted = dict(others or {}), None, {}
        try:
            files = _Files(Path(path))
            wanted = self._wanted(files, names or (lambda name: name), given, strict)
        except _Problem as found:
            problem = str(found)
        ranks.refuse_together(problem)
        parts, unused = self._parts(), self._call.unused
        read, here = 0, self._call.module.coordinates()
        for name, stored in wanted.items():
            if name in unused:
                unused[name] = files.whole(stored)
                read += unused[name].nbytes
            else:
                shard = parts[name]
                part, count = _part(files, stored, shard, here)
                _put(self, name, shard, part)
                read += count
        for name, whole in given.items():
            self.set_shard(name, whole)
        return read

    def _parts(self) -> dict[str, torch.Tensor]:
        beside = {name: part for name, part in self.named_buffers() if hasattr(part, "sharding")}
        return {**beside, **self.named_shards()}

    def _wanted(self, files: _Files, names: Callable[[str], str], given: dict[str, torch.Tensor],
                strict: bool) -> dict[str, str]:
        """By the name of each shard: the name in the files. Checks that everything is there and fits."""
        parts, saved, unused = self._parts(), self.named_shards(), self._call.unused
        found: dict[str, str] = {}
        missing, known = [], set()
        for name in (*parts, *unused):
            alike = [names(other) for other in (self.names_of(name) if name in saved else [name])]
            known.update(alike)
            stored = next((other for other in alike if other in files), None)
            if name in given:
                continue
            if stored is not None:
                found[name] = stored
            elif name in saved or name in unused or parts[name].is_meta:
                missing.append(name)
        unknown = [name for name in files if name not in known]
        strange = [name for name in given if name not in parts]
        if strange:
            raise _Problem(f"others= has {_some(strange)}, which the model does not have")
        if missing and strict:
            raise _Problem(f"{files.path} has nothing for {_some(missing)} of the model; say with names= how they are called there, "
                           "give them as others=, or load with strict=False")
        if unknown and strict:
            raise _Problem(f"{files.path} has {_some(unknown)}, which the model does not have; say with names= how the model's "
                           "are called there, or load with strict=False")
        for name, stored in found.items():
            shape = tuple(unused[name].shape if name in unused else parts[name].sharding.shape)
            if files.shape(stored) != shape:
                raise _Problem(f"{files.path}: '{stored}' is {list(files.shape(stored))}, and '{name}' of the model is {list(shape)}")
        return found


class _Problem(Exception):
    """What is wrong with files, in one sentence."""


class _Files:
    """The tensors of a checkpoint, by name, in one file or in several."""

    def __init__(self, path: Path):
        try:
            from safetensors import SafetensorError, safe_open
        except ModuleNotFoundError as error:
            raise _Problem("load_pretrained needs the package safetensors; install it with: pip install safetensors") from error
        self.path = path
        self._files: dict[str, Any] = {}  # by the name of a tensor: the file, opened
        for file in self._paths(path):
            try:
                opened = safe_open(file, framework="pt", device="cpu")
                self._files.update(dict.fromkeys(opened.keys(), opened))
            except OSError as error:
                raise _Problem(f"{file}: {error.strerror or error}") from error
            except SafetensorError as error:
                raise _Problem(f"{file}: this is no safetensors file, or not a whole one: {error}") from error

    @staticmethod
    def _paths(path: Path) -> list[Path]:
        if not path.is_dir():
            if path.name.endswith(".index.json"):
                return _Files._indexed(path)
            if not path.exists():
                raise _Problem(f"{path}: there is no such file or folder")
            return [path]
        if (path / _INDEX).exists():
            return _Files._indexed(path / _INDEX)
        if (path / _SINGLE).exists():
            return [path / _SINGLE]
        raise _Problem(f"{path}: the folder has neither {_SINGLE} nor {_INDEX}")

    @staticmethod
    def _indexed(index: Path) -> list[Path]:
        try:
            files = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            names = sorted(set(files))
        except OSError as error:
            raise _Problem(f"{index}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Problem(f"{index}: this is no index of safetensors files: it has no readable weight_map") from error
        for name in names:  # a file beside the index, and no other one
            if not isinstance(name, str) or Path(name).name != name:
                raise _Problem(f"{index}: {name!r} is not the name of a file beside it")
            if not (index.parent / name).exists():
                raise _Problem(f"{index}: the file {name} that it names is not there")
        return [index.parent / name for name in names]

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._files[name].get_slice(name).get_shape())

    def whole(self, name: str) -> torch.Tensor:
        return self._files[name].get_tensor(name)

    def slice(self, name: str, ranges: tuple[slice, ...]) -> torch.Tensor:
        return self._files[name].get_slice(name)[ranges] if ranges else self.whole(name)


@dataclass(frozen=True)
class _Run:
    """A stretch of a dimension that is read at once: of the stored positions from ``first`` to ``end`` all, or those at
    ``places`` after ``first``; they stand from ``target`` on in this rank's part.
    """

    first: int
    end: int
    target: int
    places: torch.Tensor | None = None


def _part(files: _Files, stored: str, shard: torch.Tensor, here: Sequence[int]) -> tuple[torch.Tensor, int]:
    """This rank's part of a stored tensor, as the shard's layout has it, padded with zeros; and how many bytes were read.

    ``here`` are the rank's coordinates on the mesh.
    """
    layout = shard.sharding
    starts, extents = layout.box(here)
    runs, at = [], 0
    for atoms in layout.factors():
        end = at + len(atoms)
        runs.append(_runs(_positions(atoms, starts[at:end], extents[at:end])))
        at = end
    part, read = torch.zeros(layout.local_shape(), dtype=shard.dtype, device="cpu"), 0
    for chosen in itertools.product(*runs):
        piece = files.slice(stored, tuple(slice(run.first, run.end) for run in chosen))
        read += piece.nbytes
        target = part
        for dim, run in enumerate(chosen):
            piece = piece if run.places is None else piece.index_select(dim, run.places)
            target = target.narrow(dim, run.target, piece.shape[dim])
        target.copy_(piece)
    return part, read


def _positions(atoms: Sequence[int], starts: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """The positions of a dimension that a rank has, in the order in which it has them; -1 for padding."""
    positions = torch.zeros(1, dtype=torch.int64, device="cpu")
    for size, start, extent in zip(atoms, starts, extents):
        own = torch.arange(start, start + extent, device="cpu")
        finer = positions[:, None] * size + own[None, :]
        positions = torch.where((positions[:, None] < 0) | (own[None, :] >= size), -1, finer).reshape(-1)
    return positions


def _runs(positions: torch.Tensor) -> list[_Run]:
    """Positions that follow one another are read at once; padding is not read."""
    places = (positions >= 0).nonzero().reshape(-1)
    if places.numel() == 0:
        return []
    breaks = ((positions[places].diff() != 1) | (places.diff() != 1)).nonzero().reshape(-1) + 1
    bounds = [0, *breaks.tolist(), places.numel()]
    if len(bounds) - 1 > _MOST_RUNS and int(places[-1]) == places.numel() - 1:
        first = int(positions[places].min())
        return [_Run(first, int(positions[places].max()) + 1, 0, positions[places] - first)]
    return [_Run(int(positions[places[a]]), int(positions[places[b - 1]]) + 1, int(places[a])) for a, b in zip(bounds, bounds[1:])]


def _put(model: Any, name: str, shard: torch.Tensor, part: torch.Tensor) -> None:
    """Puts this rank's part where the name says; makes what a meta tensor stands for."""
    if not shard.is_meta:
        with torch.no_grad():
            shard.copy_(part)
        return
    made = part.to(model._call.module.device())
    if isinstance(shard, torch.nn.Parameter):
        made = torch.nn.Parameter(made, shard.requires_grad)
    made.__dict__.update(shard.__dict__)
    for owner in model.modules():
        for held in (owner._parameters, owner._buffers):
            held.update({key: made for key, value in held.items() if value is shard})


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(f"'{name}'" for name in names[:_MOST_NAMES]) + more
