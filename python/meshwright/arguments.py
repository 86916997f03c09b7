"""A model's arguments: which tensor of a call is which input of the exported program.

The tensors of a call are named by where they stand in it, whether they were
given by position or by keyword: ``input_ids``, ``batch['x']``, ``args[0]``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree



def split(sample_inputs: Any) -> tuple[tuple, dict[str, Any]]:
    """A batch as positional and keyword arguments: a mapping is keywords, a sequence positions, a tensor one position."""
    if isinstance(sample_inputs, torch.Tensor):
        return (sample_inputs,), {}
    if isinstance(sample_inputs, Mapping):
        return (), dict(sample_inputs)
    if isinstance(sample_inputs, Sequence) and not isinstance(sample_inputs, (str, bytes)):
        return tuple(sample_inputs), {}
    raise TypeError("inputs must be a tuple of positional or a dict of keyword arguments, "
                    f"not {type(sample_inputs).__name__}")


class Arguments:
    """The arguments that a model was exported with.

    ``places`` are the places of its leaves, in the order in which ``torch.export`` lists the user inputs; ``values`` the
    leaves themselves.
    """

    def __init__(self, forward: Any, args: tuple, kwargs: dict[str, Any]):
        self.signature = inspect.signature(forward)
        self.values, spec = pytree.tree_flatten((args, kwargs))
        numbered = pytree.tree_unflatten(list(range(len(self.values))), spec)
        place_of = {number: place for place, number in self._leaves(*numbered).items()}
        self.places = [place_of[number] for number in range(len(self.values))]

    def _leaves(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = self.signature.bind(*args, **kwargs)
        leaves = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                given = list(value.items())
            else:
                given = [(name, value)]
            for argument, tree in given:
                for path, leaf in pytree.tree_flatten_with_path(tree)[0]:
                    leaves[argument + pytree.keystr(path)] = leaf
        return leaves

    def tensors(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The leaves of a call, by place.

        Raises:
            TypeError: the model takes no such arguments.
            ValueError: there are other tensors than in the sample, or what is no tensor is not as it was there.
        """
        leaves = self._leaves(args, kwargs)
        planned = dict(zip(self.places, self.values))
        for place, leaf in leaves.items():
            sample = planned.get(place)
            if isinstance(leaf, torch.Tensor) != isinstance(sample, torch.Tensor):
                raise ValueError(f"'{place}' is {_kind(leaf)}, but the sample inputs that the model was planned with had "
                            f"{_kind(sample)} there; plan it with inputs like these")
            if not isinstance(leaf, torch.Tensor) and leaf is not sample and leaf != sample:
                raise ValueError(f"'{place}' is {leaf!r}, but the model was planned with {sample!r}, which is part of the plan")
        for place, sample in planned.items():
            if place not in leaves and isinstance(sample, torch.Tensor):
                raise ValueError(f"'{place}' is missing: the model was planned with a tensor there")
        return leaves


def _kind(leaf: Any) -> str:
    return "a tensor" if isinstance(leaf, torch.Tensor) else "nothing" if leaf is None else f"a {type(leaf).__name__}"
