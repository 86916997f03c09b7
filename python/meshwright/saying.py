"""How this package speaks: a line on standard error."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """In one write, so that a line which another thread or rank writes at that moment is not in the middle of this one."""
    sys.stderr.write(f"meshwright: {line}\n")
    sys.stderr.flush()
