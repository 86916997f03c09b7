"""Ranks of runs that fail (forked.py). What rank 0 has to say of each case stands in run.py."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from bad_input import BAD_INPUT  # noqa: E402
from forked import next_rank  # noqa: E402
from models import Branching, OtherActivation, Wider, WithLoss, letters, seeded  # noqa: E402
from threads_left import tell_of_threads  # noqa: E402

import meshwright.ranks  # noqa: E402

INPUTS = (letters(1), letters(2))


def steps(model: torch.nn.Module, at_step_2) -> None:
    """Trains for ever, or until something happens in rank 2."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = model.local_batch(INPUTS)
    for step in range(10**9):
        if step == 2 and dist.get_rank() == 2:
            at_step_2()
        optimizer.zero_grad()
        model(*inputs).loss.backward()
        optimizer.step()


def killed_when_all_have_joined() -> None:
    """Rank 2 dies when no rank is in PyTorch's own start of the group any more, where it would wait half an hour for one that is gone."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"joined/{dist.get_rank()}", b"1")
    if dist.get_rank() == 2:
        store.wait([f"joined/{rank}" for rank in range(dist.get_world_size())])
        store.set("leaving", b"1")
        os.kill(os.getpid(), signal.SIGKILL)
    if dist.get_rank() == 0:  # it holds the store, and ends with the first collective
        store.wait(["leaving"])


def fail() -> None:
    raise KeyError("no such letter")


def main(case: str, folder: str) -> None:
    atexit.register(tell_of_threads)  # before the package's, and so called after it
    if case == "make_plan":
        meshwright.autoparallelize(seeded(WithLoss), INPUTS, folder=folder)
    elif case in ("other_world_size", "model_changed", "op_changed"):
        kind = {"model_changed": Wider, "op_changed": OtherActivation}.get(case, WithLoss)
        meshwright.autoparallelize(seeded(kind), INPUTS, plan=f"{folder}/plan.json")
    elif case == "batch_changed":
        meshwright.autoparallelize(seeded(WithLoss), (letters(1, 16), letters(2, 16)), plan=f"{folder}/plan.json")
    elif case == "old_torch":
        torch.__version__ = "2.4.1"
        meshwright.autoparallelize(seeded(WithLoss), INPUTS)
    elif case == "no_fit":
        meshwright.autoparallelize(seeded(WithLoss), INPUTS, memory_budget=5000)
    elif case == "wrong_mesh":
        meshwright.autoparallelize(seeded(WithLoss), INPUTS, mesh=(2, 4))
    elif case == "unknown_key":
        meshwright.autoparallelize(seeded(WithLoss), INPUTS, config={"search.zerro": 3})
    elif case == "other_cluster":
        meshwright.autoparallelize(seeded(WithLoss), INPUTS, cluster=f"{os.environ['CONFIGS']}/clusters/h100x8.toml")
    elif case == "no_export":
        meshwright.autoparallelize(seeded(Branching), INPUTS[:1])
    elif case == "microbatches":
        meshwright.autoparallelize(seeded(WithLoss), INPUTS, config={"train.microbatches": 2})
    elif case == "killed":
        steps(meshwright.autoparallelize(seeded(WithLoss), INPUTS), lambda: os.kill(os.getpid(), signal.SIGKILL))
    elif case == "raised":
        steps(meshwright.autoparallelize(seeded(WithLoss), INPUTS), fail)
    elif case == "killed_before":
        dist.init_process_group("gloo")
        killed_when_all_have_joined()
        meshwright.autoparallelize(seeded(WithLoss), INPUTS)
    elif case == "killed_while_planning":
        if os.environ["RANK"] == "2":
            meshwright.ranks.this_host = lambda: os.kill(os.getpid(), signal.SIGKILL)
        meshwright.autoparallelize(seeded(WithLoss), INPUTS)
    elif case == "no_module":
        meshwright.autoparallelize(lambda letters: letters, INPUTS)
    elif case == "other_inputs_on_a_rank":
        dist.init_process_group("gloo")
        meshwright.autoparallelize(seeded(WithLoss), INPUTS if dist.get_rank() == 0 else {"letter": INPUTS[0]})
    elif case in BAD_INPUT:
        args, kwargs, _ = BAD_INPUT[case]
        meshwright.autoparallelize(seeded(WithLoss), *args, **kwargs)
    else:
        raise SystemExit(f"no case {case}")


asked = next_rank()
if asked is not None:
    main(asked["case"], asked["folder"])
