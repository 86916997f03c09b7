"""What a trace runs once and then never again: hooks, and Python values that a forward changes.

A trace keeps what a hook returns, and what a forward computes of a module's Python values as they are then. What else they
do would not happen any more, without a word: so it is refused here, where it can be seen.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

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
    register, rand = torch.Tensor.register_hook, torch.rand
    torch.Tensor.register_hook = _refuse_tensor_hook
    torch.rand = lambda *size, **named: _Draw(rand) if size in ((), ([],), ((),)) and not named else rand(*size, **named)
    before = _generators()
    try:
        yield
    finally:
        torch.Tensor.register_hook, torch.rand = register, rand
        for hooks, key, hook in saved:
            hooks[key] = hook
    if _generators() != before:
        raise Error("the model's forward draws random numbers with Python's random module or NumPy, and a traced program would compute "
                    "with the same ones for ever; draw them with PyTorch")
    if silent:
        raise Error(f"{_called(min(silent))} has a forward hook that returns nothing: it only looks on, and a traced program would not "
                    "call it; remove it, or let it return what is computed with")


def _generators() -> tuple[Any, ...]:
    """The states of the generators that are not PyTorch's."""
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy is not None else ()
    return (random.getstate(), *(one.tobytes() if hasattr(one, "tobytes") else one for one in state))


class _Draw:
    """A number in [0, 1) that a forward draws to decide what it does, such as which layers it leaves out. It can't be traced
    but where it decides nothing: no number is below 0, and all are below 1.
    """

    def __init__(self, rand: Callable[..., torch.Tensor]):
        self._rand = rand

    def _below(self, limit: Any) -> bool:
        if isinstance(limit, (int, float)) and (limit <= 0 or limit >= 1):
            return limit >= 1
        raise Error(f"the model's forward draws a random number and decides by it, with a probability of {limit}, what it computes (as "
                    "layerdrop does); a traced program computes the same each time: set that probability to 0")

    def __lt__(self, limit: Any) -> bool:
        return self._below(limit)

    __le__ = __lt__

    def __gt__(self, limit: Any) -> bool:
        return not self._below(limit)

    __ge__ = __gt__

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Anything else that is done with it is done with a tensor."""
        args, kwargs = pytree.tree_map(lambda leaf: leaf._rand([]) if isinstance(leaf, cls) else leaf, (args, kwargs or {}))
        return function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rand([]), name)


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
