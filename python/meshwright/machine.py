"""What was measured of a machine: a value, its JSON, and the lines of a device's and a cluster's file that say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_LEAST_SECONDS = 1e-9  # what a clock can tell from nothing


@dataclass(frozen=True)
class Curve:
    """Rates by the size of what is done, ascending; what is more is never sooner done."""

    sizes: list[float]
    rates: list[float]

    @staticmethod
    def of(points: Mapping[int, float], traffic: float = 1.0) -> Curve:
        """Of seconds by size; the rate is that of the size times ``traffic``."""
        pools = []  # of sizes: how many, and their mean time; a smaller one behind a larger one is noise: both have their mean
        for size in sorted(points):
            pools.append((1, max(points[size], _LEAST_SECONDS)))
            while len(pools) > 1 and pools[-1][1] < pools[-2][1]:
                (more, above), (count, below) = pools.pop(), pools.pop()
                pools.append((count + more, (count * below + more * above) / (count + more)))
        # Equal ones still ascend, when they are written with so many digits.
        times = [seconds * (1 + 1e-6 * place) for count, seconds in pools for place in range(count)]
        return Curve([float(size) for size in sorted(points)],
                     [traffic * size / seconds for size, seconds in zip(sorted(points), times, strict=True)])


@dataclass(frozen=True)
class Attention:
    """The rates of attention in one op, as [attention.KERNEL] of a device's file states them."""

    efficiency: float
    half_keys: float
    half_head: float
    backward: float


@dataclass(frozen=True)
class Device:
    """What one rank's device does while the others do the same."""

    products: dict[str, Curve]  # by dtype: FLOPs a second
    peaks: dict[str, float]     # of the largest products, by dtype
    memory: Curve               # bytes a second, read and written by one kernel
    vector_flops: float         # of exponentials and norms, a second
    launch_seconds: float       # of a kernel that does nearly nothing
    host_launch_seconds: float  # of a host that launches it beside the device; 0: there is none
    attention: Attention
    computing_stretch: float
    communication_stretch: float


@dataclass(frozen=True)
class Links:
    """Collectives among so many ranks, all such groups at the same time: bus bandwidth by the bytes of the whole."""

    ranks: int
    latency_seconds: float
    bus: dict[str, Curve]  # by collective


@dataclass(frozen=True)
class Machine:
    """What the ranks of a run have: a device each, links inside of a host and across hosts, by the size of the group."""

    device: Device
    inside: list[Links]
    across: list[Links]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Machine:
        """Errors: KeyError, TypeError, where it is none."""
        device = dict(said["device"])
        device["products"] = {dtype: Curve(**curve) for dtype, curve in device["products"].items()}
        device["memory"] = Curve(**device["memory"])
        device["attention"] = Attention(**device["attention"])
        inside, across = ([Links(each["ranks"], each["latency_seconds"], {kind: Curve(**curve) for kind, curve in each["bus"].items()})
                           for each in said[where]] for where in ("inside", "across"))
        return Machine(Device(**device), inside, across)


def device_file(device: Device, name: str, memory_bytes: int) -> str:
    """The text of a device's file, of a device of this name."""
    attention = device.attention
    curves = [line for dtype, curve in device.products.items() for line in ("", f"[product_curve.{dtype}]", *_curve(curve, "flops", "FLOP", "rates", "FLOP/s"))]
    host = [_quantity("host_launch", device.host_launch_seconds, "s")] if device.host_launch_seconds else []
    lines = ["# Measured on this machine by all ranks at the same time (docs/pytorch.md).",
             f'name = "{name}"', f'memory = "{memory_bytes}B"', _quantity("memory_bandwidth", max(device.memory.rates), "B/s"),
             _quantity("vector_flops", device.vector_flops, "FLOP/s"), _quantity("launch", device.launch_seconds, "s"), *host,
             "matrix_efficiency = 1.0", "memory_efficiency = 1.0", f"computing_stretch = {device.computing_stretch:.6g}",
             f"communication_stretch = {device.communication_stretch:.6g}", "", "[matrix_flops]",
             *(_quantity(dtype, rate, "FLOP/s") for dtype, rate in device.peaks.items()),
             *curves, "", "[memory_curve]", *_curve(device.memory, "bytes", "B", "bandwidth", "B/s")]
    for kernel in ("flash_1", "flash_2", "flash_3"):  # there is one kernel, whatever [train] attention says
        lines += ["", f"[attention.{kernel}]", f"efficiency = {attention.efficiency:.6g}", f"half_keys = {attention.half_keys:.6g}",
                  f"half_head = {attention.half_head:.6g}", f"backward = {attention.backward:.6g}"]
    return "\n".join(lines) + "\n"


def level_lines(name: str, links: Sequence[Links], group: int, shared_by: int = 1) -> list[str]:
    """One [[level]] of a cluster's file, which joins so many devices."""
    largest = max(links, key=lambda each: each.ranks)
    lines = ["", "[[level]]", f'name = "{name}"', f"group = {group}",
             _quantity("bandwidth", largest.bus["all_gather"].rates[-1], "B/s"),
             _quantity("latency", min(each.latency_seconds for each in links), "s"), f"shared_by = {shared_by}"]
    for each in links:
        for kind, curve in each.bus.items():
            lines += ["", "[[level.measured]]", f"devices = {each.ranks}", f'collective = "{kind}"',
                      *_curve(curve, "bytes", "B", "bus_bandwidth", "B/s")]
    return lines


def _curve(curve: Curve, sizes: str, size_unit: str, rates: str, rate_unit: str) -> list[str]:
    return [f"{key} = [" + ", ".join(f'"{value:.9g}{unit}"' for value in values) + "]"
            for key, values, unit in ((sizes, curve.sizes, size_unit), (rates, curve.rates, rate_unit))]


def _quantity(key: str, value: float, unit: str) -> str:
    return f'{key} = "{value:.9g}{unit}"'
