"""The error that ends a run on all ranks alike."""

from __future__ import annotations


class Error(SystemExit):
    """What keeps a model from being sharded, in one sentence.

    Every rank raises it with the same text and the same exit code, and rank 0
    has printed the text; so it needs no handler. ``code`` is that of the
    ``meshwright`` program: 2 bad input or usage, 3 no plan fits, 4 a plugin
    failed, 1 our own fault.
    """

    def __init__(self, message: str, code: int = 2):
        super().__init__(code)
        self.message = message

    def __str__(self) -> str:
        return self.message
