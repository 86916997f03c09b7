"""Ranks that are forks of one process, which imports PyTorch once; each has the environment that torchrun gives."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable

GRACE_SECONDS = 60  # that ranks have when another one has failed


def free_port() -> int:
    """One below those that the system gives to whoever asks for any, which another test's ranks might get before ours listen."""
    with socket.socket() as one:
        while True:
            try:
                one.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
                return one.getsockname()[1]
            except OSError:
                pass


def variables_of(count: int) -> dict[str, str]:
    """What all of so many ranks have in their environment."""
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}


def forked(variables: dict[str, str], count: int) -> tuple[int | None, list[int]]:
    """In each of so many forks its rank; in the process that makes them None, and their processes by rank."""
    ranks: list[int] = []
    for rank in range(count):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            os.environ.update(variables, RANK=str(rank), LOCAL_RANK=str(rank))
            return rank, []
    return None, ranks


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


def on_ranks(count: int, work: Callable[[], int], seconds: float) -> int:
    """Whether any of so many ranks failed, whose exit codes are what their work gives; what hangs is ended, and has failed."""
    sys.stdout.flush()
    rank, ranks = forked(variables_of(count), count)
    if rank is not None:
        sys.exit(work())
    codes = waited(ranks, seconds)
    failed = codes != [0] * count
    if failed:
        print(f"FAILED: exit codes of the ranks (None: did not end in {seconds} s): {codes}", flush=True)
    return int(failed)


def next_rank() -> dict | None:
    """For a program that is asked for one run after the other, a line of JSON each (package/run.py): returns in each rank, with what it is
    asked; in the process that makes them when nothing is asked any more."""
    import torch

    torch.export.export(torch.nn.ReLU(), (torch.ones(1),))  # loads what all exports need, once for all ranks
    for line in sys.stdin:
        asked = json.loads(line)
        rank, ranks = forked(asked["variables"], len(asked["said"]))
        if rank is not None:
            file = os.open(asked["said"][rank], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            return asked
        print(json.dumps(waited(ranks, asked["seconds"])), flush=True)
    return None
