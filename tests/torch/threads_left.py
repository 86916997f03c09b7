"""For ranks of tests: which of PyTorch's threads outlive a program (docs/decisions/024-ranks-that-hang-fail.md)."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def tell_of_threads() -> None:
    """Says which of PyTorch's threads are left, where they may abort the process: to be registered before what ends them."""
    names = {Path(f"/proc/self/task/{thread}/comm").read_text().strip() for thread in os.listdir("/proc/self/task")}
    left = sorted(name for name in names if "gloo" in name)
    if left:
        print(f"threads are left: {', '.join(left)}", file=sys.stderr)
