"""Machines that were measured before: a file each, in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from meshwright.machine import Machine
from meshwright.ranks import Host

_FORMAT = 4  # of what a file says, and how it is measured: files of another are measured again


def folder() -> Path:
    """``MESHWRIGHT_CACHE``, or a folder of the user's cache."""
    named = os.environ.get("MESHWRIGHT_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meshwright"


@dataclass(frozen=True)
class Known:
    """What was measured of some ranks' machines: all of it, the links alone, or nothing."""

    machine: Machine | None = None
    links: str | None = None  # the text of a file for ``meshwright detect --from``


def recall(hosts: Sequence[Host]) -> Machine | None:
    """What was measured of these ranks' machines; a file that can't be read is none."""
    try:
        return Machine.from_json(_read(_file(hosts, "machines")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def recall_links(hosts: Sequence[Host]) -> str | None:
    """The same of their links."""
    try:
        links = _read(_file(hosts, "links"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return links if isinstance(links, str) else None


def remember(hosts: Sequence[Host], known: Known) -> Path | None:
    """Keep what was measured; where there is no place for it, it is measured again next time."""
    path = _file(hosts, "links" if known.machine is None else "machines")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump({"of": _identity(hosts), "measured": known.links if known.machine is None else known.machine.to_json()}, file, indent=1)
        os.replace(file.name, path)
        return path
    return None


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))["measured"]


def _file(hosts: Sequence[Host], what: str) -> Path:
    text = json.dumps(_identity(hosts), sort_keys=True)
    return folder() / what / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


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
