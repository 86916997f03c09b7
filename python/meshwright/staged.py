"""What a model in several pipeline stages has besides the emitted program: it takes a step on a global batch, called like the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from meshwright.arguments import Arguments
from meshwright.progress import bytes_text, seconds_text
from meshwright.sharded import other_buffers, refuse_without_value, without_value
from meshwright.stage_statistics import StagedStatistics, StageMeter


@dataclass
class StagedCall:
    """How the original is called."""

    arguments: Arguments
    places: dict[str, str]          # by the name of an input: its place among the arguments
    shapes: dict[str, list[int]]    # of the inputs in one microbatch
    training: bool                  # the mode that the model was planned in
    either_mode: bool               # the program follows train() and eval()
    names: list[str]                # of the original's state dict


class Piped:
    """Mixed into the emitted ``Model``. Every rank feeds the whole global batch, of which each takes what its stages need."""

    _call: StagedCall
    _meter: StageMeter
    plan: dict[str, Any]  # the plan file
    source: str           # the text of the programs of this rank's stages

    def step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Forwards and backwards of all microbatches of a global batch, given as the original's arguments.

        Gradients are in ``.grad`` then, added to what was there. Returns the loss of the batch, the same on every rank, without a gradient.

        Raises:
            ValueError: an argument, or train() or eval(), is not as the model was planned.
        """
        parts = self._parts(args, kwargs)
        with self._meter.step():
            return super().step(parts)

    def evaluate(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The loss alone, without gradients."""
        return super().evaluate(self._parts(args, kwargs))

    def load_whole(self, state_dict: dict[str, torch.Tensor], strict: bool = True) -> None:
        """Take this rank's shards of a state dict of the original; buffers that it leaves out may stand in it too. All ranks call it.

        A model that was planned on the ``meta`` device is then where it computes, and needs those buffers.

        Raises:
            ValueError: names are missing or not known, or a shape differs.
        """
        beside = other_buffers(self)
        of_groups = zip(*self.of_all_groups(([*beside], without_value(beside, state_dict), [*self.named_shards(), *self.TIED])))
        others, missing, computed = ({name for names in of_all for name in names} for of_all in of_groups)
        if strict:
            refuse_without_value(sorted(missing))
        for name in beside:
            if name in state_dict:
                self.set_shard(name, state_dict[name])
        unused = set(self._call.names) - computed
        super().load_whole({name: value for name, value in state_dict.items() if name not in others | unused}, strict)

    def statistics(self) -> StagedStatistics:
        """What the training steps took so far, next to what the plan said, of all ranks and by stage. All ranks call it."""
        return self._meter.statistics()

    def _parts(self, args: tuple, kwargs: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
        """This rank's inputs of each microbatch."""
        call = self._call
        if self.training != call.training and not call.either_mode:
            mode, other = ("training", "eval") if call.training else ("eval", "training")
            raise ValueError(f"the model was planned in {mode} mode, and {other} mode is more than another setting of that program; call "
                             f"autoparallelize with the model in {other} mode for that")
        leaves = call.arguments.tensors(args, kwargs)
        cut = {name: self._cut(place, leaves[place], call.shapes[name]) for name, place in call.places.items()}
        return [self.local_batch({name: parts[number] for name, parts in cut.items()}) for number in range(self.MICROBATCHES)]

    def _cut(self, place: str, value: torch.Tensor, shape: Sequence[int]) -> Sequence[torch.Tensor]:
        """The microbatches of an argument: of one that has no batch, it itself."""
        if list(value.shape) == list(shape):
            return [value] * self.MICROBATCHES
        wanted = [shape[0] * self.MICROBATCHES, *shape[1:]] if shape else []
        if list(value.shape) != wanted:
            raise ValueError(f"'{place}' has the shape {tuple(value.shape)}, and the model was planned for a global batch with {tuple(wanted)}, in "
                             f"{self.MICROBATCHES} microbatches; every rank feeds all of it")
        return value.chunk(self.MICROBATCHES)


def pipeline_lines(plan: dict[str, Any]) -> list[str]:
    """A plan of several stages, in a few lines."""
    stages, bubble = plan["stages"], plan["bubble"]
    meshes = ", ".join("x".join(str(axis["size"]) for axis in stage["mesh"]) or "1" for stage in stages)
    peak, groups = max(plan["peak_bytes"]), len(plan.get("orders", stages))
    shared = f" by {groups} groups of devices" if groups < len(stages) else ""
    return [f"{'stages':<12} {len(stages)}{shared}, on meshes {meshes}, {plan['microbatches']} microbatches by {plan['schedule']}",
            f"{'step':<12} {seconds_text(plan['step_seconds'])} predicted, {100 * bubble['share']:.3g} % of all devices' time waiting",
            f"{'memory':<12} {bytes_text(peak)} of {bytes_text(plan['budget_bytes'])} per device"]
