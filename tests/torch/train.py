#!/usr/bin/env python3
"""Runs an emitted train.py on ranks of this machine: train.py FOLDER RANKS STEPS. It must end with exit code 0 and have told of
every step, each with a loss that is a number.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys

LIMIT_SECONDS = 240


def problem(exit_code: int, said: str, steps: int) -> str | None:
    """What is wrong with a run, if something is."""
    if exit_code != 0:
        return f"exit code {exit_code}"
    losses = re.findall(r"^step (\d+): loss (\S+)", said, re.MULTILINE)
    if [int(step) for step, _ in losses] != list(range(steps)):
        return f"it told of the steps {[step for step, _ in losses]}, not of {steps}"
    unusable = [text for _, text in losses if not math.isfinite(float(text))]
    return f"the loss is {unusable[0]}" if unusable else None


def main(folder: str, ranks: str, steps: str) -> int:
    run = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, "train.py", "--steps", steps],
                           cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        said, _ = run.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        run.terminate()  # it ends the ranks
        run.communicate()
        print(f"FAILED: the ranks did not end in {LIMIT_SECONDS} s")
        return 1
    print(said, end="")
    wrong = problem(run.returncode, said, int(steps))
    if wrong:
        print(f"FAILED: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
