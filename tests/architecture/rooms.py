"""The kernel's rooms, in the order in which data passes through them. A file may include what lies in its own room and in
those before it: read from the #include lines themselves, so that no precompiled header or unity build hides one.

A room is a folder of kernel/, or of kernel/host; public headers lie together in kernel/include/meshwright, and are listed here.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOMS: dict[str, str] = {
    "tensor": "export result log config dtype tensor_type tensor",
    "graph": "graph graph_builder frontend",
    "rule": "axis_choice rule op",
    "mesh": "transport cluster mesh memory_account",
    "layout": "layout shard atoms",
    "analysis": "training step_order training_graph saved backward_memory fusion model_analysis linearize rebind resize interpret",
    "cost": "ticks cost gather_units recompute conversion call_price local_call planning_context stage_part",
    "search": "strategy_space solve_status solver reduce checkpoint schedule placement wide_vectors",
    "strategy": "strategy known_strategies step_paths step_parts plan_chain",
    "plan": "runner_up plan pipeline_plan carry_plan",
    "program": "program lower arena program_pass memory_profile timeline op_kernels op_emitter executable backend stages pipeline_step",
    "planning": "",
    "host/files": "",
    "host/config": "plugin",
    "host/plugins": "",
    "host/report": "",
    "host/commands": "",
    "host": "",
}
ORDER = list(ROOMS)
ROOM_OF_HEADER = {header: room for room, headers in ROOMS.items() for header in headers.split()}
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
GENERATED = {"meshwright/abi_tag.h"}


def room_of(path: str) -> str | None:
    """Of a file below kernel/: "graph/aten/call.h", "include/meshwright/graph.h". None: it is in no room."""
    parts = path.split("/")
    if parts[0] == "include":
        return ROOM_OF_HEADER.get(parts[-1].removesuffix(".h"))
    if "/".join(parts[:2]) in ROOMS:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in ROOMS and len(parts) > 1 else None


def target_room(source: str, include: str, kernel_files: set[str]) -> str | None:
    """The room that an #include of `source` (below kernel/) leads into; None: it leads out of the kernel."""
    beside = f"{source.rsplit('/', 1)[0]}/{include}"
    for candidate in (beside, include, f"include/{include}", *(f"{room}/{include}" for room in ORDER)):
        if candidate in kernel_files:
            return room_of(candidate)
    return None


def room_violations(files: dict[str, str]) -> list[str]:
    """Of the texts of all files below kernel/, by path. Tests may include whatever they try."""
    found = []
    for path, text in sorted(files.items()):
        room = room_of(path)
        if room is None:
            found.append(f"kernel/{path} is in no room: move it, or list it in tests/architecture/rooms.py")
            continue
        if path.endswith("_test.cpp"):
            continue
        for include in _INCLUDE.findall(text):
            target = target_room(path, include, set(files))
            if target is not None and ORDER.index(target) > ORDER.index(room):
                found.append(f"kernel/{path} ({room}) must not include {include} ({target}), a later room")
    return found


def kernel_files(source: Path) -> dict[str, str]:
    kernel = source / "kernel"
    return {file.relative_to(kernel).as_posix(): file.read_text(encoding="utf-8")
            for pattern in ("*.h", "*.cpp", "*.inc") for file in kernel.rglob(pattern)}
