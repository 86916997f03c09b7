"""For ranks of tests: which of PyTorch's threads outlive a program (docs/decisions/024-ranks-that-hang-fail.md)."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path


def threads_left() -> list[str]:
    names = {thread.joinpath("comm").read_text().strip() for thread in Path("/proc/self/task").iterdir()}
    return sorted(name for name in names if "gloo" in name)


def tell_of_threads() -> None:
    """Says which of PyTorch's threads are left, where they may abort the process: to be registered before what ends them."""
    if left := threads_left():
        print(f"threads are left: {', '.join(left)}", file=sys.stderr)


def expect_no_threads_at_the_end() -> None:
    """Fail this process if gloo's threads are left when it ends. Call it before what lets go of groups at the end."""
    def check() -> None:
        if left := threads_left():
            print(f"threads are left at the end: {left}", file=sys.stderr, flush=True)
            os._exit(1)
    atexit.register(check)
