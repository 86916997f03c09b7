"""What rank 0 says while a model is planned, and when its first step is done: on standard error, a line each."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from meshwright.saying import say


class Progress:
    """Tells which phase of the work begins, and how many seconds it took.

    Silent on other ranks than 0, and where the caller of autoparallelize asked for that (``verbose=False``).
    """

    def __init__(self, verbose: bool):
        self._speaks = verbose and int(os.environ.get("RANK", "0")) == 0

    @contextlib.contextmanager
    def phase(self, begins: str, done: str) -> Iterator[None]:
        """Says ``begins`` ("exporting the model") before the work, ``done`` ("exported") after it unless that failed."""
        self.say(begins)
        start = time.perf_counter()
        yield
        self.say(f"{done} in {seconds_text(time.perf_counter() - start)}")

    def say(self, line: str) -> None:
        if self._speaks:
            say(line)


def seconds_text(seconds: float) -> str:
    """Three digits, in seconds, milliseconds or microseconds."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    raise AssertionError("unreachable")


def bytes_text(count: float) -> str:
    """In the largest binary unit that it fills."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"
