#!/usr/bin/env python3
"""Trains models of many families, one step on 2 ranks against one device: run.py --program build/bin/meshwright [NAME...]

    --draw N --seed S   of all families, N drawn with this seed
    --need SHARE        fail unless this share of those that run on one device train

Prints a table; exits with 1 if a family trains wrong, or fails without having been refused, or too few train.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_SECONDS = 240  # for one family, before its ranks are ended


def results_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def run(names: list[str], program: Path, results: Path) -> None:
    """All of them, in one group of ranks, and in another one after each family that ended it."""
    environment = {**os.environ, "MESHWRIGHT_PROGRAM": str(program), "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1",
                   "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    left = list(names)
    while left:
        done = len(results_in(results))
        ranks = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", HERE / "train.py",
                                  results, *left], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while ranks.poll() is None:
            before = len(results_in(results))
            try:
                ranks.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                if len(results_in(results)) == before:
                    ranks.terminate()
                    ranks.wait()
        count = len(results_in(results)) - done
        left = left[count:]
        if left:
            with open(results, "a", encoding="utf-8") as file:
                file.write(json.dumps({"name": left[0], "status": "failed", "said": "a rank ended, or hung", "seconds": 0}) + "\n")
            left = left[1:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="the meshwright program")
    parser.add_argument("--draw", type=int, help="how many families to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--need", type=float, default=0.0, help="the share that must train")
    parser.add_argument("--results", type=Path, help="where to keep the lines of JSON")
    parser.add_argument("names", nargs="*", help="beginnings of families' names; all if none is given")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from families import all_families

    names = [family.name for family in all_families() if not options.names or any(family.name.startswith(name) for name in options.names)]
    if options.draw is not None:
        names = random.Random(options.seed).sample(names, min(options.draw, len(names)))
    with tempfile.TemporaryDirectory() as folder:
        path = options.results or Path(folder) / "results.jsonl"
        path.unlink(missing_ok=True)
        run(names, options.program.resolve(), path)
        results = results_in(path)
    counts = collections.Counter(result["status"] for result in results)
    for result in sorted(results, key=lambda one: (one["status"], one["name"])):
        error = f"{result['error']:8.1e}" if "error" in result else " " * 8
        print(f"{result['status']:8} {result['name']:55} {error} {result['seconds']:6.1f} s  {result['said'][:200]}")
    tried = len(results) - counts["skipped"]
    print(f"{counts['trains']} of {tried} train; {counts['refused']} refused, {counts['wrong']} wrong, {counts['failed']} failed; "
          f"{counts['skipped']} do not run on one device here")
    bad = counts["wrong"] + counts["failed"] > 0 or tried == 0
    return 1 if bad or counts["trains"] < options.need * tried else 0


if __name__ == "__main__":
    sys.exit(main())
