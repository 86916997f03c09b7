"""The model's own ``torch.autograd.Function`` classes: a trace would see their forward and lose their backward.

While a model is exported, a call of such a class becomes one op, ``meshwright_function::call``, which no planner looks
into: it runs replicated, and its gradient is the class's own. One that is element-wise becomes ``pointwise``, which runs
on shards. What is called stands in ``Traced.functions``; every rank
gets it, and puts it into the emitted program's ``FUNCTIONS``.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils import _pytree as pytree

from meshwright.errors import Error
from meshwright.pointwise import is_pointwise

_NAMESPACE = "meshwright_function"
_TENSOR = "tensor"  # what stands for a tensor in a FunctionCall


@dataclass(frozen=True)
class FunctionCall:
    """A class, and what it is called with besides tensors."""

    kind: type
    leaves: tuple[Any, ...]  # of the arguments; (_TENSOR, i) is tensor i
    spec: Any                # the pytree of the arguments

    def __call__(self, *tensors: torch.Tensor) -> Any:
        return self.kind.apply(*self.arguments(tensors))

    def arguments(self, tensors: Any) -> tuple[Any, ...]:
        leaves = [tensors[leaf[1]] if isinstance(leaf, tuple) and leaf[:1] == (_TENSOR,) else leaf for leaf in self.leaves]
        return tuple(pytree.tree_unflatten(leaves, self.spec))


class _Context:
    """What the forward of a Function finds in place of its context while it is traced."""

    def __init__(self, tensors: int):
        self.needs_input_grad = (True,) * tensors
        self.saved_tensors = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *_: Any) -> None:
        raise Error("an autograd function that changes its arguments (mark_dirty) can't be planned; let it return new tensors")

    def mark_non_differentiable(self, *_: Any) -> None:
        pass

    set_materialize_grads = mark_non_differentiable


class Functions:
    """The calls that were met in one export, by name; equal calls have one name."""

    def __init__(self) -> None:
        self.calls: dict[str, FunctionCall] = {}
        self._names: dict[Any, str] = {}
        self._forwards: dict[type, Any] = {}
        self._pointwise: dict[Any, bool] = {}
        self._saved: dict[type, Any] = {}

    @contextlib.contextmanager
    def captured(self) -> Iterator[None]:
        """While it lasts, calls become ops. Raises Error for a class that is made meanwhile: it was not seen."""
        global _current
        _operator()
        kinds = set(_own_kinds(torch.autograd.Function))
        checkpoint = torch.utils.checkpoint.CheckpointFunction
        saved = {kind: kind.__dict__["forward"] for kind in kinds if "forward" in kind.__dict__}
        self._forwards = {kind: kind.forward for kind in kinds}
        self._saved = saved
        outer, _current = _current, self
        reentrant = checkpoint.__dict__["forward"]
        # A recomputed block that is traced is the block.
        checkpoint.forward = staticmethod(lambda ctx, function, preserve, *args: function(*args))
        try:
            for kind in saved:
                kind.forward = staticmethod(self._forward_of(kind))
            yield
        finally:
            checkpoint.forward = reentrant
            for kind, forward in saved.items():
                kind.forward = forward
            _current = outer
        if made := [kind for kind in _own_kinds(torch.autograd.Function) if kind not in kinds]:
            raise Error(f"the model makes the class {made[0].__qualname__} (an autograd function) while its forward runs; define it "
                        "outside of forward, so that its backward can be kept")

    def check_sendable(self) -> None:
        """Raises Error where a call can't be sent to other ranks."""
        for call in self.calls.values():
            try:
                pickle.dumps(call)
            except Exception as error:
                raise Error(f"the autograd function {call.kind.__qualname__} can't be sent to the other ranks ({error}); define it at "
                            "the top of a module, and call it with tensors and plain values") from error

    def _forward_of(self, kind: type) -> Any:
        separate = kind.setup_context is not torch.autograd.Function.setup_context

        def forward(*given: Any) -> Any:
            arguments = given if separate else given[1:]
            leaves, spec = pytree.tree_flatten(list(arguments))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            numbers = iter(range(len(tensors)))
            template = tuple((_TENSOR, next(numbers)) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
            name = self._name_of(FunctionCall(kind, template, spec))
            results = torch.ops.meshwright_function.call(name, tensors)
            return results[0] if len(results) == 1 else tuple(results)

        return forward

    def _name_of(self, call: FunctionCall) -> str:
        key = (call.kind, repr(call.leaves), repr(call.spec))
        if key not in self._names:
            self._names[key] = f"{call.kind.__qualname__.rpartition('.')[2]}_{len(self._names)}"
            self.calls[self._names[key]] = call
        return self._names[key]

    @contextlib.contextmanager
    def _as_written(self) -> Iterator[None]:
        """While it lasts, calls that were captured are calls again."""
        captured = {kind: kind.__dict__["forward"] for kind in self._saved}
        for kind, forward in self._saved.items():
            kind.forward = forward
        try:
            yield
        finally:
            for kind, forward in captured.items():
                kind.forward = forward

    def is_pointwise(self, name: str, given: list[torch.Tensor], made: list[torch.Tensor]) -> bool:
        key = (name, *((one.shape, one.dtype) for one in (*given, *made)))
        if key not in self._pointwise:
            with self._as_written():
                self._pointwise[key] = is_pointwise(self.calls[name], given, made)
        return self._pointwise[key]

    def results(self, name: str, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """What a call gives, by the class's forward alone."""
        call = self.calls[name]
        arguments = call.arguments(tensors)
        separate = call.kind.setup_context is not torch.autograd.Function.setup_context
        forward = self._forwards[call.kind]
        made = forward(*arguments) if separate else forward(_Context(len(arguments)), *arguments)
        made = made if isinstance(made, tuple) else (made,)
        if not all(isinstance(one, torch.Tensor) for one in made):
            raise Error(f"the autograd function {call.kind.__qualname__} returns something besides tensors, which can't be planned")
        return [one.clone() for one in made]


_current: Functions | None = None


def name_pointwise(program: torch.export.ExportedProgram) -> None:
    """Give captured calls that are element-wise the op that says so."""
    if _current is None:
        return
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.meshwright_function.call.default):
        name, tensors = node.args
        if _current.is_pointwise(name, [one.meta["val"] for one in tensors], list(node.meta["val"])):
            node.target = torch.ops.meshwright_function.pointwise.default
    program.graph_module.recompile()


def _own_kinds(base: type) -> Iterator[type]:
    """All classes below ``base`` that are not PyTorch's."""
    for kind in base.__subclasses__():
        if not kind.__module__.startswith("torch."):
            yield kind
        yield from _own_kinds(kind)


_library: torch.library.Library | None = None


def _operator() -> None:
    """Make the op known to PyTorch, once."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library(_NAMESPACE, "DEF")
    for op in ("call", "pointwise"):
        _library.define(f"{op}(str name, Tensor[] tensors) -> Tensor[]")

    def call(name: str, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if _current is None:
            raise RuntimeError("meshwright_function::call is for exports alone")
        return _current.results(name, tensors)

    for op in ("call", "pointwise"):
        _library.impl(op, call, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{_NAMESPACE}::{op}", call, lib=_library)
