"""The arrows that DESIGN §1 allows, as functions over what the build did. A violation is a sentence."""

from __future__ import annotations

import os
import re

from ninja_build import Compilation, Link

# The C library's headers that the C++ standard library itself reads. Any other file outside the project, the compiler
# and c++/ is a third party's.
_LIBC = re.compile(
    r"^/usr/include/(?:[^/]+-linux-gnu/)?(?:bits|sys|gnu|asm|asm-generic|linux)/"
    r"|^/usr/include/(?:alloca|assert|ctype|endian|errno|features|features-time64|fenv|inttypes|libintl|limits|locale|"
    r"math|pthread|sched|semaphore|signal|stdc-predef|stdint|stdio|stdlib|string|strings|syscall|time|unistd|wchar|"
    r"wctype)\.h$")
_STANDARD = re.compile(r"^/usr/include/(?:[^/]+-linux-gnu/)?c\+\+/|^/usr/lib/(?:gcc|llvm-\d+)/|^/usr/include/llvm-")

# What each of the host's libraries is recognised by. `fmt` comes with spdlog.
_HEAVY = {"Boost": "/boost/", "toml++": "/toml++/", "CLI11": "/CLI/", "spdlog": "/spdlog/", "nlohmann-json": "/nlohmann/"}
_HOST_LINKS = {"libspdlog.so", "libfmt.so", "libmimalloc.so", "-ldl", "-lpthread", "-pthread"}

GENERATED = "generated"


def zone_of(path: str, root: str, build: str) -> str:
    """To which part of the house a file belongs: "kernel", "kernel/planning", "kernel/host", "kernel/include", "sdk", "generated",
    "plugins/ops/matmul", "frontends/onnx", "tests", ..., or "outside"."""
    if path.startswith(os.path.join(build, "generated") + "/"):
        return GENERATED
    several = re.match(re.escape(build) + r"/(.+)/CMakeFiles/[^/]+\.dir/Unity/", path)  # sources of one folder, compiled as one
    if not several and (not path.startswith(root + "/") or path.startswith(build + "/")):
        return "outside"
    parts = [*several[1].split("/"), "several.cpp"] if several else os.path.relpath(path, root).split("/")
    if parts[0] == "kernel":
        return "/".join(parts[:2]) if parts[1] in ("host", "include", "planning") else "kernel"
    if parts[0] == "plugins":
        return "/".join(parts[:3])
    if parts[0] in ("frontends", "backends"):
        return "/".join(parts[:2])
    return parts[0]


def is_plugin(zone: str) -> bool:
    return zone.split("/")[0] in ("plugins", "frontends", "backends")


def may_include(source: str, target: str) -> bool:
    """Whether a file of zone `source` may read a file of zone `target`, both inside the project."""
    if target in (source, GENERATED, "kernel/include"):
        return True
    if source in ("tests", "bench"):
        return not is_plugin(target)
    if source == "kernel/include":
        return False
    if source == "kernel/host":
        return target in ("sdk", "kernel/planning")
    if is_plugin(source) or source == "examples":  # plugins of third parties
        return target == "sdk"
    return False


def is_test(path: str) -> bool:
    return path.endswith("_test.cpp")


def include_violations(compilations: list[Compilation], root: str, build: str) -> list[str]:
    violations = set()
    users: dict[str, set[str]] = {}
    for compilation in compilations:
        zone = zone_of(compilation.source, root, build)
        if zone == "outside":
            continue
        name = os.path.relpath(compilation.source, root)
        for include in compilation.includes:
            if os.path.basename(include).startswith("cmake_pch.hxx"):  # the build's own list of common headers
                continue
            target = zone_of(include, root, build)
            if target != "outside":
                if not may_include(zone, target):
                    violations.add(f"{name} ({zone}) must not include {os.path.relpath(include, root)} ({target})")
                continue
            if _STANDARD.search(include) or _LIBC.search(include):
                continue
            if is_test(name):  # GoogleTest, and whatever it reads
                continue
            if zone in ("kernel", "kernel/planning", "kernel/include"):
                violations.add(f"{name} (kernel) must include the standard library only, not {include}")
            if zone == "kernel/host":
                for library, mark in _HEAVY.items():
                    if mark in include:
                        users.setdefault(library, set()).add(name)
    for library, names in users.items():
        if len(names) > 1:
            violations.add(f"{library} must be included by one .cpp of the host, not by {', '.join(sorted(names))}")
    return sorted(violations)


def link_violations(links: list[Link], root: str, build: str) -> list[str]:
    violations = []
    plugins = {link.output for link in links if link.kind == "module" and f"{build}/bin/plugins/" in link.output}
    for link in links:
        zones = {zone_of(source, root, build) for source in link.sources if not is_test(source)}
        name = os.path.relpath(link.output, build)
        for library in link.libraries:
            base = os.path.basename(library)
            if library.startswith("-Wl,"):
                continue
            if library in plugins:
                violations.append(f"{name} must not link the plugin {base}: plugins are loaded at run time")
            elif os.path.basename(link.output).startswith("libmeshwright_kernel") and base not in ("-lm", "-lpthread"):
                violations.append(f"{name} must link the standard library only, not {base}")
            elif link.output in plugins and base == "libmeshwright_host.a":
                violations.append(f"{name} must not link the host")
            elif base.startswith("libboost") or (zones == {"kernel/host"} and link.kind == "executable"
                                                 and not is_inside(library, build)
                                                 and strip_version(base) not in _HOST_LINKS):
                violations.append(f"{name} must not link {base}")
        if link.output in plugins and len(zones) > 1:
            violations.append(f"{name} must be built from one folder, not from {', '.join(sorted(zones))}")
    return sorted(violations)


def is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder + "/")


def strip_version(library: str) -> str:
    return re.sub(r"\.so(\.\d+)+$", ".so", library)
