"""Branches for numbers that overflowed, which models have for float16: ``if not torch.isfinite(x).all(): x = x.clamp(...)``.

A trace can't decide them. What is planned is what finite numbers take; others stay what they are, so that the loss shows them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

_KIND = "_meshwright_kind"  # of a tensor of truth values: which test made it
_SAID = "_meshwright_said"  # of a truth value in a tensor: what it is for finite numbers
_ANSWERS = {("isfinite", "all"): True, ("isinf", "any"): False, ("isnan", "any"): False}


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Around a trace: a test for infinities and NaN, over a whole tensor, finds none where it decides a branch."""
    saved: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, function: Callable[..., Any]) -> None:
        saved.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, function)

    for owner in (torch, torch.Tensor):
        for name in ("isfinite", "isinf", "isnan"):
            put(owner, name, _marking(getattr(owner, name), name))
        for name in ("all", "any"):
            put(owner, name, _answering(getattr(owner, name), name))
    decide = torch.Tensor.__bool__
    put(torch.Tensor, "__bool__", lambda tensor: getattr(tensor, _SAID) if hasattr(tensor, _SAID) else decide(tensor))
    try:
        yield
    finally:
        for owner, name, before in reversed(saved):
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def _marking(test: Callable[..., Any], name: str) -> Callable[..., Any]:
    def marked(*args: Any, **kwargs: Any) -> Any:
        found = test(*args, **kwargs)
        setattr(found, _KIND, name)
        return found

    return marked


def _answering(reduce: Callable[..., Any], name: str) -> Callable[..., Any]:
    def answered(*args: Any, **kwargs: Any) -> Any:
        found = reduce(*args, **kwargs)
        answer = _ANSWERS.get((getattr(args[0], _KIND, ""), name)) if len(args) == 1 and not kwargs else None
        if answer is not None:
            setattr(found, _SAID, answer)
        return found

    return answered
