#!/usr/bin/env python3
"""What nvcc makes of backends/cuda's kernels: a line for each architecture, and one for each kernel that spills.

    bench/gpu/registers.py [--nvcc NVCC] [ARCHITECTURE ...]

Ends with exit code 1 where a kernel spills: its numbers then go over memory that it should not need.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "backends" / "cuda" / "kernels" / "device.cu"


def children_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help="80, 90 and 100 if none is given")
    parser.add_argument("--nvcc", default="nvcc")
    options = parser.parse_args()
    spills = False
    for architecture in options.architectures or ["80", "90", "100"]:
        before = children_seconds()
        told = subprocess.run([options.nvcc, "-std=c++20", "-O3", "-cubin", f"-arch=sm_{architecture}", "-Xptxas", "-v",
                               "-o", "/dev/null", str(KERNELS)], capture_output=True, text=True, check=False)
        if told.returncode != 0:
            sys.exit(f"{options.nvcc} ended with exit code {told.returncode}: {told.stderr.strip()[-500:]}")
        seconds = children_seconds() - before
        # A kernel's own lines stand behind its name; functions that it calls have theirs before its registers.
        kernels = re.findall(r"Compiling entry function '(\w+)'.*?Function properties for \1\n.*?(\d+) bytes spill stores"
                             r".*?Used (\d+) registers", told.stderr, re.DOTALL)
        if not kernels or len(kernels) != told.stderr.count("Compiling entry function"):
            sys.exit("ptxas says something else than it did")
        most, worst = max((int(registers), name) for name, _, registers in kernels)
        spilled = [(name, int(stored)) for name, stored, _ in kernels if int(stored) > 0]
        print(f"sm_{architecture}: {len(kernels)} kernels, {min(int(registers) for _, _, registers in kernels)} to {most} "
              f"registers ({worst}), {len(spilled)} spill, {seconds:.1f} CPU s", flush=True)
        for name, stored in spilled:
            print(f"  {name} spills {stored} bytes")
        spills |= bool(spilled)
    return 1 if spills else 0


if __name__ == "__main__":
    sys.exit(main())
