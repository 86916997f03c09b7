"""What an export spells out, said again as what it is: causal masks, grouped keys and values, root-mean-square norms.

Models of transformers compute their masks from positions, repeat keys and values for each query head, and write RMSNorm
in five ops. Kernels know these as ``is_causal``, ``enable_gqa`` and ``rms_norm``; a mask that is a tensor has no flash
kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

_ATEN = torch.ops.aten
_ATTENTION = _ATEN.scaled_dot_product_attention.default
_VIEWS = (_ATEN.view.default, _ATEN._unsafe_view.default, _ATEN.reshape.default)
# A mask with more elements is left as it is: it would have to be computed here.
_LARGEST_MASK = 1 << 29


def simplify(program: torch.export.ExportedProgram) -> None:
    """Change the graph of a decomposed program, which computes the same."""
    graph = program.graph_module.graph
    _put_tensors_first(program)
    _leave_out_empty(program)
    _fold_identities(program)
    masks: dict[torch.fx.Node, str] = {}
    for node in graph.find_nodes(op="call_function", target=_ATTENTION):
        _name_mask(node, program, masks)
        _group_heads(node)
    for node in graph.find_nodes(op="call_function", target=_ATEN.rsqrt.default):
        _name_norm(node, program)
    graph.eliminate_dead_code(lambda node: _has_effect(node))
    graph.lint()
    program.graph_module.recompile()


def _has_effect(node: torch.fx.Node) -> bool:
    """Whether it must stay though nobody reads it: not checks, which compute nothing, nor numbers read for them."""
    if node.op in ("placeholder", "output"):
        return True
    name = getattr(getattr(node.target, "_schema", None), "name", "")
    return node.is_impure() and not name.startswith(("aten::_assert_", "aten::sym_constrain_range", "aten::item", "aten::_local_scalar_dense"))


def _replace(old: torch.fx.Node, new: torch.fx.Node, program: torch.export.ExportedProgram) -> None:
    old.replace_all_uses_with(new)
    program.graph_signature.replace_all_uses(old.name, new.name)


def _called(node: Any, *targets: Any) -> bool:
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and node.target in targets


def _value(node: torch.fx.Node) -> torch.Tensor:
    return node.meta["val"]


# --- arithmetic with numbers ---

def _put_tensors_first(program: torch.export.ExportedProgram) -> None:
    """``torch.add(2, x)`` has a number where the op's schema has a tensor; ``x + 2`` is the same."""
    for node in list(program.graph_module.graph.nodes):
        if not _called(node, _ATEN.add.Tensor, _ATEN.sub.Tensor, _ATEN.mul.Tensor, _ATEN.div.Tensor) or isinstance(node.args[0], torch.fx.Node):
            continue
        number, tensor, alpha = node.args[0], node.args[1], node.kwargs.get("alpha", 1)
        with program.graph_module.graph.inserting_before(node):
            if _called(node, _ATEN.div.Tensor):
                tensor = _emitted(program, _ATEN.reciprocal.default, tensor)
            elif alpha != 1:
                tensor = _emitted(program, _ATEN.mul.Tensor, tensor, alpha)
            target = {_ATEN.sub.Tensor: _ATEN.rsub.Scalar, _ATEN.div.Tensor: _ATEN.mul.Tensor}.get(node.target, node.target)
            new = _emitted(program, target, tensor, number)
        new.meta = {**node.meta, "val": new.meta["val"]}
        _replace(node, new, program)


def _leave_out_empty(program: torch.export.ExportedProgram) -> None:
    """What is joined with nothing, as rotary positions over whole heads join what they rotate with the rest."""
    for node in program.graph_module.graph.find_nodes(op="call_function", target=_ATEN.cat.default):
        kept = [part for part in node.args[0] if _value(part).numel() > 0]
        if len(kept) == len(node.args[0]) or not kept or any(_value(part).dtype != _value(node).dtype for part in kept):
            continue
        if len(kept) == 1 and kept[0].op != "placeholder":
            _replace(node, kept[0], program)
        else:
            node.args = (kept, *node.args[1:])


def _emitted(program: torch.export.ExportedProgram, target: Any, first: torch.fx.Node, *rest: Any) -> torch.fx.Node:
    node = program.graph_module.graph.call_function(target, (first, *rest))
    with _value(first).fake_mode:
        node.meta["val"] = target(_value(first), *rest)
    return node


def _fold_identities(program: torch.export.ExportedProgram) -> None:
    neutral = {_ATEN.add.Tensor: 0, _ATEN.sub.Tensor: 0, _ATEN.mul.Tensor: 1, _ATEN.div.Tensor: 1}
    for node in list(program.graph_module.graph.nodes):
        if _called(node, *neutral) and len(node.args) == 2 and not node.kwargs and not isinstance(node.args[1], torch.fx.Node):
            of = node.args[0]
            alike = isinstance(of, torch.fx.Node) and _value(of).dtype == _value(node).dtype and _value(of).shape == _value(node).shape
            if alike and node.args[1] == neutral[node.target] and of.op != "placeholder":
                _replace(node, of, program)


# --- attention ---

def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args)), **node.kwargs}


def _name_mask(node: torch.fx.Node, program: torch.export.ExportedProgram, known: dict[torch.fx.Node, str]) -> None:
    given = _arguments(node)
    mask = given.get("attn_mask")
    if mask is None or given.get("is_causal") or _value(mask).shape[-2] != _value(given["query"]).shape[-2]:
        return
    if mask not in known:
        computed = _computed(mask, program)
        known[mask] = "" if computed is None else _kind(computed)
    if not known[mask]:
        return
    given["attn_mask"] = None
    if known[mask] == "causal":
        given["is_causal"] = True
    _call_with(node, given)


def _call_with(node: torch.fx.Node, given: dict[str, Any]) -> None:
    node.args = tuple(given.pop(name) for name in ("query", "key", "value"))
    node.kwargs = {name: value for name, value in given.items() if value is not None}


def _kind(mask: torch.Tensor) -> str:
    """Which keys a mask allows: "causal", "all", or "" for others."""
    if mask.dtype == torch.bool:
        allowed = mask
    else:
        allowed = mask == 0
        if not bool((allowed | (mask <= torch.finfo(mask.dtype).min / 2)).all()):
            return ""  # it adds something
    if bool(allowed.all()):
        return "all"
    rows, columns = allowed.shape[-2:]
    square = rows == columns and bool((allowed == torch.ones(rows, columns, dtype=torch.bool, device=allowed.device).tril()).all())
    return "causal" if square else ""


def _computed(node: torch.fx.Node, program: torch.export.ExportedProgram) -> torch.Tensor | None:
    """The value of what depends on constants alone; None for what depends on more, or is large."""
    constants = {name: program.constants.get(target) for name, target in program.graph_signature.inputs_to_lifted_tensor_constants.items()}
    seen: set[torch.fx.Node] = set()
    ahead = [node]
    while ahead:
        here = ahead.pop()
        if here in seen:
            continue
        seen.add(here)
        if here.op == "placeholder" and isinstance(constants.get(here.name), torch.Tensor):
            continue
        pure = here.op == "call_function" and isinstance(here.target, torch._ops.OpOverload) and not here.is_impure()
        drawn = pure and torch.Tag.nondeterministic_seeded in here.target.tags
        if not pure or drawn or not isinstance(here.meta.get("val"), torch.Tensor) or _value(here).numel() > _LARGEST_MASK:
            return None
        ahead.extend(here.all_input_nodes)
    order = [one for one in node.graph.nodes if one in seen]
    values: dict[torch.fx.Node, torch.Tensor] = {}
    last = {used: one for one in order for used in one.all_input_nodes}
    with torch.no_grad():
        for one in order:
            if one.op == "placeholder":
                values[one] = constants[one.name].cpu()
                continue
            args, kwargs = pytree.tree_map(lambda leaf: values[leaf] if isinstance(leaf, torch.fx.Node) else leaf, (one.args, one.kwargs))
            values[one] = one.target(*args, **{**kwargs, **({"device": "cpu"} if "device" in kwargs else {})})
            for used in one.all_input_nodes:
                if last[used] is one:
                    values.pop(used, None)
    return values[node]


def _group_heads(node: torch.fx.Node) -> None:
    """Keys and values that were repeated for each query head are given as they are."""
    given = _arguments(node)
    if given.get("enable_gqa"):
        return
    repeated = [_repeated(given[name]) for name in ("key", "value")]
    heads = _value(given["query"]).shape[-3] if _value(given["query"]).dim() == 4 else 0
    if None in repeated or any(_value(one).dim() != 4 or heads % _value(one).shape[1] for one in repeated) or (
            _value(repeated[0]).shape[1] != _value(repeated[1]).shape[1]):
        return
    given["key"], given["value"] = repeated
    given["enable_gqa"] = True
    _call_with(node, given)


def _repeated(node: torch.fx.Node) -> torch.fx.Node | None:
    """Of [b, h, s, d] repeated to [b, h·r, s, d] head by head, the former."""
    if not _called(node, *_VIEWS):
        return None
    expanded = node.args[0]
    if _called(expanded, _ATEN.clone.default):
        expanded = expanded.args[0]
    if not _called(expanded, _ATEN.expand.default) or not _called(inner := expanded.args[0], _ATEN.unsqueeze.default):
        return None
    shape = _value(expanded).shape
    fits = len(shape) == 5 and inner.args[1] in (2, -3) and tuple(_value(node).shape) == (shape[0], shape[1] * shape[2], *shape[3:])
    return inner.args[0] if fits and tuple(_value(inner).shape) == (shape[0], shape[1], 1, *shape[3:]) else None


# --- norms ---

def _only_user(node: torch.fx.Node) -> torch.fx.Node | None:
    users = [user for user in node.users if user.target is not _ATEN._assert_tensor_metadata.default]
    return users[0] if len(users) == 1 else None


def _name_norm(rsqrt: torch.fx.Node, program: torch.export.ExportedProgram) -> None:
    """x · rsqrt(mean(x², -1) + eps), and the product with a weight behind it."""
    plus = rsqrt.args[0]
    if not _called(plus, _ATEN.add.Tensor) or not isinstance(plus.args[1], float) or _only_user(plus) is not rsqrt:
        return
    mean = plus.args[0]
    if not _called(mean, _ATEN.mean.dim) or list(mean.args[1]) not in ([-1], [_value(mean).dim() - 1]) or mean.args[2:3] != (True,):
        return
    square = mean.args[0]
    if not _called(square, _ATEN.pow.Tensor_Scalar) or square.args[1] != 2 or _only_user(square) is not mean or _only_user(mean) is not plus:
        return
    x, product = square.args[0], _only_user(rsqrt)
    if not _called(product, _ATEN.mul.Tensor) or set(product.args) != {x, rsqrt} or _value(product).dtype != _value(x).dtype:
        return
    last, weight = product, None
    source = x.args[0] if _called(x, _ATEN._to_copy.default) else x  # computed in float32, given in another type
    back = _only_user(product)
    if source is not x:
        if not _called(back, _ATEN._to_copy.default) or _value(back).dtype != _value(source).dtype:
            source = x
        else:
            last = back
    scaled = _only_user(last)
    if _called(scaled, _ATEN.mul.Tensor) and len(scaled.args) == 2:
        other = scaled.args[0] if scaled.args[1] is last else scaled.args[1]
        if isinstance(other, torch.fx.Node) and _value(other).shape == _value(x).shape[-1:] and _value(scaled).dtype == _value(last).dtype:
            if _value(other).dtype == _value(source).dtype:
                last, weight = scaled, other
    with last.graph.inserting_before(last):
        norm = last.graph.call_function(_ATEN.rms_norm.default, (source, [_value(x).shape[-1]], weight, plus.args[1]))
    norm.meta = dict(last.meta)
    _replace(last, norm, program)
