"""What a trace runs once and then never again: hooks, and Python values that a forward changes.

A trace keeps what a hook returns, and what a forward computes of a module's Python values as they are then. What else they
do would not happen any more, without a word: so it is refused here, where it can be seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from meshwright.errors import Error

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@contextlib.contextmanager
def refused(model: torch.nn.Module) -> Iterator[None]:
    """Around a trace. Raises Error for hooks on gradients of modules and of tensors inside of forward, and for hooks that
    return nothing: they only look on."""
    for path, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise Error(f"{_called(path)} has a hook on its gradients (register_full_backward_hook), which a traced program does not "
                        "have; remove it, or use a hook on a parameter")
    silent: set[str] = set()
    saved = []
    for path, module in model.named_modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for key, hook in hooks.items():
                if not type(hook).__module__.startswith("torch.nn.utils."):  # weight_norm's sets the weight that is computed with
                    saved.append((hooks, key, hook))
                    hooks[key] = _watched(hook, path, silent)
    register = torch.Tensor.register_hook
    torch.Tensor.register_hook = _refuse_tensor_hook
    try:
        yield
    finally:
        torch.Tensor.register_hook = register
        for hooks, key, hook in saved:
            hooks[key] = hook
    if silent:
        raise Error(f"{_called(min(silent))} has a forward hook that returns nothing: it only looks on, and a traced program would not "
                    "call it; remove it, or let it return what is computed with")


def _watched(hook: Callable[..., Any], path: str, silent: set[str]) -> Callable[..., Any]:
    def watched(*args: Any, **kwargs: Any) -> Any:
        result = hook(*args, **kwargs)
        if result is None:
            silent.add(path)
        return result

    return watched


def _refuse_tensor_hook(tensor: torch.Tensor, hook: Any) -> None:
    raise Error("the model's forward puts a hook on a tensor (register_hook), which a traced program does not have; use a "
                "torch.autograd.Function whose backward does what the hook does")


def _called(path: str) -> str:
    return f"module '{path}'" if path else "the model"


class State:
    """The plain Python values of a model's modules, to see whether each forward changes them."""

    def __init__(self, model: torch.nn.Module):
        self._model = model
        self._before = _values(model)
        self._first: dict[tuple[str, str], Any] | None = None

    def changed(self) -> bool:
        """Whether the forward since the last look changed any; of the first such look, what it changed is kept."""
        after = _values(self._model)
        changes = {place: (self._before.get(place), value) for place, value in after.items()
                   if place in self._before and self._before[place] != value}
        self._before = after
        if self._first is None:
            self._first = changes
        else:  # what every forward changes; a cache is filled once
            self._first = {place: change for place, change in changes.items() if place in self._first}
        return bool(self._first)

    def refuse(self) -> None:
        """Raises Error for what every look found changed."""
        for (path, name), (before, after) in sorted((self._first or {}).items()):
            where = f"{path}.{name}" if path else name
            raise Error(f"the model's forward changes the Python value '{where}' each time (from {before!r} to {after!r}), and a traced "
                        "program would compute with one value for ever; keep it in a buffer, as a tensor")


def _values(model: torch.nn.Module) -> dict[tuple[str, str], Any]:
    return {(path, name): value for path, module in model.named_modules() for name, value in vars(module).items()
            if isinstance(value, _PLAIN) and name != "training"}
