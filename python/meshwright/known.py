"""Machines that were measured before: a file each, in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from meshwright.machine import Machine
from meshwright.ranks import Host

_FORMAT = 2  # of what a file says, and how it is measured: files of another are measured again


def folder() -> Path:
    """``MESHWRIGHT_CACHE``, or a folder of the user's cache."""
    named = os.environ.get("MESHWRIGHT_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meshwright"


def recall(hosts: Sequence[Host]) -> Machine | None:
    """What was measured of these ranks' machines; a file that can't be read is none."""
    try:
        said = json.loads(_file(hosts).read_text(encoding="utf-8"))
        return Machine.from_json(said["measured"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(hosts: Sequence[Host], machine: Machine) -> Path | None:
    """Keep what was measured; where there is no place for it, it is measured again next time."""
    path = _file(hosts)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump({"of": _identity(hosts), "measured": machine.to_json()}, file, indent=1)
        os.replace(file.name, path)
        return path
    return None


def _file(hosts: Sequence[Host]) -> Path:
    text = json.dumps(_identity(hosts), sort_keys=True)
    return folder() / "machines" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _identity(hosts: Sequence[Host]) -> dict[str, Any]:
    """All that what was measured depends on, as far as it is known."""
    return {"format": _FORMAT, "ranks": [[host.name, host.device] for host in hosts], "processor": _processor(),
            "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__}


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
