"""Batches of another shape than the planned one: the last of an epoch, a single sample, shorter sequences.

For each new shape the model is exported and planned once more, and that program computes with the shards that are there:
so a loss that is a mean, a sum or anything else is that of the very batch, without padding or weights
(docs/decisions/023-another-shape-is-another-program.md).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from meshwright import ranks

_MOST_PROGRAMS = 16  # that are kept; the one that was not used for longest goes first


class AnyBatch:
    """Mixed into a sharded model. ``_others`` makes and keeps what computes batches of other shapes."""

    _others: OtherBatches

    def call_whole(self, *args: Any, **kwargs: Any) -> Any:
        """As the original is called: with a whole batch of any shape, the same on every rank.

        A batch of the planned shape is cut into each rank's rows and computed as usual. For one of another shape, or with
        other arguments that are no tensors, all ranks wait while rank 0 plans it, when it comes for the first time.

        Raises:
            Error: no program can be made for this batch; on every rank alike.
        """
        model = self._others.model_for(self, args, kwargs)
        if model is self:
            return self(*self.local_batch(args), **self.local_batch(kwargs))
        model.train(self.training)
        for buffer in model._copied_buffers:
            buffer.take()
        result = model(*model.local_batch(args), **model.local_batch(kwargs))
        if self.training:
            for buffer in model._copied_buffers:
                buffer.give()
        return result


class OtherBatches:
    """The programs of a model for other shapes, by what they are called with."""

    def __init__(self, make: Callable[[tuple, dict[str, Any]], torch.nn.Module]):
        """``make`` plans the model for such arguments, on all ranks together, and gives it without weights."""
        self._make = make
        self._models: OrderedDict[Any, torch.nn.Module] = OrderedDict()

    def model_for(self, original: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The original itself for what it was planned with, else a model that shares its shards."""
        arguments = original._call.arguments
        key = _key(arguments.leaves(args, kwargs))
        if key == _key(dict(zip(arguments.places, arguments.values))):
            return original
        if key not in self._models:
            ranks.refuse_together(_obstacle(original))
            model = self._make(args, kwargs)
            ranks.refuse_together(share_shards(model, original))
            self._models[key] = model
            if len(self._models) > _MOST_PROGRAMS:
                self._models.popitem(last=False)
        self._models.move_to_end(key)
        return self._models[key]


def _key(leaves: dict[str, Any]) -> Any:
    """What a program is for: types and shapes of tensors, and values of what is none."""
    return tuple(sorted((place, (tuple(leaf.shape), str(leaf.dtype)) if isinstance(leaf, torch.Tensor) else repr(leaf))
                        for place, leaf in leaves.items() if leaf is not None))


def _obstacle(original: Any) -> str | None:
    """What another program would leave out without a word."""
    for name, shard in original.named_parameters():
        if shard.storing.optimizer is not None:
            return ("a batch of another shape can't be computed after step_in_backward: the optimizer's steps hang on the "
                    "program for the planned shape; leave step_in_backward out, or feed batches of the planned shape")
        if shard._backward_hooks:
            return (f"a batch of another shape can't be computed while the parameter '{name}' has a hook, which is called by "
                    "the program for the planned shape alone; remove the hook, or feed batches of the planned shape")
    return None


def without_weights(model: torch.nn.Module) -> torch.nn.Module | None:
    """A copy of a model with its parameters and buffers on the meta device; None where it can't be copied."""
    stand_ins: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        empty = torch.empty_like(tensor, device="meta")
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        stand_ins[id(tensor)] = torch.nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
    try:
        return copy.deepcopy(model, stand_ins)
    except Exception:  # whatever a module's own members say to being copied
        return None


def share_shards(model: Any, original: Any) -> str | None:
    """Makes a model that was planned otherwise compute with the shards of the original, and put gradients there.

    Gives what stands against it, in a sentence.
    """
    copied = model._copied_buffers = []
    held = {**{name: part for name, part in original.named_buffers() if hasattr(part, "sharding")}, **original.named_shards()}
    for path, module in model.named_modules():
        for name, own in module._parameters.items():
            source = held.get(f"{path}.{name}".lstrip("."))
            if own is None:
                continue
            if source is None:
                return (f"a batch of another shape can't be computed: its program has a parameter '{path}.{name}' that the "
                        "planned one has not; feed batches of the planned shape")
            module._parameters[name] = _twin(own, source, model._call.module, original._call.module)
        for name, own in module._buffers.items():
            source = held.get(f"{path}.{name}".lstrip("."))
            if own is None or source is None and not own.is_meta:
                continue
            if source is None:
                return (f"a batch of another shape can't be computed: its program has a buffer '{path}.{name}' that the "
                        "planned one has not; feed batches of the planned shape")
            if _alike(own.sharding, source.sharding):
                module._buffers[name] = source
            else:
                copied.append(_CopiedBuffer(module, name, source, model._call.module.whole_of, original._call.module.whole_of))
    return None


class _CopiedBuffer:
    """A buffer that another program holds in another layout: what changed on one side is copied to the other."""

    def __init__(self, module: torch.nn.Module, name: str, source: torch.Tensor, own_whole_of: Any, source_whole_of: Any):
        own = module._buffers[name]
        layout = own.sharding
        self._own = torch.zeros(layout.local_shape(), dtype=source.dtype, device=source.device)
        self._own.sharding = layout
        module._buffers[name] = self._own
        self._source, self._own_whole_of, self._source_whole_of = source, own_whole_of, source_whole_of

    @torch.no_grad()
    def take(self) -> None:
        """Before a forward of that program. Through ``.data``, as the programs leave values in buffers."""
        self._own.data.copy_(self._own.sharding.cut(self._source_whole_of(self._source, self._source.sharding)))

    @torch.no_grad()
    def give(self) -> None:
        """After a forward in training mode."""
        self._source.data.copy_(self._source.sharding.cut(self._own_whole_of(self._own, self._own.sharding)))


class Twin(torch.nn.Parameter):
    """A parameter of another program: the shard of the original, with that program's way of computing with it."""

    source: torch.nn.Parameter

    @property
    def grad(self) -> torch.Tensor | None:
        return self.source.grad

    @grad.setter
    def grad(self, gradient: torch.Tensor | None) -> None:
        self.source.grad = gradient

    @property
    def _version(self) -> int:  # what is kept of a parameter follows it
        return self.source._version


def _twin(own: Any, source: torch.nn.Parameter, module: Any, original: Any) -> Twin:
    """``own`` is the parameter as the other program made it, whose ``module`` it is; ``original`` is that of the source."""
    made = torch.Tensor._make_subclass(Twin, source.detach(), source.requires_grad)
    storing = own.storing
    made.source, made.sharding, made.storing = source, source.sharding, storing
    # Optimizers count their steps at the source alone.
    steps = property(lambda _: source.storing.steps, lambda _, value: None)
    storing.__class__ = type("Storing", (type(storing),), {"steps": steps})
    if not _alike(own.sharding, source.sharding):
        storing.stored = (_Relaid(original.whole_of, source.sharding, own.sharding), *storing.stored)
        storing.reduced = (*storing.reduced, _Relaid(module.whole_of, own.sharding, source.sharding))
    elif not (storing.stored or storing.loaded or storing.reduced):
        storing.reduced = (_Unmoved(),)  # what moves nowhere would get its gradient from autograd, and not at the source
    return made


def _alike(one: Any, other: Any) -> bool:
    """Whether two layouts, of two programs, are the same."""
    return (one.shape, one.axes, one.factors(), one.padded) == (other.shape, other.axes, other.factors(), other.padded)


class _Unmoved:
    """A step from a layout to the same one; see Move in the emitted program."""

    def begin(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def end(self, begun: torch.Tensor) -> torch.Tensor:
        return begun

    @torch.no_grad()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(self.begin(x))


class _Relaid(_Unmoved):
    """From a layout of one program to one of another, by way of the whole tensor, one parameter at a time."""

    def __init__(self, whole_of: Callable[[torch.Tensor, Any], torch.Tensor], before: Any, after: Any):
        self._whole_of, self._before, self._after = whole_of, before, after

    def begin(self, x: torch.Tensor) -> torch.Tensor:
        return self._after.cut(self._whole_of(x, self._before))
