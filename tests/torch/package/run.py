#!/usr/bin/env python3
"""Tests the Python package on ranks of this machine, with gloo: run.py --program build/bin/meshwright [CASE...]

First cases.py and all *_cases.py, what autoparallelize promises (holding.py); then failing.py, where each case must end every rank with the
same exit code, and soon, after rank 0 has said one sentence. Ranks are started without torchrun, which would end them itself.
Needs PyTorch. Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from bad_input import BAD_INPUT  # noqa: E402  (found through the path above)
from forked import variables_of  # noqa: E402

ROOT = HERE.parents[2]
RANKS = 4
# Until the slowest start of four PyTorch processes on a busy machine is over; a rank that hangs takes all of it.
LIMIT_SECONDS = 240
LIMIT_SECONDS_OF_A_FILE = 1200
KILLED = -9

# By case: how many ranks, the exit code of all, and what rank 0 says after "meshwright: error: ".
FAILURES = {
    "other_world_size": (2, 2, r"PLAN: the plan is for 4 ranks \(a mesh of [x\d]+\), and 2 run; start torchrun with --nproc-per-node 4, or plan "
                               r"again for 2"),
    "model_changed": (RANKS, 2, r"PLAN: the model has changed since the plan was made: parameter 'body\.(up|down)\.\w+' is \[[\d, ]+\], and was "
                                r"\[[\d, ]+\] \(and \d more\); plan it again, without plan="),
    "op_changed": (RANKS, 2, r"PLAN: the model has changed since the plan was made: .*; plan it again, without plan="),
    "batch_changed": (RANKS, 2, r"PLAN: the model has changed since the plan was made: input 'letters' is \[16, 16\], and was \[8, 16\] .*; plan it "
                                r"again, without plan="),
    "old_torch": (2, 2, r"PyTorch 2\.4\.1 is too old: sharded models need 2\.15 or newer; install it with: pip install 'torch>=2\.15'"),
    "no_fit": (2, 3, r"no plan fits into .* per device; mesh .*needs at least .*"),
    "wrong_mesh": (2, 2, r"mesh=\(2, 4\) has 8 ranks, and 2 run; start torchrun with --nproc-per-node 8, or give a mesh of 2"),
    "unknown_key": (2, 2, r"--set search\.zerro=3: unknown key \"zerro\" in \[search\]; did you mean \"zero\"\?"),
    "other_cluster": (2, 2, r"the cluster h100x8 has 8 devices, and 2 ranks run; start torchrun for 8 of them, or describe with cluster= what there is"),
    "no_export": (2, 2, r"torch\.export can't trace the model, so it can't be planned; meshwright\.export\(model, inputs, 'model\.pt2'\) shows "
                            r"where: .+"),
    "microbatches": (2, 2, r"the plan cuts each step into 2 microbatches, and here the training loop is yours: .*"),
    "killed": (RANKS, 1, r"rank 2 ended without a word \(it was killed, or ran out of memory\); all ranks end"),
    "raised": (RANKS, 1, r"rank 2 stopped with KeyError: 'no such letter'; all ranks end"),
    "killed_before": (RANKS, 1, r"the ranks could not meet, because one of them is gone or can't be reached: \w+: .+"),
    "no_module": (2, 2, r"the model is a function, and must be a torch\.nn\.Module"),
    "other_inputs_on_a_rank": (2, 2, r"the sample inputs do not fit the model, .*: missing a required argument: 'letters'.*"),
    **{name: (2, 2, sentence) for name, (_, _, sentence) in BAD_INPUT.items()},
    "killed_while_planning": (RANKS, 1, r"rank 2 ended without a word \(it was killed, or ran out of memory\); all ranks end"),
}


def environment(program: Path) -> dict[str, str]:
    return {**os.environ, "MESHWRIGHT_PROGRAM": str(program), "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1", "CONFIGS": str(ROOT / "configs"),
            "MESHWRIGHT_MEASURE": "0"}  # plans that are the same whatever the machine does; machine.py and links.py test the rest


def links(count: int, folder: str) -> str:
    """The path of what was once measured between so many ranks."""
    path = Path(folder) / f"links_{count}.csv"
    pairs = (f"{a},{b},400e-6,1.2e9\n" for a in range(count) for b in range(a + 1, count))
    path.write_text("a,b,latency_s,bandwidth_Bps\n" + "".join(pairs))
    return str(path)


class Ranks:
    """What makes ranks: holding.py or failing.py, started once (forked.py)."""

    def __init__(self, script: str, variables: dict[str, str], seconds: float):
        self._seconds = seconds
        self._maker = subprocess.Popen([sys.executable, HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)

    def run(self, case: str, count: int, folder: str, cases: list[str] | None = None) -> tuple[list[int | None], list[str]]:
        """Exit codes and what was written to standard output and error, by rank; None for one that hangs."""
        said = [Path(folder) / f"said_{rank}" for rank in range(count)]
        variables = {**variables_of(count), "MESHWRIGHT_LINKS": links(count, folder)}
        asked = {"case": case, "cases": cases or [], "folder": folder, "said": [str(path) for path in said], "variables": variables,
                 "seconds": self._seconds}
        self._maker.stdin.write(json.dumps(asked) + "\n")
        self._maker.stdin.flush()
        return json.loads(self._maker.stdout.readline()), [path.read_text() for path in said]

    def end(self) -> None:
        self._maker.stdin.close()
        self._maker.wait()


def check_failure(case: str, folder: str, ranks: Ranks) -> str | None:
    """What is wrong, if something is."""
    count, code, sentence = FAILURES[case]
    codes, said = ranks.run(case, count, folder)
    wanted = [code] * count
    if case.startswith("killed"):
        wanted[2] = KILLED
    if codes != wanted:
        return f"exit codes {codes}, not {wanted}; ranks said:\n" + "\n".join(said)
    pattern = "meshwright: error: " + sentence.replace("PLAN", re.escape(f"{folder}/plan.json"))
    # Beside what PyTorch warns of and the work that rank 0 tells of.
    lines = [line for line in said[0].splitlines() if not line.startswith("[W") and not re.match("meshwright: (?!error: )", line)]
    if len(lines) != 1 or not re.fullmatch(pattern, lines[0]):
        return f"rank 0 said:\n{said[0]}\nwhich is not one line like: {pattern}"
    for rank, text in enumerate(said[1:], 1):
        if text and not (case == "raised" and rank == 2) and not all(line.startswith("[W") for line in text.splitlines()):
            return f"rank {rank} said:\n{text}"
    print(f"ok    {case}: exit code {code}, {lines[0]}", flush=True)
    return None


def check_cases_that_hold(cases: list[str], variables: dict[str, str]) -> int:
    """How many files have a case that is wrong."""
    ranks = Ranks("holding.py", variables, LIMIT_SECONDS_OF_A_FILE)
    wrong = 0
    for file in sorted(path.stem for path in HERE.glob("*cases.py")):
        with tempfile.TemporaryDirectory() as folder:
            codes, said = ranks.run(file, RANKS, folder, cases)
        if any(code != 0 for code in codes):  # None: one that hung
            wrong += 1
            print(f"FAILED {file}: exit codes {codes}; ranks said:\n" + "\n".join(said), flush=True)
        else:
            print("".join(line for line in said[0].splitlines(keepends=True) if line.startswith("ok ")), end="", flush=True)
    ranks.end()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="the meshwright program")
    parser.add_argument("cases", nargs="*", help="names of cases that hold, and of those that fail; all of them if none is given")
    options = parser.parse_args()
    variables = environment(options.program.resolve())
    failing = [case for case in FAILURES if not options.cases or case in options.cases]
    good = [case for case in options.cases if case not in FAILURES]
    wrong = 0
    if good or not options.cases:
        wrong += check_cases_that_hold(good, variables)
    with tempfile.TemporaryDirectory() as folder:
        if failing:
            ranks = Ranks("failing.py", variables, LIMIT_SECONDS)
            codes, said = ranks.run("make_plan", RANKS, folder)
            if any(code != 0 for code in codes):  # None: one that hung
                print(f"FAILED: no plan: {codes}\n" + "\n".join(said))
                return 1
            if any("threads are left" in text for text in said):
                print("FAILED: threads of PyTorch outlive a run that ended well, and may abort it:\n" + "\n".join(said))
                wrong += 1
        for case in failing:
            problem = check_failure(case, folder, ranks)
            if problem is not None:
                wrong += 1
                print(f"FAILED {case}: {problem}", flush=True)
        if failing:
            ranks.end()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
