"""A cluster file for the machines that the ranks run on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meshwright import program
from meshwright.errors import Error
from meshwright.machine import Machine, device_file, level_lines
from meshwright.ranks import Host

# Kept free of the host's memory on a CPU, and of a GPU's that was measured. What other GPUs hold besides is in their device's file.
_CPU_RESERVED_SHARE, _GPU_RESERVED_BYTES = 10, 2 << 30

@dataclass(frozen=True)
class Described:
    """A cluster file that was written."""

    path: Path
    budget: int | None  # bytes per device, where the device's file does not say what else its memory holds
    notes: list[str]    # sentences for the user


def ranks_per_host(hosts: Sequence[Host]) -> int:
    """How many ranks each host runs, which must be as many on all of them, on the same kind of device."""
    counts = Counter(host.name for host in hosts)
    if len(set(counts.values())) != 1:
        raise Error("the hosts run unequal numbers of ranks (" + ", ".join(f"{name}: {count}" for name, count in counts.items())
                    + "), which is no mesh; start as many on each, or describe the cluster with cluster=")
    if len(names := {host.device for host in hosts}) != 1:
        raise Error(f"the ranks run on different devices ({', '.join(sorted(names))}); describe the cluster with cluster=")
    return next(iter(counts.values()))


def is_known(hosts: Sequence[Host]) -> bool:
    """Whether figures of the device come with the package. What a CPU does depends on its machine."""
    return hosts[0].device != "cpu" and _shipped_device(hosts[0].device) is not None


def write_cluster(hosts: Sequence[Host], machine: Machine | None, links: str | None, folder: Path) -> Described:
    """Write a cluster file into ``folder``: of what was measured of devices and links, or else of the device's shipped file and of the links that were
    measured (links.py), which a single rank needs not.
    """
    per_host = ranks_per_host(hosts)
    count = len(hosts) // per_host
    memory = min(host.memory_bytes for host in hosts)
    on_cpu = hosts[0].device == "cpu"
    reserved = memory // _CPU_RESERVED_SHARE if on_cpu else _GPU_RESERVED_BYTES if machine else 0
    shipped = _shipped_device(hosts[0].device)
    if machine is not None:
        stem, device = "measured", device_file(machine.device, "CPU-core" if on_cpu else hosts[0].device, memory)
    elif shipped is not None:
        stem, device = shipped.stem, _with_memory(shipped.read_text(encoding="utf-8"), memory)
    else:
        raise Error(f"no figures of the device '{hosts[0].device}' are shipped; leave measure=False out, or describe the cluster "
                    f"with cluster=FILE, a file like those in {program.configs() / 'clusters'}")
    (folder / "device.toml").write_text(device, encoding="utf-8")
    name, notes = f"{count}x{per_host}_{stem}", []
    path = folder / "cluster.toml"
    if machine is None and links is not None:
        notes = _detect(links, per_host, path)
        told = {"name": f'name = "{name}"', "device": f'device = "device.toml"\nreserved_bytes = "{reserved}B"', "reserved_bytes": None}
        head, level, levels = path.read_text(encoding="utf-8").partition("[[level]]")
        lines = [line for each in head.splitlines() if (line := told.get(each.partition(" = ")[0], each)) is not None]
        lines.append((level + levels).rstrip("\n"))
    else:
        lines = [f'name = "{name}"', f"nodes = {count}", f"devices_per_node = {per_host}", 'device = "device.toml"', f'reserved_bytes = "{reserved}B"']
        if per_host > 1:
            lines += level_lines("loopback" if on_cpu else "host", machine.inside, per_host)
        if count > 1:
            lines += level_lines("network", machine.across, len(hosts), shared_by=per_host)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Described(path, memory - reserved if reserved else None, notes)


def _detect(links: str, per_host: int, path: Path) -> list[str]:
    """Write what the program finds in measured links, of the ranks as they were started; give what it says beside."""
    recorded = path.parent / "links.csv"
    recorded.write_text(links, encoding="utf-8")
    found = json.loads(program.run(["detect", "--from", recorded, "--device", path.parent / "device.toml", "-o", path, "--format", "json",
                                    "--set", 'cluster.detect.order="started"', "--set", f"cluster.detect.devices_per_node={per_host}"]))
    slow = [f"link {each['first']}-{each['second']} is slower than others of {each['level']}" for each in found["slow_links"]
            if each["figure"] == "bytes_per_second"]
    return found["notes"] + slow


def _shipped_device(name: str) -> Path | None:
    """The figures of a device, by the name that CUDA gives it."""
    words = name.upper().replace("-", " ").split()
    for path in sorted((program.configs() / "devices").glob("*.toml")):
        if path.stem.split("_")[0].upper() in words:
            return path
    return None


def _with_memory(device: str, memory_bytes: int) -> str:
    """A device's file with the memory that there really is, of which the driver has kept its part already."""
    told = {"memory": f'memory = "{memory_bytes}B"', "driver": 'driver = "0B"'}
    return "\n".join(told.get(line.partition(" = ")[0], line) for line in device.splitlines()) + "\n"
