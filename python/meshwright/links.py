"""Latency and bandwidth of every pair of ranks, and all-reduces of groups, between the ranks of the process group at hand.

As the program does it between ranks of MPI (plugins/clusters/detect/measure_links.h): pairs one after the other, in rounds of which the median
counts. What comes out is the CSV text that ``meshwright detect --from`` reads. Every rank calls these functions, and all get the same.
"""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from meshwright import program
from meshwright.ranks import agree, all_gathered

# How long each figure of a pair or group is measured, in all rounds together, and how often a pair whose directions differ by more than noise.
_POINT_SECONDS, _ROUNDS, _TRIES, _APART = 0.02, 5, 3, 2 ** 0.5
_SMALL_BYTES, _ALL_REDUCE_BYTES = 8, (1 << 10, 64 << 10, 1 << 20)
_LARGE_BYTES = {"cpu": 8 << 20, "cuda": 64 << 20}
_LEAST_SECONDS, _MOST_COUNT = 1e-9, 100_000
_measurements = itertools.count()  # alike on all ranks


def measure_links(device: torch.device) -> str:
    """Groups whose all-reduces are measured are neighbours, as levels join them in the order in which ranks were started."""
    meter = _Meter(device)
    ranks = range(dist.get_world_size())
    pairs = list(itertools.combinations(ranks, 2))
    for number in range(_ROUNDS):
        meter.measure_round(pairs, number)
    for number in range(_ROUNDS, _TRIES * _ROUNDS):
        if not (uneven := meter.uneven(pairs)):
            break
        meter.measure_round(uneven, number)
    lines = ["a,b,latency_s,bandwidth_Bps"]
    figures = meter.figures()
    for a, b in pairs:
        latency = figures[a, b]["trip"] / 2
        lines += [f"{one},{other},{latency!r},{meter.large_bytes / figures[a, b][way]!r}" for one, other, way in ((a, b, "there"), (b, a, "back"))]
    groups = agree(lambda: _groups_of("\n".join(lines) + "\n", len(ranks)))
    lines += ["group,bytes,seconds", *meter.all_reduces(groups)]
    return "\n".join(lines) + "\n"


def _groups_of(pairs: str, ranks: int) -> list[list[int]]:
    """The ranks of each level's groups, as the program finds levels."""
    with tempfile.TemporaryDirectory(prefix="meshwright_") as folder:
        recorded = Path(folder) / "links.csv"
        recorded.write_text(pairs, encoding="utf-8")
        found = json.loads(program.run(["detect", "--from", recorded, "-o", Path(folder) / "cluster.toml", "--format", "json",
                                        "--set", 'cluster.detect.order="started"']))
    sizes = sorted({level["group"] for level in found["levels"]} | {ranks})
    return [list(range(first, first + size)) for size in sizes for first in range(0, ranks, size)]


class _Meter:
    """Who measures has the turn; the others wait for theirs at the store, and send nothing meanwhile."""

    def __init__(self, device: torch.device):
        self._device, self._rank = device, dist.get_rank()
        self.large_bytes = _LARGE_BYTES[device.type]
        self._out = torch.zeros(self.large_bytes // 4, device=device)
        self._in = torch.zeros_like(self._out)
        self._store = dist.PrefixStore(f"meshwright/links/{next(_measurements)}", dist.distributed_c10d._get_default_store())
        self._turns = 0
        self._seconds: dict[tuple[int, int], dict[str, list[float]]] = {}  # of the pairs whose first rank is this one

    def measure_round(self, pairs: Sequence[tuple[int, int]], number: int) -> None:
        for pair in pairs:
            for _ in self._turn(pair):
                self._measure_pair(*pair)

    def uneven(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The pairs whose directions differ by more than noise."""
        figures = self.figures()
        return [pair for pair in pairs if max(figures[pair]["there"], figures[pair]["back"]) > _APART * min(figures[pair]["there"], figures[pair]["back"])]

    def figures(self) -> dict[tuple[int, int], dict[str, float]]:
        """Median seconds of each pair's round trip of a small message, and of a large one each way."""
        mine = {pair: {what: statistics.median(taken) for what, taken in points.items()} for pair, points in self._seconds.items()}
        return {pair: points for of_rank in all_gathered(mine) for pair, points in of_rank.items()}

    def all_reduces(self, groups: Sequence[Sequence[int]]) -> list[str]:
        """A row for each group and size."""
        rows: list[tuple[int, str]] = []
        for place, ranks in enumerate(groups):
            group = dist.new_group(list(ranks))
            for _ in self._turn(ranks):
                for size in sorted({*_ALL_REDUCE_BYTES, self.large_bytes}):
                    seconds = self._all_reduce_seconds(group, size)
                    if self._rank == ranks[0]:
                        rows.append((place, f"{' '.join(map(str, ranks))},{size},{seconds!r}"))
            if self._rank in ranks:
                dist.destroy_process_group(group)
        return [row for _, row in sorted((row for of_rank in all_gathered(rows) for row in of_rank), key=lambda row: row[0])]

    def _turn(self, ranks: Sequence[int]) -> Iterator[None]:
        """Once, for ranks that have work in this turn, when those of the turn before are done."""
        turn, self._turns = self._turns, self._turns + 1
        if self._rank not in ranks:
            return
        if turn > 0:
            self._store.wait([str(turn - 1)])
        yield
        if self._rank == ranks[0]:
            self._store.set(str(turn), b"done")

    def _measure_pair(self, first: int, second: int) -> None:
        small = _SMALL_BYTES // 4
        self._point(first, second, "trip", lambda: self._exchange(first, second, small))
        self._point(first, second, "there", lambda: self._send(first, second))
        self._point(first, second, "back", lambda: self._send(second, first))

    def _point(self, first: int, second: int, what: str, work: Callable[[], None]) -> None:
        """The mean time of as many as a round's share of time has room for, by the clock of the first rank."""
        once = self._timed(first, second, work, 1)
        taken = self._seconds.setdefault((first, second), {}).setdefault(what, []) if self._rank == first else []
        latest = taken[-1] if taken else once
        taken.append(self._timed(first, second, work, self._told(first, second, _count_of(latest))))

    def _timed(self, first: int, second: int, work: Callable[[], None], count: int) -> float:
        """Until both are done, which the first hears of from the second."""
        self._exchange(first, second, 1)
        self._finish()
        begin = time.perf_counter()
        for _ in range(count):
            work()
        self._exchange(first, second, 1)
        self._finish()
        return max((time.perf_counter() - begin) / count, _LEAST_SECONDS)

    def _all_reduce_seconds(self, group: dist.ProcessGroup, size: int) -> float:
        """Of the rank that takes longest, the median of the rounds."""
        row = self._out[:size // 4]
        latest, taken = self._reduced_seconds(group, row, 1), []
        for _ in range(_ROUNDS):
            latest = self._reduced_seconds(group, row, _count_of(latest))
            taken.append(latest)
        return statistics.median(taken)

    def _reduced_seconds(self, group: dist.ProcessGroup, row: torch.Tensor, count: int) -> float:
        dist.all_reduce(row, group=group)
        self._finish()
        begin = time.perf_counter()
        for _ in range(count):
            dist.all_reduce(row, group=group)
        self._finish()
        longest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64, device=self._device)
        dist.all_reduce(longest, dist.ReduceOp.MAX, group=group)
        return max(longest.item() / count, _LEAST_SECONDS)

    def _exchange(self, first: int, second: int, elements: int) -> None:
        """A message from the first to the second, and one as long back."""
        if self._rank == first:
            dist.send(self._out[:elements], second)
            dist.recv(self._in[:elements], second)
        else:
            dist.recv(self._in[:elements], first)
            dist.send(self._out[:elements], first)

    def _send(self, source: int, target: int) -> None:
        if self._rank == source:
            dist.send(self._out, target)
        else:
            dist.recv(self._in, source)

    def _told(self, first: int, second: int, count: int) -> int:
        """What the first rank says."""
        box = torch.tensor([count], device=self._device)
        if self._rank == first:
            dist.send(box, second)
        else:
            dist.recv(box, first)
        return int(box.item())

    def _finish(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _count_of(seconds: float) -> int:
    return min(max(round(_POINT_SECONDS / _ROUNDS / seconds), 1), _MOST_COUNT)
