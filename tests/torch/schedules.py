#!/usr/bin/env python3
"""Pipeline schedules against those of torch.distributed.pipelining: what PyTorch's orders take and hold where a forward, an input
gradient and a weight gradient are one unit each and a whole backward two, next to what `meshwright schedule` says.

    tests/torch/schedules.py --program build/bin/meshwright

Ours must take as long, and hold as much on each stage or, where HOLDS_LESS says why, no more. PyTorch's order, written as it writes its CSV
files, must be read by from_csv with the same figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from torch.distributed.pipelining import schedules as torch_schedules

SHAPES = [(1, 4), (2, 2), (2, 8), (3, 5), (3, 7), (4, 2), (4, 4), (4, 6), (4, 8), (4, 16), (8, 8), (8, 16), (8, 24)]  # stages, microbatches
PAIRS = [("gpipe", "ScheduleGPipe", 1), ("one_f_one_b", "Schedule1F1B", 1), ("looped_bfs", "ScheduleLoopedBFS", 1), ("looped_bfs", "ScheduleLoopedBFS", 3),
         ("interleaved", "ScheduleInterleaved1F1B", 1), ("interleaved", "ScheduleInterleaved1F1B", 2), ("interleaved", "ScheduleInterleaved1F1B", 4),
         ("zb_h1", "ScheduleInterleavedZeroBubble", 1), ("zb_h1", "ScheduleInterleavedZeroBubble", 2), ("zb_h1", "ScheduleInterleavedZeroBubble", 3),
         ("zb_v", "ScheduleZBVZeroBubble", 2), ("dualpipe_v", "ScheduleDualPipeV", 2)]
UNITS = {"F": 1, "B": 2, "I": 1, "W": 1}
# With one chunk ours is 1F1B, which begins with p - 1 - s forwards; PyTorch's begins with twice as many.
HOLDS_LESS = {("interleaved", 1)}

Event = tuple[int, str, int]  # position, kind, microbatch


def pytorchs_cells(name: str, stages: int, chunks: int, microbatches: int) -> list[list]:
    """What PyTorch has in `pipeline_order`, a list for each rank. Nothing is run: stages are the numbers that a schedule asks of them."""
    cls = getattr(torch_schedules, name)
    if issubclass(cls, torch_schedules.PipelineScheduleSingle):
        schedule = cls.__new__(cls)
        schedule._num_stages, schedule._n_microbatches = stages, microbatches
        order = schedule._get_pipeline_order()
    else:
        count = stages * chunks
        local = [SimpleNamespace(num_stages=count, group_size=stages, group_rank=0, stage_index=chunk * stages, is_first=chunk == 0,
                                 is_last=chunk * stages == count - 1, submod=None, has_backward=True) for chunk in range(chunks)]
        order = cls(local, microbatches, loss_fn=lambda *_: None).pipeline_order
    return [order[rank] for rank in range(stages)]


def events_of(name: str, cells: list, microbatches: int) -> list[Event]:
    events = [(event.stage_index, event.computation_type.value, event.microbatch_index) for cell in cells if cell is not None
              for event in (cell.sub_actions or (cell,)) if event.computation_type.value in UNITS]
    if name != "Schedule1F1B":
        return events
    # The order that it prints counts the last rank's forwards from 1, and those of few microbatches on; what it runs does not.
    counts = {"F": 0, "B": 0}
    renumbered = []
    for position, kind, _ in events:
        renumbered.append((position, kind, counts[kind]))
        counts[kind] += 1
    return [event for event in renumbered if event[2] < microbatches]


def figures_of(order: list[list[Event]], positions: int) -> tuple[int, list[int]]:
    """The makespan and, by stage, the forwards whose backward (or weight gradient) has not ended, at most."""
    ends: dict[tuple[int, str, int], int] = {}
    times, places = [0] * len(order), [0] * len(order)
    moved = True
    while moved:
        moved = False
        for stage, events in enumerate(order):
            while places[stage] < len(events):
                position, kind, microbatch = events[places[stage]]
                direction = "F" if kind == "F" else "B"
                before = position - 1 if kind == "F" else position + 1
                ready = 0
                if kind != "W" and 0 <= before < positions:
                    if (before, direction, microbatch) not in ends:
                        break
                    ready = ends[before, direction, microbatch]
                times[stage] = max(times[stage], ready) + UNITS[kind]
                if kind != "W":
                    ends[position, direction, microbatch] = times[stage]
                places[stage] += 1
                moved = True
    assert all(place == len(events) for place, events in zip(places, order)), "PyTorch's order waits for ever"
    held = []
    for events in order:
        now, most = 0, 0
        for _, kind, _ in events:
            now += (kind == "F") - (kind in "BW")
            most = max(most, now)
        held.append(most)
    return max(times), held


def ours(program: Path, *arguments: object) -> tuple[int, list[int]]:
    run = subprocess.run([program, "schedule", *map(str, arguments), "--format", "json"], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"schedule {arguments}: {run.stderr}")
    said = json.loads(run.stdout)
    return said["makespan"], said["in_flight"]


def read_back(program: Path, folder: Path, cells: list[list]) -> tuple[int, list[int]]:
    path = folder / "order.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(cells)
    return ours(program, "from_csv", "--file", path)


def is_refused(ident: str, stages: int, microbatches: int) -> bool:
    """By PyTorch: too few microbatches for DualPipeV, groups of microbatches that are not alike for schedules with groups. Ours take any number."""
    if ident == "dualpipe_v":
        return microbatches < 2 * stages
    return ident in ("interleaved", "zb_h1") and microbatches % max(1, microbatches // stages) != 0


def compare(program: Path, folder: Path, pair: tuple[str, str, int], stages: int, microbatches: int) -> list[str]:
    """What is wrong."""
    ident, name, chunks = pair
    where = f"{ident}, {stages} stages, {chunks} chunks, {microbatches} microbatches"
    mine = ours(program, ident, "--stages", stages, "--chunks", chunks, "--microbatches", microbatches)
    try:
        cells = pytorchs_cells(name, stages, chunks, microbatches)
    except ValueError as refused:
        print(f"{where}: makespan {mine[0]}, in flight {max(mine[1])}; PyTorch refuses: {refused}")
        return [] if is_refused(ident, stages, microbatches) else [f"{where}: PyTorch refuses what it should have: {refused}"]
    theirs = figures_of([events_of(name, of_rank, microbatches) for of_rank in cells], stages * chunks)
    print(f"{where}: makespan {mine[0]} and {theirs[0]}, in flight {max(mine[1])} and {max(theirs[1])}")
    wrong = []
    if mine[0] != theirs[0]:
        wrong.append(f"{where}: makespan {mine[0]}, PyTorch's {theirs[0]}")
    if any(one > other for one, other in zip(mine[1], theirs[1])) or (mine[1] != theirs[1] and (ident, chunks) not in HOLDS_LESS):
        wrong.append(f"{where}: in flight {mine[1]}, PyTorch's {theirs[1]}")
    if name != "Schedule1F1B" and read_back(program, folder, cells) != theirs:
        wrong.append(f"{where}: from_csv reads PyTorch's order with other figures than {theirs}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, required=True)
    program = parser.parse_args().program.resolve()
    logging.disable(logging.WARNING)
    wrong, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for pair in PAIRS:
            for stages, microbatches in SHAPES:
                wrong += compare(program, Path(folder), pair, stages, microbatches)
                compared += 1
    for sentence in wrong:
        print(f"WRONG: {sentence}", file=sys.stderr)
    print(f"{compared} schedules compared, {len(wrong)} differences that nobody explains")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
