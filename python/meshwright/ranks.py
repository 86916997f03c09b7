"""The ranks of this run: who they are, how they agree, and how they end together."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import socket
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # sooner or later PyTorch does; see _free_of_group

from meshwright.errors import Error
from meshwright.saying import say
from meshwright.watch import Watch

# The oldest PyTorch that the emitted programs were run with.
OLDEST_TORCH = (2, 15)

# Between two looks at whether rank 0 has an answer.
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 0.5

_watch: Watch | None = None
_waits = itertools.count()  # alike on all ranks


@dataclass(frozen=True)
class Host:
    """What one rank says of the machine that it runs on."""

    name: str
    device: str           # "cpu", or the name that CUDA gives the GPU
    memory_bytes: int     # of the device, or this rank's share of the host's


def start() -> None:
    """Join the process group, or make it; watch the other ranks. Without torchrun, one rank."""
    global _watch
    check_torch()
    _free_of_group(torch.distributed.nn.functional)
    try:
        if not dist.is_initialized():
            _initialize()
        if _watch is None:
            atexit.register(_leave_group)
        if _watch is None and dist.get_world_size() > 1:
            _watch = Watch.start(dist.get_rank(), dist.get_world_size(), _from_rank_0)
    except RuntimeError as error:
        if int(os.environ.get("RANK", "0")) == 0:
            say(f"error: the ranks could not meet, because one of them is gone or can't be reached: {summary(error)}")
        os._exit(1)  # PyTorch's threads, left in a collective, may abort a process that ends in order


def _free_of_group(module: types.ModuleType) -> None:
    """Lets go of the group that a module's functions have as a default, which is that of the moment at which it is imported: it
    would keep its threads beyond the group's end, and those may abort a process that Python has left. Without a default they
    take the group of the moment at which they are called.
    """
    for function in vars(module).values():
        if isinstance(function, types.FunctionType) and function.__defaults__ is not None:
            function.__defaults__ = tuple(None if isinstance(value, dist.ProcessGroup) else value for value in function.__defaults__)


def check_torch() -> None:
    """Refuse a PyTorch that is too old; every rank of a run has the same."""
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < OLDEST_TORCH:
        wanted = ".".join(map(str, OLDEST_TORCH))
        fail(f"PyTorch {torch.__version__} is too old: sharded models need {wanted} or newer; install it with: pip "
             f"install 'torch>={wanted}'")


def fail(message: str, code: int = 2) -> None:
    """End this rank, as all others do at the same place; rank 0 says why."""
    if int(os.environ.get("RANK", "0")) == 0:
        say(f"error: {message}")
    raise Error(message, code)


def _leave_group() -> None:
    """Ends PyTorch's threads: those that are left may abort the process at its end, and its exit code is lost.

    Not NCCL's of a rank that failed, which may wait for ranks that are gone.
    """
    failed = _watch is not None and _watch.failed
    if dist.is_initialized() and not (failed and dist.get_backend() == "nccl"):
        dist.destroy_process_group()


def _initialize() -> None:
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if "RANK" not in os.environ:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        return
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if backend == "nccl":
        gpus = torch.cuda.device_count()
        if here > gpus:
            fail(f"{here} ranks were started on a host with {gpus} GPU{'s' * (gpus > 1)}, and each needs one of its own; start "
                 f"torchrun with --nproc-per-node {gpus}")
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(backend)


def _wait_for_rank_0() -> None:
    """Returns when rank 0 has come here too. A collective would end with the group's timeout, while an export may take
    longer than that; and that rank 0 is gone is seen by the watch.
    """
    store = dist.distributed_c10d._get_default_store()
    key = f"meshwright/rank_0_is_here/{next(_waits)}"
    if dist.get_rank() == 0:
        store.set(key, b"1")
        return
    pause = _SHORTEST_PAUSE_SECONDS
    while not store.check([key]):
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _from_rank_0(value: Any) -> Any:
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def agree(work: Callable[[], Any]) -> Any:
    """What ``work`` gives on rank 0, on every rank, however long it takes there. Where it fails there, every rank raises
    the same Error.
    """
    outcome = None
    if dist.get_rank() == 0:
        try:
            outcome = ("done", work())
        except Error as error:
            outcome = ("failed", error.message, error.code)
        except OSError as error:  # a file that the caller named, or a disk that is full
            logging.getLogger("meshwright").debug("rank 0 can't go on", exc_info=True)
            outcome = ("failed", f"{error.filename}: {error.strerror}" if error.filename else summary(error), 2)
        except Exception as error:  # the other ranks wait for an answer, whatever it is
            logging.getLogger("meshwright").debug("rank 0 can't go on", exc_info=True)
            outcome = ("failed", f"our own fault, please report it: {summary(error)}", 1)
    _wait_for_rank_0()
    outcome = _from_rank_0(outcome)
    if outcome[0] == "failed":
        fail(*outcome[1:])
    return outcome[1]


def refuse_together(message: str | None) -> None:
    """End all ranks if any of them has something to refuse; the lowest rank's sentence is told."""
    messages = all_gathered(message)
    for text in messages:
        if text is not None:
            fail(text)


def all_gathered(value: Any) -> list[Any]:
    """The values of all ranks, in their order."""
    if dist.get_world_size() == 1:
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def summary(error: BaseException) -> str:
    """The first line of an exception, with its kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def device() -> torch.device:
    """Where this rank computes."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def this_host() -> Host:
    """What this rank knows of its machine."""
    name = socket.gethostname()
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        return Host(name, device.name, device.total_memory)
    return Host(name, "cpu", _host_memory_bytes() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _host_memory_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = next(int(line.split()[1]) for line in file if line.startswith("MemTotal:"))
    total = kib * 1024
    try:  # a container may be given less
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = file.read().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total
