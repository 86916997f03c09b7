"""What a device of a row of FSDP's table holds by our account, from `meshwright profile` of a plan of the row.

The program is ours: its tensors at every instruction, and the overheads that the device's file states. Three things
FSDP (PyTorch 1.13 and 2.0, as llm-foundry's benchmarks set it) does otherwise than our plans, and they are put in
their place:

- It gathers and reduces a block's parameters as one: with `limit_all_gathers` at most two blocks are gathered at a
  time, and the root's (words, the last norm) all the step; one block's gradient is whole, in bf16, until it is reduced.
  Our plans gather and reduce each parameter by itself.
- amp_bf16 (mixed_precision PURE): 4 bytes of value, 8 of Adam's and 4 of gradient for each parameter, in shards. Ours
  are 2, 4 + 8 and 2, which is as much; pure bf16: 2, 4 and 2 both. So nothing is changed here.
- The loss is flash-attn's (`fused_crossentropy`, llm-foundry's default): logits and their gradient in bf16, no copy in
  float32. So is ours.

Left out, in FSDP's favour: what attention's backward sums up in float32 within the kernel, and temporaries of the
optimizer's step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BF16_BYTES = 2
GATHERED_BLOCKS = 2


@dataclass(frozen=True)
class Shape:
    """What of a row decides on its memory."""

    width: int
    layers: int
    words: int
    gathers_blocks: bool   # FULL_SHARD; SHARD_GRAD_OP keeps all parameters gathered, as the plan does

    @property
    def block_bytes(self) -> int:
        """Of a block's parameters: 3 + 1 of attention, 4 + 4 of the MLP, two norms."""
        return BF16_BYTES * (12 * self.width**2 + 2 * self.width)

    @property
    def root_bytes(self) -> int:
        return BF16_BYTES * (self.words + 1) * self.width


def block_of(module: str) -> int | None:
    """"blocks.3.up" → 3"""
    parts = module.split(".")
    return int(parts[1]) if parts[0] == "blocks" and len(parts) > 1 else None


def places(nodes: list[dict[str, Any]], layers: int) -> dict[str, int]:
    """For each node how many blocks' forwards lie before it: 0 until the second block, `layers` after the last one."""
    found, passed = {}, -1
    for node in nodes:
        block = block_of(node["module"])
        passed = passed if block is None else block
        found[node["name"]] = layers if block is None and passed == layers - 1 else max(0, passed)
    return found


def peak_bytes(profile: dict[str, Any], shape: Shape) -> int:
    """The most that the row's tensors hold at any instruction."""
    before = places(profile["nodes"], shape.layers)
    units = shape.root_bytes + GATHERED_BLOCKS * shape.block_bytes if shape.gathers_blocks else 0
    most = 0
    for point in profile["curve"]:
        held, phase = point["bytes"], point["phase"]
        if phase != "update":
            if point["node"] not in before:
                continue  # What only frees, or serves no node: there is never more than after the one before it.
            held += max(0, units - point["gathered_bytes"])
            if phase == "backward" and before[point["node"]] < shape.layers:
                held += shape.block_bytes
        most = max(most, held)
    return most


def device_bytes(profile: dict[str, Any], shape: Shape) -> int:
    """All that a device holds, with the overheads that its file states."""
    account = profile["memory"]
    rounded = account["program_bytes"] + account["rounding_bytes"]
    fragmentation = account["fragmentation_bytes"] / rounded
    others = sum(account[f"{key}_bytes"] for key in ("driver", "context", "workspace", "communicator", "reserved"))
    return round((peak_bytes(profile, shape) + account["rounding_bytes"]) * (1 + fragmentation)) + others
