"""Reads what the build really did from a Ninja build folder: who included what, and who was linked with what."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Compilation:
    """One compiled source and every file that the compiler read for it, as absolute paths."""
    source: str
    includes: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """One linked file: its path, kind (shared, module, executable, static), the sources of its objects, and the
    libraries on its link line, absolute where they belong to the build."""
    output: str
    kind: str
    sources: tuple[str, ...] = field(default=())
    libraries: tuple[str, ...] = field(default=())


def sources_of_objects(build: Path) -> dict[str, str]:
    """Object path (relative to the build folder) -> absolute source path."""
    sources = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        sources[words[words.index("-o") + 1]] = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
    return sources


def parse_deps(text: str) -> dict[str, list[str]]:
    """The output of `ninja -t deps`: object -> files."""
    deps: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith("    "):
            current.append(line.strip())
        elif ": #deps" in line:
            current = deps.setdefault(line.split(": #deps")[0], [])
    return deps


def read_compilations(build: Path) -> list[Compilation]:
    output = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], check=True, capture_output=True, text=True).stdout
    sources = sources_of_objects(build)
    compilations = []
    for obj, files in sorted(parse_deps(output).items()):
        if obj in sources and os.path.exists(sources[obj]):
            includes = tuple(os.path.realpath(os.path.join(build, file)) for file in files)
            compilations.append(Compilation(sources[obj], includes))
    return compilations


_RULE = re.compile(r"^build (?P<outputs>.*?): CXX_(?P<kind>SHARED_LIBRARY|MODULE_LIBRARY|EXECUTABLE|STATIC_LIBRARY)_LINKER"
                   r"\S* (?P<inputs>[^|]*)")


def parse_links(text: str, build: str, sources: dict[str, str]) -> list[Link]:
    """The link statements of a build.ninja."""
    links: list[Link] = []
    pending: re.Match[str] | None = None
    libraries: tuple[str, ...] = ()
    for line in text.splitlines() + [""]:
        match = _RULE.match(line)
        if match:
            pending, libraries = match, ()
        elif pending and line.strip().startswith("LINK_LIBRARIES ="):
            words = line.split("=", 1)[1].split()
            libraries = tuple(os.path.normpath(os.path.join(build, w)) if "/" in w and not w.startswith("-") else w
                              for w in words)
        elif pending and not line.startswith(" "):
            kind = pending["kind"].split("_")[0].lower()
            output = os.path.normpath(os.path.join(build, pending["outputs"].split(" | ")[0].strip()))
            objects = tuple(sources[word] for word in pending["inputs"].split() if word in sources)
            links.append(Link(output, kind, objects, libraries))
            pending = None
    return links


def read_links(build: Path) -> list[Link]:
    return parse_links((build / "build.ninja").read_text(), str(build), sources_of_objects(build))
