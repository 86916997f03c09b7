"""What the steps of a model in several pipeline stages took, by stage: ``model.statistics()``."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from meshwright import ranks
from meshwright.errors import Error
from meshwright.flops import step_flops
from meshwright.statistics import Meter, Statistics, count_moves, peak_bytes, utilization


@dataclass(frozen=True)
class StageStatistics:
    """Of one stage. Where several are on the same devices, ``peak_bytes`` and what was predicted of it are those of all of them."""

    stage: int
    model_flops: int                # of one step's products of matrices
    predicted_busy_seconds: float   # of a step, in which its devices compute for it
    bytes_sent: int | None          # by all of its ranks in the last step, to each other and to other stages; None before one has ended
    peak_bytes: int                 # on the rank of it that took most
    predicted_peak_bytes: int       # per device


@dataclass(frozen=True)
class StagedStatistics(Statistics):
    """Of all ranks, the same on each, and by stage. A step is the time from one call of ``step`` to the next; ``bytes_sent`` are those of all ranks,
    and ``peak_bytes`` those of the rank that took most.
    """

    stages: tuple[StageStatistics, ...] = field(default=())

    def write(self, rows: Any) -> None:
        raise Error("meshwright calibrate takes steps of plans of one stage, and this one has several; write those of a model that was planned "
                    "without search.stages")


class StageMeter:
    """Counts the training steps of a model in several stages, and what each of this rank's stages sends in them."""

    def __init__(self, model: Any, module: Any, meter: Meter):
        self.steps = meter
        self.last_sent: dict[int, int] | None = None  # by stage, in the last step that ended
        self._model, self._module = model, module
        self._counted: Counter[int | None] = Counter()
        self._stage: int | None = None  # that computes
        count_moves(module, self)
        for stage in model.stages:
            self._follow(stage)

    @property
    def sent(self) -> int:
        """By the stage that computes."""
        return self._counted[self._stage]

    @sent.setter
    def sent(self, count: int) -> None:
        self._counted[self._stage] = count

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """A context for a step."""
        self.steps.begin_step(hidden=False)
        self._counted.clear()
        yield
        self.last_sent = {stage.STAGE: self._counted[stage.STAGE] + self._messages(stage) + self._exchanged(stage) for stage in self._model.stages}

    def _follow(self, stage: Any) -> None:
        """From now on it is known when this stage computes."""
        here = stage.here

        @contextlib.contextmanager
        def followed() -> Iterator[None]:
            before, self._stage = self._stage, stage.STAGE
            try:
                with here():
                    yield
            finally:
                self._stage = before

        stage.here = followed

    def _messages(self, stage: Any) -> int:
        """What the stage sends in a step to stages on other ranks: results to the next one, gradients to the one before."""
        sent, here = 0, self._module.GROUPS[self._module.GROUP]
        for neighbour, tensors in ((stage.STAGE + 1, stage.SENT), (stage.STAGE - 1, stage.RECEIVED)):
            if neighbour not in here:
                sent += sum(self._model.example(*each).nbytes for each in tensors.values())
        return sent * self._model.MICROBATCHES

    def _exchanged(self, stage: Any) -> int:
        """What it sends of the gradients of shared parameters: to the first stage that has one, which gives the sum to ranks of all the others."""
        sent, group_of = 0, self._module.group_of
        for name, shards in self._model.shared_here().items():
            stages, alike = self._model.SHARED[name]
            if stage.STAGE not in shards:
                continue
            shard, others = shards[stage.STAGE], {group_of(other) for other in stages} - {group_of(stages[0])}
            size = shard.nbytes if alike else math.prod(shard.sharding.shape) * shard.itemsize
            if stage.STAGE == stages[0]:
                sent += size * len(others)
            elif group_of(stage.STAGE) in others:
                sent += size
        return sent

    def statistics(self) -> StagedStatistics:
        """All ranks call it."""
        meter, plan = self.steps, self.steps.plan
        everything = ranks.all_gathered((meter.first_seconds, meter.step_seconds(), self.last_sent, peak_bytes(meter.device)))
        first, slowest = (max((each[i] for each in everything if each[i] is not None), default=None) for i in (0, 1))
        of_stages = self._of_stages(everything)
        flops = _times(step_flops(plan), plan["microbatches"])
        sent = None if self.last_sent is None else sum(sum(each[2].values()) for each in everything)
        return StagedStatistics(meter.steps, first, slowest, plan["step_seconds"], sum(flops.values()),
                                utilization(plan, flops, slowest, len(everything)), sent, max(each[3] for each in everything),
                                max(plan["peak_bytes"]), plan, of_stages)

    def _of_stages(self, everything: list[tuple]) -> tuple[StageStatistics, ...]:
        """By stage, of what each rank gave."""
        plan, found = self.steps.plan, []
        groups = self._module.GROUPS
        share = len(everything) // len(groups)
        for number, stage in enumerate(plan["stages"]):
            group = self._module.group_of(number)
            here = everything[group * share:(group + 1) * share]
            sent = None if self.last_sent is None else sum(each[2][number] for each in here)
            flops = _times(step_flops(stage), plan["microbatches"])
            found.append(StageStatistics(number, sum(flops.values()), plan["busy_seconds"][number], sent, max(each[3] for each in here),
                                         plan["peak_bytes"][group]))
        return tuple(found)


def _times(flops: Counter[str], microbatches: int) -> Counter[str]:
    """Those of a step, of those of one of its microbatches."""
    return Counter({dtype: count * microbatches for dtype, count in flops.items()})
