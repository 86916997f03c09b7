"""train() and eval(): whether the program of one mode, told to be in the other, computes what the model does there.

The emitted program follows the mode in what was exported as of training mode: dropout, and batch norm with running
statistics. All else is as it was exported, whatever the model may do in the other mode. So the model is exported in both
modes, and the graphs are compared, with these ops of the first one switched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

# What an export puts in, leaves out or chooses by the strides of a value, which are not the same in both modes.
_COPIES = ("aten::clone", "aten::contiguous")
_VIEWS = ("aten::view", "aten::_unsafe_view", "aten::reshape")
_DROPOUTS = ("aten::dropout", "aten::native_dropout")
_BATCH_NORMS = ("aten::batch_norm", "aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional",
                "aten::_native_batch_norm_legit_no_training")


@contextlib.contextmanager
def other_mode(model: torch.nn.Module) -> Iterator[None]:
    """train() where the model is in eval mode, and the other way round; afterwards every module is as it was."""
    modes = {module: module.training for module in model.modules()}
    model.train(not model.training)
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def follows(model: torch.nn.Module, program: torch.export.ExportedProgram, other: torch.export.ExportedProgram) -> bool:
    """Whether ``program``, of the mode that the model is in, computes what ``other`` does when it is told to be in the other mode.

    Both are without in-place ops. What eval mode left out can't be switched on.
    """
    # Batch norms count in training mode alone, and so does the emitted program.
    counted = {f"{path}.{name}".lstrip(".") for path, module in model.named_modules()
               if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for name, _ in module.named_buffers(recurse=False)}
    return _steps(program, counted, switched=model.training) == _steps(other, counted, switched=False)


def _steps(program: torch.export.ExportedProgram, counted: set[str], switched: bool) -> tuple[list[Any], list[Any]]:
    """The calls behind what the program returns and leaves in buffers that are not ``counted``, and these results; ``switched``:
    as the emitted program does them in eval mode. Values are numbers, since names differ between graphs.
    """
    mutated = program.graph_signature.buffers_to_mutate
    ends = [(buffer, node) for node in program.graph.output_node().args[0]
            if (buffer := mutated.get(getattr(node, "name", None))) not in counted]
    needed = _behind(node for _, node in ends)
    numbers: dict[torch.fx.Node, Any] = {}
    off: set[torch.fx.Node] = set()
    calls: list[Any] = []
    for node in program.graph.nodes:
        if node not in needed:
            continue
        if node.op != "call_function":
            numbers[node] = node.target if node.op == "placeholder" else object()
            continue
        op, arguments = _call(node, switched)
        if op in _DROPOUTS and (switched or not arguments["train"] or arguments["p"] == 0):
            off.add(node)
            numbers[node] = numbers[arguments["input"]]
        elif op in _COPIES or (op == "getitem" and node.args[0] in off and node.args[1] == 0):
            numbers[node] = numbers[node.args[0]]
        else:
            numbers[node] = len(calls)
            calls.append((op, torch.fx.node.map_arg(arguments, numbers.__getitem__)))
    return calls, [(buffer, torch.fx.node.map_arg(node, numbers.__getitem__)) for buffer, node in ends]


def _behind(values: Iterable[Any]) -> set[torch.fx.Node]:
    """The nodes among these values, and all that they are computed of."""
    ahead = [value for value in values if isinstance(value, torch.fx.Node)]
    found: set[torch.fx.Node] = set()
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead.extend(node.all_input_nodes)
    return found


def _call(node: torch.fx.Node, switched: bool) -> tuple[str, dict[str, Any]]:
    """The op and its arguments by name, those by default included; one name for a batch norm of eval mode."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return getattr(node.target, "__name__", str(node.target)), {"args": node.args, **node.kwargs}
    arguments = {argument.name: argument.default_value for argument in schema.arguments}
    arguments.update(zip(arguments, node.args))
    arguments.update(node.kwargs)
    if switched and "dropout_p" in arguments:
        arguments["dropout_p"] = 0.0
    if schema.name in _BATCH_NORMS and arguments.get("running_mean") is not None and (
            not arguments.pop("training", False) or switched):
        return "batch norm in eval mode", arguments
    if schema.name in _VIEWS:
        return "view", {"self": arguments["self"], "shape": tuple(node.meta["val"].shape)}
    return schema.name, {"overload": schema.overload_name, **arguments}
