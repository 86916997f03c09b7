"""Ranks that are forks of one process, which imports PyTorch once. run.py starts such a process and asks for one run after the other, a line
of JSON each; each rank has the environment that torchrun gives.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import torch

torch.export.export(torch.nn.ReLU(), (torch.ones(1),))  # loads what all exports need, once for all ranks

GRACE_SECONDS = 60  # that ranks have when another one has failed


def waited(ranks: list[int], seconds: float) -> list[int | None]:
    """Exit codes, a signal as a negative one; None for a rank that hangs, which is ended."""
    codes: dict[int, int | None] = {}
    deadline = time.monotonic() + seconds
    while len(codes) < len(ranks):
        late = time.monotonic() > deadline
        for rank in ranks:
            if rank in codes:
                continue
            if late:
                os.kill(rank, signal.SIGKILL)
            ended, status = os.waitpid(rank, 0 if late else os.WNOHANG)
            if ended:
                codes[rank] = None if late else os.waitstatus_to_exitcode(status)
                if codes[rank] != 0:
                    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        time.sleep(0.02)
    return [codes[rank] for rank in ranks]


def next_rank() -> dict | None:
    """Returns in each rank, with what it is asked; in the process that makes them when nothing is asked any more."""
    for line in sys.stdin:
        asked = json.loads(line)
        ranks = []
        for rank, said in enumerate(asked["said"]):
            forked = os.fork()
            if forked == 0:
                os.environ.update(asked["variables"], RANK=str(rank), LOCAL_RANK=str(rank))
                file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, 1)
                os.dup2(file, 2)
                return asked
            ranks.append(forked)
        print(json.dumps(waited(ranks, asked["seconds"])), flush=True)
    return None
