"""A model's arguments: which tensor of a call is which input of the exported program.

The tensors of a call are named by where they stand in it, whether they were
given by position or by keyword: ``input_ids``, ``batch['x']``, ``args[0]``.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

_MOST_NAMES = 8  # of a forward's arguments, in a sentence


def split(sample_inputs: Any, sample_kwargs: Any = None) -> tuple[tuple, dict[str, Any]]:
    """A batch as positional and keyword arguments: a mapping is keywords, a sequence positions, a tensor one position.

    Raises:
        TypeError: it is something else, or keywords are given twice; the text is a sentence for the caller.
    """
    if sample_kwargs is not None and not isinstance(sample_kwargs, Mapping):
        raise TypeError(f"sample_kwargs must be a dict of keyword arguments, not {_type_name(sample_kwargs)}")
    keywords = dict(sample_kwargs or {})
    if isinstance(sample_inputs, torch.Tensor):
        return (sample_inputs,), keywords
    if isinstance(sample_inputs, Mapping):
        if keywords:
            raise TypeError("the sample inputs are a dict, which is keyword arguments, and sample_kwargs are given as well; "
                            "give all of them in one, or positional ones as a tuple")
        return (), dict(sample_inputs)
    if isinstance(sample_inputs, Sequence) and not isinstance(sample_inputs, (str, bytes)):
        return tuple(sample_inputs), keywords
    raise TypeError("the sample inputs must be a tuple of positional or a dict of keyword arguments, "
                    f"not {_type_name(sample_inputs)}")


def misfit(forward: Any, args: tuple, kwargs: dict[str, Any]) -> str | None:
    """Why a model's forward can't be called like this, in one sentence; None where it can."""
    signature = inspect.signature(forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        nearest = [close for name in kwargs if name not in signature.parameters
                   for close in difflib.get_close_matches(name, signature.parameters, n=1)]
        hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
        return f"the sample inputs do not fit the model, whose forward takes {_names(signature)}: {error}{hint}"
    return None


def keywords_among_positions(forward: Any, args: tuple) -> str | None:
    """A hint where a dict stands among the positional arguments whose keys are names of arguments."""
    names = inspect.signature(forward).parameters
    for value in args:
        if isinstance(value, Mapping) and value and all(key in names for key in value):
            return (f"a dict with {', '.join(map(repr, value))} stands among the positional arguments, where it is one "
                    "argument; give keyword arguments as sample_kwargs=")
    return None


def _names(signature: inspect.Signature) -> str:
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [marks.get(parameter.kind, "") + name for name, parameter in signature.parameters.items()]
    return "(" + ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "") + ")"


def _type_name(value: Any) -> str:
    return "None" if value is None else type(value).__name__


class Arguments:
    """The arguments that a model was exported with.

    ``places`` are the places of its leaves, in the order in which ``torch.export`` lists the user inputs; ``values`` the
    leaves themselves.
    """

    def __init__(self, forward: Any, args: tuple, kwargs: dict[str, Any]):
        self.signature = inspect.signature(forward)
        self.values, spec = pytree.tree_flatten((args, kwargs))
        numbered = pytree.tree_unflatten(list(range(len(self.values))), spec)
        place_of = {number: place for place, number in self.leaves(*numbered).items()}
        self.places = [place_of[number] for number in range(len(self.values))]

    def leaves(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """What a call is made of, by place, whether it fits the sample or not."""
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
        leaves = self.leaves(args, kwargs)
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
