"""A cluster file for the machines that the ranks run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from meshwright import program
from meshwright.errors import Error
from meshwright.machine import Machine, device_file, level_lines
from meshwright.ranks import Host

# Kept free of the host's memory on a CPU, and of a GPU's that was measured. What other GPUs hold besides is in their device's file.
_CPU_RESERVED_SHARE, _GPU_RESERVED_BYTES = 10, 2 << 30

# What links GPUs of one host, a direction, by the data sheets: of NVLink by device, and of PCIe where there is none (MAP §7).
_NVLINK = {"h200_141gb": "450GB/s", "h100_80gb": "450GB/s", "a100_80gb": "300GB/s", "v100_32gb": "150GB/s"}
_PCIE = ("pcie", "20GB/s", "5us")
# Between ranks of one host without GPUs: what all-reduces of gloo among 4 ranks came to on the machine of cpu_core.toml.
_LOOPBACK = ("loopback", "1.2GB/s", "400us")
# Between hosts nothing is known: an Ethernet card of 10 Gb/s is assumed, which all ranks of a host share.
_NETWORK = ("network", "1.25GB/s", "50us")


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


def write_cluster(hosts: Sequence[Host], machine: Machine | None, folder: Path) -> tuple[Path, int | None]:
    """Write a cluster file into ``folder``, of what was measured or else of what is shipped; give its path and, where the
    device's file does not say what else its memory holds, the memory budget per device in bytes.
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
    lines = [f'name = "{count}x{per_host}_{stem}"', f"nodes = {count}", f"devices_per_node = {per_host}",
             'device = "device.toml"', f'reserved_bytes = "{reserved}B"']
    if per_host > 1:
        nvlink = ("nvlink", _NVLINK.get(stem, _PCIE[1]), "3us") if all(host.linked for host in hosts) else _PCIE
        inside = _LOOPBACK if on_cpu else nvlink
        lines += level_lines(inside[0], machine.inside, per_host) if machine else _level(*inside, per_host)
    if count > 1:
        lines += (level_lines(_NETWORK[0], machine.across, len(hosts), shared_by=per_host) if machine
                  else [*_level(*_NETWORK, len(hosts)), f"shared_by = {per_host}"])
    path = folder / "cluster.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, memory - reserved if reserved else None


def _level(name: str, bandwidth: str, latency: str, group: int) -> list[str]:
    return ["", "[[level]]", f'name = "{name}"', f"group = {group}", f'bandwidth = "{bandwidth}"', f'latency = "{latency}"']


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
