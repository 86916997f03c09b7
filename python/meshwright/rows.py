"""Rows of the global batch: what each rank feeds, whatever the plan does with it.

The batch is dimension 0 of the inputs. A plan cuts it over some axes of the
mesh; ranks that differ along other axes share their rows. From these rows
each rank takes what the plan wants of an input (a part of the sequence, say).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch


class Rows:
    """How the batch is cut. ``module`` is the emitted program, ``layouts`` are those of its inputs.

    It is cut as the input is that the plan cuts into most parts. ``batch`` is its length, ``parts`` how many different
    rows ranks have.
    """

    def __init__(self, module: ModuleType, layouts: Sequence[Any]):
        self._module = module
        batched = [layout for layout in layouts if layout.shape]
        leading = max(batched, key=_cuts_of_first, default=None)  # of equals the first
        self.batch = leading.shape[0] if leading is not None else 1
        self._atoms = leading.factors()[0] if leading is not None else ()
        self._axes = tuple(axis if _is_cut(axis) and axis < len(self._atoms) else None
                           for axis in (leading.axes if leading is not None else [None] * len(module.AXES)))
        self.parts = math.prod(size for size, axis in zip(module.AXES, self._axes) if axis is not None)
        self._shapes: dict[tuple, tuple] = {}      # by a whole tensor's shape: that of a rank's rows
        self._selections: dict[tuple, Any] = {}    # by planned layout and device: see _selection

    @property
    def size(self) -> int:
        """How many rows a rank feeds."""
        return self.batch // self.parts

    def batch_axes(self) -> list[bool]:
        """Of each mesh axis, whether it cuts the batch."""
        return [axis is not None for axis in self._axes]

    def layout(self, shape: Sequence[int]) -> Any:
        """Rows of a tensor of this whole shape; one that has no batch is whole everywhere."""
        shape = tuple(shape)
        if not shape or shape[0] != self.batch:
            return self._module.Layout(shape, (None,) * len(self._axes))
        atoms = (self._atoms, *((size,) if size > 1 else () for size in shape[1:]))
        return self._module.Layout(shape, self._axes, atoms)

    def local_shape(self, shape: Sequence[int]) -> tuple:
        """The shape of a rank's rows of a tensor of this whole shape."""
        shape = tuple(shape)
        if shape not in self._shapes:
            self._shapes[shape] = self.layout(shape).local_shape()
        return self._shapes[shape]

    def cut(self, whole: torch.Tensor) -> torch.Tensor:
        """This rank's rows of a whole tensor."""
        return self.layout(whole.shape).cut(whole)

    def indices(self) -> torch.Tensor:
        """Which rows of the batch this rank feeds, in order."""
        return self.cut(torch.arange(self.batch, device="cpu"))

    def take(self, rows: torch.Tensor, planned: Any) -> torch.Tensor:
        """What the plan wants of an input, from this rank's rows of it."""
        key = planned, rows.device
        if key not in self._selections:
            self._selections[key] = self._selection(planned, rows.device)
        selection = self._selections[key]
        if selection is None:
            return planned.cut(self._module.whole_of(rows, self.layout(planned.shape)))
        for dim, places in selection:
            rows = rows.index_select(dim, places)
        return rows.contiguous()

    def _selection(self, planned: Any, device: torch.device) -> list[tuple[int, torch.Tensor]] | None:
        """Dimensions, and which positions of this rank's rows the plan wants of them; None: rows of other ranks are wanted too."""
        fed = self.layout(planned.shape)
        if not self._keeps_rows(fed, planned):
            return None
        selection = []
        for dim in range(len(planned.shape)):
            held, wanted = _positions(self._module, fed, dim), _positions(self._module, planned, dim)
            if not held.equal(wanted):
                selection.append((dim, torch.searchsorted(held, wanted).to(device)))
        return selection

    def give(self, planned_part: torch.Tensor, planned: Any) -> torch.Tensor:
        """This rank's rows of a value that lies as planned."""
        wanted = self.layout(planned.shape)
        if self._same(wanted, planned):
            return planned_part
        return wanted.cut(self._module.whole_of(planned_part, planned))

    def _keeps_rows(self, fed: Any, planned: Any) -> bool:
        """Whether every rank's part of `planned` lies in its rows: decided from layouts, so all ranks decide alike."""
        if not any(_is_cut(axis) for axis in fed.axes):
            return True
        return fed.factors()[0] == planned.factors()[0] and not planned.padded and all(
            mine is None or mine == theirs for mine, theirs in zip(fed.axes, planned.axes))

    def _same(self, rows: Any, planned: Any) -> bool:
        whole = not any(_is_cut(axis) for axis in planned.axes)
        return tuple(rows.axes) == tuple(planned.axes) and (whole or rows.factors()[0] == planned.factors()[0])


def _is_cut(axis: Any) -> bool:
    return isinstance(axis, int)


def _cuts_of_first(layout: Any) -> int:
    """How many mesh axes cut the first dimension."""
    return sum(_is_cut(axis) and axis < len(layout.factors()[0]) for axis in layout.axes)


def _positions(module: ModuleType, layout: Any, dim: int) -> torch.Tensor:
    """Which positions of one dimension this rank holds, ascending as they lie."""
    factors = layout.factors()
    before = sum(len(atoms) for atoms in factors[:dim])
    axes = tuple(axis - before if _is_cut(axis) and before <= axis < before + len(factors[dim]) else None
                 for axis in layout.axes)
    return module.Layout((layout.shape[dim],), axes, (factors[dim],)).cut(torch.arange(layout.shape[dim], device="cpu"))
