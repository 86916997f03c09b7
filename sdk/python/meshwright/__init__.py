"""Meshwright: split a model over the devices of a cluster."""

from meshwright.export import export

__all__ = ["export"]
