"""Write a model in the form that the Meshwright planner reads.

The file is what ``torch.export.save`` writes: an archive with the functional
ATen graph of the model, after ``run_decompositions({})``. Composite operators
(linear, layer_norm, scaled_dot_product_attention, cross_entropy_loss, ...)
stay whole, because the planner has sharding rules for them.

PyTorch is imported when a model is exported, not before: nothing else here
needs it.
"""

from __future__ import annotations

import contextlib
import keyword
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def export(model: torch.nn.Module,
           sample_inputs: Sequence[Any] | Mapping[str, Any],
           path: str | os.PathLike[str],
           *,
           dynamic_shapes: Any = None) -> Path:
    """Export ``model`` and write it to ``path``; returns the path.

    Args:
        model: any module that ``torch.export`` accepts. On the ``meta`` device
            it has no weight bytes, and neither has the file.
        sample_inputs: the global batch, as positional arguments (a sequence)
            or keyword arguments (a mapping).
        path: where to write; the suffix must be ``.pt2``. The file appears
            whole or not at all.
        dynamic_shapes: dimensions to leave open, as ``torch.export.export``
            takes them. Plans give them sizes: ``--set model.batch=64``.

    Raises:
        ValueError: the suffix is not ``.pt2``.
        TypeError: ``sample_inputs`` is neither a sequence nor a mapping.
        ImportError: PyTorch is not installed.
    """
    path = Path(path)
    if path.suffix != ".pt2":
        raise ValueError(f"{path}: the suffix must be .pt2, because the planner picks its frontend by it")
    if isinstance(sample_inputs, Mapping):
        args, kwargs = (), dict(sample_inputs)
    elif isinstance(sample_inputs, Sequence) and not isinstance(sample_inputs, (str, bytes)):
        args, kwargs = tuple(sample_inputs), {}
    else:
        raise TypeError("sample_inputs must be a sequence of positional or a mapping of keyword arguments, "
                        f"not {type(sample_inputs).__name__}")
    torch = _import_torch()
    from meshwright import overflow
    from meshwright.functions import Functions

    with overflow.left_out(), Functions().captured():
        write(decomposed(torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)), path)
    return path


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program in the form that the planner reads (see simplify.py); what runs without gradients has none."""
    from meshwright.functions import name_pointwise
    from meshwright.regions import detach_regions
    from meshwright.simplify import simplify

    detach_regions(program)
    with _keywords_as_names():
        made = program.run_decompositions({})
        simplify(made)
    name_pointwise(made)
    _name_tied_weights(made)
    return made


@contextlib.contextmanager
def _keywords_as_names() -> Iterator[None]:
    """A context in which PyTorch writes ``self.class`` as ``getattr(self, "class")``: a module may have such a name."""
    from torch.fx import graph

    written = graph._format_target

    def format_target(base: str, target: str) -> str:
        for part in target.split("."):
            base = written(base, part) if not keyword.iskeyword(part) else f'getattr({base}, "{part}")'
        return base

    graph._format_target = format_target
    try:
        yield
    finally:
        graph._format_target = written


def _name_tied_weights(program: torch.export.ExportedProgram) -> None:
    """Give a parameter with several names the one that the model's ``named_parameters`` has, its first."""
    torch = _import_torch()
    places = {name: id(tensor) if tensor.is_meta or tensor.numel() == 0 else (tensor.data_ptr(), tensor.shape, tensor.stride())
              for name, tensor in program.state_dict.items()}
    first: dict[Any, str] = {}
    for name, place in places.items():
        first.setdefault(place, name)
    own = {name: first[place] for name, place in places.items()}
    specs = {spec.target: spec for spec in program.graph_signature.input_specs
             if spec.kind is torch.export.graph_signature.InputKind.PARAMETER}
    read = {node.name for node in program.graph.find_nodes(op="placeholder") if node.users}
    for name, spec in specs.items():
        if own[name] != name and spec.arg.name in read and own[name] in specs:
            spec.target, specs[own[name]].target = own[name], name


def write(program: torch.export.ExportedProgram, path: Path) -> None:
    """Write a decomposed program to ``path``, whole or not at all. The same program gives the same bytes."""
    torch = _import_torch()
    _forget_where_it_was_traced(program)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        temporary = Path(folder) / path.name  # the archive's root folder is named after the file
        torch.export.save(program, temporary)
        os.replace(temporary, path)


def _import_torch():
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":  # an installed PyTorch that misses something says so itself
            raise
        raise ImportError("meshwright.export needs PyTorch, which is not installed; install it with: "
                          "pip install torch", name="torch") from None
    return torch


def _forget_where_it_was_traced(program: torch.export.ExportedProgram) -> None:
    """Drop source paths and object ids: they differ between machines and runs, and nobody reads them."""
    torch = _import_torch()
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                for key in ("stack_trace", "from_node"):
                    node.meta.pop(key, None)
