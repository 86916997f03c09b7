"""A model as the planner reads it, and what is needed to call the sharded one like the original."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import logging
import operator
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from meshwright import frozen, overflow
from meshwright.arguments import Arguments
from meshwright.errors import Error
from meshwright.export import decomposed, write
from meshwright.functions import FunctionCall, Functions
from meshwright.modes import follows, other_mode
from meshwright.ranks import summary

# The inputs through which gradients come in, where the loss is outside of the model; see Traced.
COTANGENTS = "meshwright_cotangents"


@dataclass
class Traced:
    """An exported model without its weights. It is sent to all ranks, so it holds no graph.

    Where the model returns no loss, it is traced with one more output, the sum of its floating-point outputs each times
    a tensor of its shape, a further input. The gradient of that sum with respect to an output is the input that stands
    beside it: so the plan is that of a training step whose loss is elsewhere, and the gradient which comes from there
    is what is put into that input.
    """

    inputs: dict[str, str]              # by the name of the input: the place among the arguments
    outputs: list[Any]                  # of the leaves that the model returns: the output's name, or a Constant
    container: Any                      # the pytree that they are leaves of
    cotangents: dict[str, str] = field(default_factory=dict)  # by the name of an output: its input, if the loss is outside
    cotangent_types: dict[str, torch.dtype] = field(default_factory=dict)  # of these inputs, by name
    either_mode: bool = True            # whether train() and eval() choose as they do in the model; see modes.py
    surrogate: str = ""                 # the name of that sum
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    ops: dict[str, str] = field(default_factory=dict)           # by the name of a node
    shapes: dict[str, list[int]] = field(default_factory=dict)  # of the inputs, by name
    used: set[str] = field(default_factory=set)                 # the names of parameters and buffers that something reads
    wanted: set[str] = field(default_factory=set)               # the names of inputs whose gradient goes back to the caller
    functions: dict[str, FunctionCall] = field(default_factory=dict)  # the model's own autograd functions


@dataclass(frozen=True)
class Constant:
    """A returned leaf that is no tensor."""

    value: Any


def trace(model: torch.nn.Module, args: tuple, kwargs: dict[str, Any], path: Path) -> Traced:
    """Export the model, write it without weights to ``path``, and tell what its inputs and outputs are."""
    functions = Functions()
    with frozen.refused(model), overflow.left_out(), functions.captured():
        traced = _traced(model, args, kwargs, path)
    traced.functions = functions.calls
    functions.check_sendable()
    return traced


def _traced(model: torch.nn.Module, args: tuple, kwargs: dict[str, Any], path: Path) -> Traced:
    flat = _Flat(model, args, kwargs)
    state = frozen.State(model)
    program = flat.exported()
    if state.changed():
        program = flat.exported()
        if state.changed():
            state.refuse()
    losses = _losses(program)
    if losses > 1:
        raise Error(f"the model returns {losses} differentiable scalars, and nothing says which is the loss; let its forward "
                    "return one, their sum if all are meant")
    if losses == 0:
        floating = [value for value in _returned(program) if _is_floating(value)]
        if not floating:
            raise Error("the model returns no floating-point tensor, so there is nothing to train; let its forward return the "
                        "loss, or what a loss is computed of")
        flat.cotangents = [torch.empty(value.shape, dtype=value.dtype, device=_device(model)) for value in floating]
        program = flat.exported()
    program = _decomposed(program)
    traced = _described(model, program, flat)
    traced.either_mode = flat.follows_mode(program)
    _drop_weights(program)
    write(program, path)
    return traced


def _decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    try:
        return decomposed(program)
    except Exception as error:
        logging.getLogger("meshwright").debug("the export can't be decomposed", exc_info=True)
        raise Error("torch.export traces the model, but its run_decompositions({}) fails, so it can't be planned: "
                    f"{summary(error)}") from error


def _with_one_loss(results: Any) -> tuple[list[Any], Any]:
    """The leaves of what a model returned. Of several scalars, one called "loss" is the loss, and the others are only shown."""
    places, spec = pytree.tree_flatten_with_path(results)
    names = [str(getattr(path[-1], "key", getattr(path[-1], "name", ""))) if path else "" for path, _ in places]
    scalar = [_is_floating(leaf) and leaf.dim() == 0 for _, leaf in places]
    named = any(is_scalar and name == "loss" for is_scalar, name in zip(scalar, names))
    shown = [named and is_scalar and name != "loss" for is_scalar, name in zip(scalar, names)]
    return [leaf.detach() if only_shown else leaf for (_, leaf), only_shown in zip(places, shown)], spec


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


class _Flat:
    """A model with its tensors as keyword arguments and its results as a tuple: an export can hold no other containers than
    those that PyTorch knows. ``places`` are those of the tensors among the arguments.
    """

    def __init__(self, model: torch.nn.Module, args: tuple, kwargs: dict[str, Any]):
        arguments = Arguments(model.forward, args, kwargs)
        self.places: list[str] = []
        self.cotangents: list[torch.Tensor] = []
        self.container: Any = None  # what the model returned when it was traced
        self._model, self._forward = model, model.forward
        self._leaves, self._spec = pytree.tree_flatten((args, kwargs))
        self._tensors: dict[str, torch.Tensor] = {}
        self._numbers: dict[str, int] = {}  # by the name of an input, which leaf it is
        device = _device(model)
        for number, (leaf, place) in enumerate(zip(self._leaves, arguments.places)):
            if isinstance(leaf, torch.Tensor):
                name = re.sub(r"\W+", "_", place).strip("_")
                while name in self._tensors or name == "self":
                    name += "_"
                # A copy, because one tensor given twice would be one input.
                copied = leaf.detach().to(device, copy=True).requires_grad_(leaf.requires_grad)
                self._tensors[name], self._numbers[name] = copied, number
                self.places.append(place)

    def exported(self) -> torch.export.ExportedProgram:
        given = {**self._tensors, **{f"{COTANGENTS}_{i}": one for i, one in enumerate(self.cotangents)}}

        def flat(**tensors: torch.Tensor) -> tuple[Any, ...]:
            leaves = list(self._leaves)
            for name, number in self._numbers.items():
                leaves[number] = tensors[name]
            args, kwargs = pytree.tree_unflatten(leaves, self._spec)
            results, self.container = _with_one_loss(self._forward(*args, **kwargs))
            floating = filter(_is_floating, results)
            sums = [(one * tensors[f"{COTANGENTS}_{i}"]).sum() for i, one in zip(range(len(self.cotangents)), floating)]
            return (*results, functools.reduce(operator.add, sums)) if sums else tuple(results)

        flat.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in given])
        own = self._model.__dict__.get("forward")
        self._model.__dict__["forward"] = flat
        printed = io.StringIO()  # export shows the whole graph where it fails
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                return torch.export.export(self._model, (), given, strict=False)
        except Exception as error:
            logging.getLogger("meshwright").debug("%s", printed.getvalue(), exc_info=True)
            raise Error("torch.export can't trace the model, so it can't be planned; meshwright.export(model, inputs, 'model.pt2') "
                        f"shows where: {summary(error)}") from error
        finally:
            del self._model.__dict__["forward"]
            if own is not None:
                self._model.__dict__["forward"] = own

    def follows_mode(self, program: torch.export.ExportedProgram) -> bool:
        """See modes.follows; what can't be exported in the other mode, or returns another container there, does not."""
        container = self.container
        try:
            with other_mode(self._model):
                other = _decomposed(self.exported())
        except Error:
            return False
        other_container, self.container = self.container, container
        return container == other_container and follows(self._model, program, other)


def _device(model: torch.nn.Module) -> torch.device:
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")


def _returned(program: torch.export.ExportedProgram) -> list[Any]:
    """What the model returns: a tensor with no storage, or a constant, for each leaf."""
    outputs = program.graph.output_node().args[0]
    specs = program.graph_signature.output_specs
    return [node.meta["val"] if isinstance(node, torch.fx.Node) else node
            for node, spec in zip(outputs, specs) if spec.kind is torch.export.graph_signature.OutputKind.USER_OUTPUT]


def _losses(program: torch.export.ExportedProgram) -> int:
    """How many outputs could be the loss: scalars that depend on a parameter through floating-point values."""
    trained = {name for name, target in program.graph_signature.inputs_to_parameters.items()
               if program.state_dict[target].requires_grad}
    trained |= _wanted(program)
    differentiable: set[torch.fx.Node] = set()
    for node in program.graph.nodes:
        value = node.meta.get("val")
        values = value if isinstance(value, (list, tuple)) else [value]
        floating = any(isinstance(one, torch.Tensor) and (one.is_floating_point() or one.is_complex()) for one in values)
        if node.target is torch.ops.aten.detach.default:
            continue
        if node.name in trained or (floating and any(one in differentiable for one in node.all_input_nodes)):
            differentiable.add(node)
    outputs = zip(program.graph.output_node().args[0], program.graph_signature.output_specs)
    return sum(isinstance(node, torch.fx.Node) and node in differentiable and node.meta["val"].dim() == 0
               for node, spec in outputs if spec.kind is torch.export.graph_signature.OutputKind.USER_OUTPUT)


def _wanted(program: torch.export.ExportedProgram) -> set[str]:
    """The names of the inputs whose gradient is wanted."""
    inputs = set(program.graph_signature.user_inputs)
    return {node.name for node in program.graph.find_nodes(op="placeholder")
            if node.name in inputs and isinstance(value := node.meta["val"], torch.Tensor) and value.requires_grad}


def _described(model: torch.nn.Module, program: torch.export.ExportedProgram, flat: _Flat) -> Traced:
    signature = program.graph_signature
    names = list(signature.user_inputs)
    returned = _returned(program)
    outputs = [name if isinstance(value, torch.Tensor) else Constant(value) for name, value in zip(signature.user_outputs, returned)]
    traced = Traced(dict(zip(names, flat.places)), outputs, flat.container)
    if flat.cotangents:
        traced.surrogate = outputs.pop()
        floating = [name for name, value in zip(outputs, returned) if _is_floating(value)]
        own = names[len(flat.places):]
        traced.cotangents = dict(zip(floating, own))
        traced.cotangent_types = {name: one.dtype for name, one in zip(own, flat.cotangents)}
    known = dict(model.named_buffers())
    traced.constants = {name: value for name, value in program.constants.items()
                        if isinstance(value, torch.Tensor) and name not in known}
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    traced.used = {targets[node.name] for node in program.graph.nodes if node.name in targets and node.users}
    traced.wanted = _wanted(program)
    traced.ops = {node.name: str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    traced.shapes = {node.name: list(node.meta["val"].shape) for node in program.graph.nodes
                     if node.op == "placeholder" and node.name in traced.inputs}
    return traced


def _drop_weights(program: torch.export.ExportedProgram) -> None:
    """Leave the shapes of what a state dict holds; two names of one tensor stay two names of one."""
    stand_ins: dict[Any, torch.Tensor] = {}
    for name, value in program.state_dict.items():
        key = (value.device, value.untyped_storage()._cdata, value.storage_offset(), tuple(value.shape), value.stride())
        if key not in stand_ins:
            empty = torch.empty_like(value, device="meta")
            stand_ins[key] = torch.nn.Parameter(empty, value.requires_grad) if isinstance(value, torch.nn.Parameter) else empty
        program.state_dict[name] = stand_ins[key]
