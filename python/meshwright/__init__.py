"""Meshwright: split a model over the devices of a cluster."""

from __future__ import annotations

import importlib

from meshwright.errors import Error
from meshwright.export import export

__all__ = ["Error", "GradScaler", "Sampler", "autoparallelize", "export"]

# These need PyTorch, and are read when they are first asked for.
_LATER = {"autoparallelize": "meshwright.parallel", "GradScaler": "meshwright.scaler", "Sampler": "meshwright.sampler"}


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
