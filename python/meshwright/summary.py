"""A plan in six lines: mesh, what its axes cut of the batch and of the parameters, step, memory, certificate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from meshwright.progress import bytes_text, seconds_text


def six_lines(plan: dict[str, Any], batch: int, batch_axes: Sequence[bool]) -> list[str]:
    """``plan`` is the plan file, ``batch`` the length of the global batch; ``batch_axes`` tells which mesh axes cut it."""
    rows = (("mesh", _mesh(plan)), ("batch", _batch(plan, batch, batch_axes)), ("parameters", _parameters(plan)),
            ("step", _step(plan)), ("memory", _memory(plan)), ("certificate", _certificate(plan)))
    return [f"{name:<12} {text}" for name, text in rows]


def _mesh(plan: dict[str, Any]) -> str:
    cluster, axes = plan["cluster"], plan["mesh"]
    shape = "x".join(str(axis["size"]) for axis in axes) or "1"
    links = ", ".join(f"axis {number} over {axis['slowest_link']}" for number, axis in enumerate(axes)
                      if axis["slowest_link"])
    count = cluster["nodes"] * cluster["devices_per_node"]
    return f"{shape} of {count} x {cluster['device']}" + (f": {links}" if links else "")


def _batch(plan: dict[str, Any], batch: int, batch_axes: Sequence[bool]) -> str:
    cutting = [number for number, cut in enumerate(batch_axes) if cut]
    parts = 1
    for number in cutting:
        parts *= plan["mesh"][number]["size"]
    if not cutting:
        return f"all {batch} rows on every rank"
    return f"{batch} rows, {batch // parts} a rank: cut over {_axes_text(cutting)}"


def _parameters(plan: dict[str, Any]) -> str:
    """How many parameters each axis cuts: as they are computed with, else as they are kept, else in the optimizer."""
    parameters = [variable for variable in plan["variables"] if variable["kind"] == "parameter"]
    said = []
    for number in range(len(plan["mesh"])):
        computing = kept = state = 0
        for parameter in parameters:
            if number in axes_of(parameter["compute_layout"]):
                computing += 1
            elif number in axes_of(parameter["results"][0]["layout"]):
                kept += 1
            elif number in axes_of(parameter["state_layout"]):
                state += 1
        counts = ((computing, "in computing"), (kept, "between steps (gathered for use)"), (state, "in the optimizer's state"))
        parts = [f"{count} {what}" for count, what in counts if count]
        if parts:
            said.append(f"axis {number} cuts {', '.join(parts)}")
    return f"{len(parameters)}, " + ("; ".join(said) if said else "whole on every rank")


def _step(plan: dict[str, Any]) -> str:
    moved = sum(conversion["seconds"] * conversion.get("times", 1) for conversion in plan["conversions"])
    moved += sum(variable.get("communication_seconds", 0.0) for variable in plan["variables"])
    return (f"{seconds_text(plan['step_seconds'])} predicted, with {seconds_text(moved)} of communication, partly beside the "
            "computing")


def _memory(plan: dict[str, Any]) -> str:
    return f"{bytes_text(plan['peak_bytes'])} of {bytes_text(plan['budget_bytes'])} per device"


def _certificate(plan: dict[str, Any]) -> str:
    step, bound = plan["step_seconds"], plan["step_lower_bound_seconds"]
    if bound <= 0:
        return f"{plan['status']}: no bound is known"
    return f"{plan['status']}: a step takes {seconds_text(step)}, and by no plan in this space less than {seconds_text(bound)}"


def axes_of(layout: str) -> set[int]:
    """The mesh axes that cut a tensor, of its layout's text: "R[R S1 R]", "S01R+P2"."""
    return {int(axis) for axes in re.findall(r"S(\d+)", layout.partition("+")[0]) for axis in axes}


def _axes_text(axes: Sequence[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else "axes " + ", ".join(map(str, axes[:-1])) + f" and {axes[-1]}"
