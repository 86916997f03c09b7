"""What a sharded model's steps took: ``model.statistics()``."""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import statistics
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from meshwright.errors import Error
from meshwright.flops import step_flops
from meshwright.progress import Progress, bytes_text, seconds_text

_REMEMBERED = 100  # steps that the median is of


@dataclass(frozen=True)
class Statistics:
    """Of this rank, a step being the time from one training forward to the next. None where nothing is known yet."""

    steps: int                           # that ended
    first_step_seconds: float | None
    step_seconds: float | None           # the median of the last hundred, without the first
    predicted_step_seconds: float        # of the plan, with its cluster's figures
    model_flops: int                     # of one step's products of matrices, over all ranks
    mfu: float | None                    # their share of what the devices could do in step_seconds; None: peak unknown
    bytes_sent: int | None               # by this rank in the last step; None where torch.compile hides it
    peak_bytes: int                      # on a GPU what tensors took at most, on a CPU the whole process
    predicted_peak_bytes: int            # of the plan
    plan: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    def write(self, rows: str | os.PathLike[str]) -> None:
        """Add what was measured to a table that ``meshwright calibrate`` takes: a row with the step, and the plan in a file
        beside it. Rank 0 writes; the others need not call it. Raises Error where no step but the first has ended.
        """
        if dist.is_initialized() and dist.get_rank() != 0:
            return
        if self.step_seconds is None:
            raise Error("no step after the first has ended, so there is nothing to write; train some more", 2)
        text = json.dumps(self.plan)
        path = Path(rows)
        plan = path.with_name(f"{path.stem}_{hashlib.sha256(text.encode()).hexdigest()[:12]}.json")
        plan.write_text(text, encoding="utf-8")
        with path.open("a", encoding="utf-8") as file:
            if file.tell() == 0:
                file.write("plan,seconds\n")
            file.write(f"{plan.name},{self.step_seconds!r}\n")

    def __str__(self) -> str:
        step = "no step has ended" if self.step_seconds is None else f"step {seconds_text(self.step_seconds)}"
        mfu = "unknown" if self.mfu is None else f"{100 * self.mfu:.3g} %"
        sent = "unknown" if self.bytes_sent is None else bytes_text(self.bytes_sent)
        return (f"{step} ({seconds_text(self.predicted_step_seconds)} predicted), MFU {mfu}, {sent} sent a step, peak "
                f"{bytes_text(self.peak_bytes)} ({bytes_text(self.predicted_peak_bytes)} predicted)")


Moment = float | torch.cuda.Event  # on a GPU what its stream has come to: the host runs ahead of it


def _moment(device: torch.device) -> Moment | None:
    """Now; None while a graph is captured, in which nothing happens yet."""
    if device.type != "cuda":
        return time.perf_counter()
    if torch.cuda.is_current_stream_capturing():
        return None
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def _between(begun: Moment, ended: Moment) -> float:
    """Seconds."""
    if isinstance(begun, float):
        return ended - begun
    ended.synchronize()
    return begun.elapsed_time(ended) / 1000


@dataclass
class Meter:
    """Counts a model's training steps."""

    plan: dict[str, Any]
    progress: Progress
    device: torch.device
    ended: deque[tuple[Moment, Moment]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))  # steps after the first
    first_seconds: float | None = None
    steps: int = 0
    begun: Moment | None = None  # when the step that goes on began
    sent: int = 0               # in it
    last_sent: int | None = None
    hidden: bool = False        # whether moves went on that could not be counted

    @torch.compiler.disable
    def begin_step(self, hidden: bool) -> None:
        """A training forward begins, and the step before has ended. ``hidden``: compiled, its moves are not counted."""
        now = _moment(self.device)
        if self.begun is not None and now is not None:
            self._end_step(self.begun, now)
        self.begun, self.sent, self.hidden = now, 0, hidden

    def _end_step(self, begun: Moment, ended: Moment) -> None:
        self.steps += 1
        self.last_sent = None if self.hidden else self.sent
        if self.steps == 1:
            self.first_seconds = _between(begun, ended)
            self.progress.say(f"first step in {seconds_text(self.first_seconds)}")
        else:
            self.ended.append((begun, ended))

    def step_seconds(self) -> float | None:
        """The median of the last steps, without the first. On a GPU, which may be steps behind, it waits for the last one's end."""
        return statistics.median(_between(*step) for step in self.ended) if self.ended else None

    def statistics(self) -> Statistics:
        flops = step_flops(self.plan)
        seconds = self.step_seconds()
        devices = math.prod(axis["size"] for axis in self.plan["mesh"])
        return Statistics(self.steps, self.first_seconds, seconds, self.plan["step_seconds"], sum(flops.values()),
                          utilization(self.plan, flops, seconds, devices), self.last_sent, peak_bytes(self.device), self.plan["peak_bytes"], self.plan)


def utilization(plan: dict[str, Any], flops: dict[str, int], seconds: float | None, devices: int) -> float | None:
    """The share of what so many devices of the plan's cluster could do in these seconds; None: unknown."""
    rates = plan["cluster"]["matrix_flops_per_second"]
    if seconds is None or not flops or any(not rates.get(dtype) for dtype in flops):
        return None
    return sum(count / rates[dtype] for dtype, count in flops.items()) / devices / seconds


def peak_bytes(device: torch.device) -> int:
    """On a GPU what tensors took at most, on a CPU this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Measured:
    """Mixed into a sharded model, in front of what computes."""

    _meter: Meter

    @torch.compiler.disable(recursive=False)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.training and torch.is_grad_enabled():
            self._meter.begin_step(hidden=callable(torch._C._dynamo.eval_frame.get_eval_frame_callback()))
        return super().forward(*args, **kwargs)

    def statistics(self) -> Statistics:
        """What the training steps took so far, next to what the plan said; of this rank, without communication."""
        return self._meter.statistics()


def count_moves(module: Any, meter: Any) -> None:
    """From now on what the emitted program's collectives send is counted, in ``meter.sent``: by this rank, as in a ring."""
    if hasattr(module, "Collective"):
        _count(module.Collective, "send", meter, lambda move, row: _SHARES[move.kind](row.nbytes, move.ranks))
    if hasattr(module, "all_to_all"):
        _count(module.all_to_all, "begin", meter, lambda move, x: x.nbytes * (module.axes()[move.axis] - 1) // module.axes()[move.axis])
    if hasattr(module, "relayout"):
        _count(module.relayout, "begin", meter, lambda move, x: _relayout_bytes(module, move, x))


# By the kind of a collective, what a rank sends of its row of so many bytes, among so many ranks.
_SHARES = {"all_gather": lambda size, ranks: (ranks - 1) * size, "reduce_scatter": lambda size, ranks: size * (ranks - 1) // ranks,
           "all_reduce": lambda size, ranks: 2 * size * (ranks - 1) // ranks, "all_reduce_max": lambda size, ranks: 2 * size * (ranks - 1) // ranks}


def _count(kind: type, method: str, meter: Any, sent: Any) -> None:
    """From now on what goes into the method of this kind of move is counted."""
    begin = getattr(kind, method)

    def counted(move: Any, x: torch.Tensor, *more: Any, **named: Any) -> Any:
        if not torch.compiler.is_compiling():
            meter.sent += sent(move, x)
        return begin(move, x, *more, **named)

    setattr(kind, method, counted)


def _relayout_bytes(module: Any, move: Any, x: torch.Tensor) -> int:
    """What this rank sends to others: its parts that they lack."""
    here, elements = module.coordinates(), 0
    for rank in range(dist.get_world_size(module.world())):
        there = module.coordinates(rank)
        if rank != dist.get_rank(module.world()):
            size = 1
            for _, extent in move.overlap(here, there):
                size *= extent
            elements += size
    return elements * x.element_size()
