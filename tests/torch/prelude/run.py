"""Tests of what emitted PyTorch programs are made of: one process group of 4 ranks runs all cases, each of which
compares with PyTorch in one process, in float64. Usage: run.py [--device cuda] [WORD], which runs the cases whose names have the word;
with --device cuda all ranks compute on one GPU, and gloo carries what they send.
"""
import argparse
import datetime
import importlib
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "backends" / "torch")]

RANKS = 4
FILES = ["layout_cases", "move_cases", "parameter_cases", "together_cases", "setting_cases", "state_cases", "op_cases", "loss_cases", "random_cases", "again_cases",
         "expert_cases"]


def compute_on_one_gpu(mesh):
    """Lets the ranks of a gloo group compute on the GPU that they share, and makes its tensors the default."""
    import torch

    torch.cuda.set_device(0)
    torch.cuda.init()
    torch.set_default_device("cuda")
    mesh.device.__code__ = (lambda: torch.device("cuda", 0)).__code__  # for all who imported it


def run_rank(rank, rendezvous, word, device="cpu"):
    import torch
    import torch.distributed as dist

    import definitions

    definitions.sharding()
    from cases import CASES, PROBLEMS
    from prelude import mesh

    if device == "cuda":
        compute_on_one_gpu(mesh)
    torch.set_num_threads(1)
    warnings.simplefilter("error", FutureWarning)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=40))
    for name in FILES:
        importlib.import_module(name)
    failed = run = 0
    for name, axes, body in CASES:
        if word not in name:
            continue
        mesh.AXES = axes
        mesh.start()
        torch.manual_seed(7)
        PROBLEMS.clear()
        try:
            body()
        except Exception:  # told with the case's name, by rank 0
            PROBLEMS.append(traceback.format_exc())
        problem = PROBLEMS[0] if PROBLEMS else None
        problems = [None] * RANKS
        dist.all_gather_object(problems, problem)
        told = [(at, text) for at, text in enumerate(problems) if text]
        run += 1
        failed += bool(told)
        if rank == 0:
            print(("FAILED " if told else "ok     ") + f"{name} on {'x'.join(map(str, axes))}", flush=True)
            for at, text in told[:1]:
                print(f"rank {at}: {text}", flush=True)
    if rank == 0:
        print(f"{run - failed} of {run} cases hold")
    dist.destroy_process_group()
    sys.exit(1 if failed or run == 0 else 0)


def main():
    import torch.multiprocessing as mp

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("spawn")
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
        parser.add_argument("word", nargs="?", default="")
        options = parser.parse_args()
        ranks = [context.Process(target=run_rank, args=(rank, f"{folder}/meeting", options.word, options.device)) for rank in range(RANKS)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        sys.exit(max(abs(rank.exitcode) for rank in ranks))


if __name__ == "__main__":
    main()
