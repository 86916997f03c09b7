"""What a sharded model has besides the emitted program: it is called, fed and saved like the original."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from meshwright.alike import check_batches, digest
from meshwright.arguments import Arguments
from meshwright.rows import Rows
from meshwright.tracing import Constant, Traced

OUTPUTS = ("planned", "rows", "gathered")


@dataclass
class Call:
    """How the original is called."""

    module: ModuleType                     # the emitted program
    arguments: Arguments
    traced: Traced
    rows: Rows
    layouts: dict[str, Any]                # of the program's outputs, by their names in the graph
    outputs: str                           # one of OUTPUTS
    training: bool                         # the mode that the model was planned in
    either_mode: bool                      # the program follows train() and eval()
    unused: dict[str, torch.Tensor]        # what the state dict has and nothing computes with
    order: list[str]                       # of the original state dict
    fed: int | None = None                 # of the first global batch that was cut here, what tells it from others
    unfed: bool = True                     # nothing was computed yet
    unchecked: bool = True                 # whether the way of outside gradients is still to be looked at


class Sharded:
    """Mixed into the emitted ``Model``: each rank holds its shards, and feeds its rows of the global batch."""

    _call: Call
    plan: dict[str, Any]    # the plan file
    source: str             # the emitted program's text

    def _apply(self, function: Any, recurse: bool = True) -> Any:
        """As nn.Module has it; the plan is for the parameters' types as they are."""
        for name, shard in self.named_parameters():
            if (other := function(shard.detach().flatten()[:0]).dtype) != shard.dtype:
                raise TypeError(f"the plan is for '{name}' in {shard.dtype}, and {other} is another program; convert the model before "
                                "autoparallelize")
        return super()._apply(function, recurse)

    @torch.compiler.disable(recursive=False)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the original's, with this rank's rows of the batch.

        A loss that the model returns is that of the global batch, the same on every rank. Other results come as
        ``outputs`` of autoparallelize said: "gathered" whole on every rank, "rows" this rank's rows, "planned" as the
        plan has them (``OUTPUTS`` tells).

        Raises:
            ValueError: an argument, or train() or eval(), is not as the model was planned.
        """
        call = self._call
        if self.training != call.training and not call.either_mode:
            mode, other = ("training", "eval") if call.training else ("eval", "training")
            raise ValueError(f"the model was planned in {mode} mode, and {other} mode is more than another setting of that program; call "
                        f"autoparallelize with the model in {other} mode for that")
        local = self._local(args, kwargs)
        return self._returned(super().forward(*local), local)

    def local_batch(self, inputs: Any) -> Any:
        """This rank's rows of a global batch: of a tensor, or of each in a tuple, list or dict, labels as well.

        Tensors whose first dimension is not the batch stay whole. They are put where this rank computes.
        """
        rows, device = self._call.rows, self._call.module.device()
        if self._call.unfed and self._call.fed is None:
            self._call.fed = hash(tuple(digest(leaf) for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)))
        return pytree.tree_map(lambda leaf: rows.cut(leaf).to(device) if isinstance(leaf, torch.Tensor) else leaf, inputs)

    @property
    def global_batch_size(self) -> int:
        """Rows of the batch that the plan is for."""
        return self._call.rows.batch

    @property
    def local_batch_size(self) -> int:
        """Rows of each batch that one rank feeds."""
        return self._call.rows.size

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """The mean over all ranks of a number that each computed of its rows, such as a loss; without a gradient."""
        total = value.detach().clone()
        dist.all_reduce(total)
        return total / dist.get_world_size()

    def whole_state_dict(self) -> dict[str, torch.Tensor]:
        """The state dict of the original, with all of its names, on every rank, in the CPU's memory."""
        call = self._call
        whole = {**super().whole_state_dict(), **call.unused}
        return {name: whole[name] for name in call.order if name in whole}

    def load_whole(self, state_dict: dict[str, torch.Tensor], strict: bool = True) -> None:
        """Take this rank's shards of a state dict of the original; buffers that it leaves out may stand in it too.

        A model that was planned on the ``meta`` device is then where it computes, and needs those buffers.

        Raises:
            ValueError: names are missing or not known, or a shape differs.
        """
        given = dict(state_dict)
        beside = other_buffers(self)
        if strict:
            refuse_without_value(without_value(beside, given))
        for name in beside:
            if name in given:
                self.set_shard(name, given.pop(name))
        self._take_unused(given, "")
        super().load_whole(given, strict=strict)

    def _put_unused(self, state: dict[str, Any], prefix: str, _: Any) -> None:
        """Into a state dict that is made: what the original's has and nothing computes with."""
        state.update({prefix + name: torch.zeros_like(value, device="cpu") if value.is_meta else value
                      for name, value in self._call.unused.items()})

    def _take_unused(self, state: dict[str, Any], prefix: str, *_: Any) -> None:
        """Out of one that is loaded."""
        unused = self._call.unused
        unused.update({name: state.pop(prefix + name).detach().cpu() for name in unused if prefix + name in state})

    # --- inputs ---

    @torch.compiler.disable
    def _local(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """What the program is called with."""
        traced = self._call.traced
        leaves = self._call.arguments.tensors(args, kwargs)
        if self._call.unfed:
            self._call.unfed = False
            check_batches(self._call.fed, hash(tuple(self._call.rows.indices().tolist())), list(leaves.values()))
        local = []
        for name, layout in self.INPUTS.items():
            if name in traced.inputs:
                local.append(self._part(traced.inputs[name], leaves, layout, name in traced.wanted))
            else:
                local.append(torch.zeros(layout.local_shape(), dtype=traced.cotangent_types[name], device=self._call.module.device()))
        return local

    def _part(self, place: str, leaves: dict[str, Any], layout: Any, wanted: bool) -> torch.Tensor:
        rows = self._call.rows
        value = leaves[place]
        expected = rows.local_shape(layout.shape)
        if tuple(value.shape) != expected:
            whole = tuple(value.shape) == tuple(layout.shape)
            raise ValueError(f"'{place}' has the shape {tuple(value.shape)}, and this rank's rows of a batch of {rows.batch} are "
                        f"{expected}; " + ("cut a global batch with model.local_batch" if whole else
                                                  "feed a batch of another shape whole, through model.call_whole"))
        value = value.to(self._call.module.device())
        if value.requires_grad and not wanted and torch.is_grad_enabled():
            raise ValueError(f"'{place}' requires a gradient, and the model was planned with a sample that does not; call autoparallelize "
                             "with one that does (requires_grad_()), or detach it")
        return Taken.apply(value, rows, layout) if wanted else rows.take(value.detach(), layout)

    # --- outputs ---

    @torch.compiler.disable
    def _returned(self, results: Any, local: list[torch.Tensor]) -> Any:
        """What the program returned for the inputs ``local``, as the original has it."""
        call = self._call
        found = dict(zip(call.layouts, results if isinstance(results, tuple) else (results,)))
        if call.traced.surrogate:
            found = self._outside(found, dict(zip(self.INPUTS, local)))
        else:
            found = {name: self._shown(name, value) for name, value in found.items()}
        leaves = [leaf.value if isinstance(leaf, Constant) else found[leaf] for leaf in call.traced.outputs]
        return pytree.tree_unflatten(leaves, call.traced.container)

    def _shown(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """A result beside the loss. Gradients come from the loss alone, so it has none."""
        if value.dim() == 0 and value.requires_grad:
            return value
        return self._as_asked(name, value.detach())

    def _as_asked(self, name: str, value: torch.Tensor) -> torch.Tensor:
        layout = self._call.layouts[name]
        if self._call.outputs == "gathered":
            return self._call.module.whole_of(value, layout)
        return self._call.rows.give(value, layout) if self._call.outputs == "rows" else value

    def _outside(self, found: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Results that carry a gradient into the program: see Traced."""
        call = self._call
        surrogate = found.pop(call.traced.surrogate)
        values = {name: self._as_asked(name, value.detach()) for name, value in found.items()}
        if not surrogate.requires_grad:
            return values
        names = list(call.traced.cotangents)
        buffers = [inputs[call.traced.cotangents[name]] for name in names]
        if call.unchecked:
            _check_way(surrogate, buffers)
            call.unchecked = False

        def put(gradients: tuple[torch.Tensor | None, ...]) -> None:
            for name, buffer, gradient in zip(names, buffers, gradients):
                # Through .data, because autograd keeps this very tensor for the product's backward.
                if gradient is None:
                    buffer.data.zero_()
                else:
                    buffer.data.copy_(self._gradient_part(name, gradient))

        return {**values, **dict(zip(names, FromOutside.apply(surrogate, put, *(values[name] for name in names))))}

    def _gradient_part(self, name: str, gradient: torch.Tensor) -> torch.Tensor:
        """The plan's part of a gradient that arrived at a result as the user has it."""
        call = self._call
        wanted, result = self.INPUTS[call.traced.cotangents[name]], call.layouts[name]
        if call.outputs == "gathered":
            return wanted.cut(gradient)
        if call.outputs == "rows":
            return call.rows.take(gradient / call.rows.parts, wanted)
        return gradient if wanted == result else wanted.cut(call.module.whole_of(gradient, result))


def other_buffers(model: Any) -> dict[str, torch.Tensor]:
    """Those that no state dict has."""
    saved = model.named_shards()
    return {name: part for name, part in model.named_buffers() if name not in saved and hasattr(part, "sharding")}


def without_value(buffers: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> list[str]:
    """Of such buffers those that have no value and are not given one."""
    return [name for name, part in buffers.items() if part.is_meta and name not in given]


def refuse_without_value(names: list[str]) -> None:
    if names:
        raise ValueError("the state dict does not fit the model: no state dict has its buffer" + "s" * (len(names) > 1) +
                         f" {', '.join(names)}, and planned on the meta device it has no value either; add it")


class Taken(torch.autograd.Function):
    """What the plan wants of an input, from this rank's rows; its gradient is that of these rows in the global loss."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, rows: Rows, layout: Any) -> torch.Tensor:
        ctx.rows, ctx.layout = rows, layout
        part = rows.take(value, layout)
        return part.view_as(part) if part is value else part

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return ctx.rows.give(gradient, ctx.layout), None, None


class FromOutside(torch.autograd.Function):
    """Hands results out, and the gradients that come back for them in."""

    @staticmethod
    def forward(ctx: Any, surrogate: torch.Tensor, put: Any, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.put = put
        ctx.set_materialize_grads(False)
        ctx.seed = torch.ones_like(surrogate)
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        ctx.put(gradients)
        return (ctx.seed, None, *(None for _ in gradients))


def _check_way(surrogate: torch.Tensor, buffers: list[torch.Tensor]) -> None:
    """Make sure that the program computes with the very buffers that gradients from outside are put into."""
    wanted = {buffer.data_ptr() for buffer in buffers if buffer.numel()}
    ahead, seen = [surrogate.grad_fn], set()
    while ahead and wanted:
        node = ahead.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in ("_saved_self", "_saved_other"):
            saved = getattr(node, name, None)
            if isinstance(saved, torch.Tensor):
                wanted.discard(saved.data_ptr())
        if not hasattr(node, "_saved_other"):  # past the products lies the model
            ahead.extend(following for following, _ in node.next_functions)
    if wanted:
        raise RuntimeError("our own fault, please report it: the emitted program copies the gradient that comes from a loss outside of "
                           "the model before it is there; return the loss from the model's forward instead")

