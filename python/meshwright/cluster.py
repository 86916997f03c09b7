"""A cluster file for the machines that the ranks run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from meshwright import program
from meshwright.errors import Error
from meshwright.ranks import Host

# Kept free on a CPU, of the host's memory. What a GPU's memory holds besides is in its device's file.
_CPU_RESERVED_SHARE = 10

# What links GPUs of one host, a direction, by the data sheets: of NVLink by device, and of PCIe where there is none (MAP §7).
_NVLINK = {"h200_141gb": "450GB/s", "h100_80gb": "450GB/s", "a100_80gb": "300GB/s", "v100_32gb": "150GB/s"}
_PCIE = ("pcie", "20GB/s", "5us")
# Between ranks of one host without GPUs: what all-reduces of gloo among 4 ranks came to on the machine of cpu_core.toml.
_LOOPBACK = ("loopback", "1.2GB/s", "400us")
# Between hosts nothing is known: an Ethernet card of 10 Gb/s is assumed, which all ranks of a host share.
_NETWORK = ("network", "1.25GB/s", "50us")


def write_cluster(hosts: Sequence[Host], folder: Path) -> tuple[Path, int | None]:
    """Write a cluster file into ``folder``; give its path and, where the device's file does not say what else its
    memory holds, the memory budget per device in bytes."""
    counts = Counter(host.name for host in hosts)
    if len(set(counts.values())) != 1:
        raise Error("the hosts run unequal numbers of ranks (" + ", ".join(f"{name}: {count}" for name, count in counts.items())
                    + "), which is no mesh; start as many on each, or describe the cluster with cluster=")
    if len(names := {host.device for host in hosts}) != 1:
        raise Error(f"the ranks run on different devices ({', '.join(sorted(names))}); describe the cluster with cluster=")
    device = _device_file(hosts[0].device)
    per_host = next(iter(counts.values()))
    memory = min(host.memory_bytes for host in hosts)
    on_cpu = hosts[0].device == "cpu"
    reserved = memory // _CPU_RESERVED_SHARE if on_cpu else 0
    lines = [f'name = "{len(counts)}x{per_host}_{device.stem}"', f"nodes = {len(counts)}", f"devices_per_node = {per_host}",
             f'device = "{_device_with_memory(device, memory, folder)}"', f'reserved_bytes = "{reserved}B"']
    if per_host > 1:
        nvlink = ("nvlink", _NVLINK.get(device.stem, _PCIE[1]), "3us") if all(host.linked for host in hosts) else _PCIE
        lines += _level(*(_LOOPBACK if on_cpu else nvlink), per_host)
    if len(counts) > 1:
        lines += [*_level(*_NETWORK, len(hosts)), f"shared_by = {per_host}"]
    path = folder / "cluster.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, memory - reserved if on_cpu else None


def _level(name: str, bandwidth: str, latency: str, group: int) -> list[str]:
    return ["", "[[level]]", f'name = "{name}"', f"group = {group}", f'bandwidth = "{bandwidth}"', f'latency = "{latency}"']


def _device_file(name: str) -> Path:
    """The figures of a device, by the name that CUDA gives it."""
    folder = program.configs() / "devices"
    words = name.upper().replace("-", " ").split()
    for path in sorted(folder.glob("*.toml")):
        if path.stem.split("_")[0].upper() in words:
            return path
    raise Error(f"no figures of the device '{name}' are shipped; describe the cluster with cluster=FILE, a file like those in "
                f"{folder.parent / 'clusters'}")


def _device_with_memory(device: Path, memory_bytes: int, folder: Path) -> Path:
    """A copy of a device's file with the memory that there really is, of which the driver has kept its part already."""
    told = {"memory": f'memory = "{memory_bytes}B"', "driver": 'driver = "0B"'}
    lines = [told.get(line.partition(" = ")[0], line) for line in device.read_text(encoding="utf-8").splitlines()]
    path = folder / "device.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
