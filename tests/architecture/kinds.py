"""What plugins of each kind include of the kernel: no more than sdk/cmake/plugin_kinds.txt says, since a plugin's ABI tag is
of these headers and of what they include. A violation is a sentence."""

from __future__ import annotations

import re
from pathlib import Path

_INCLUDE = re.compile(r'^\s*#\s*include\s+"meshwright/(\w+)\.h"', re.MULTILINE)
_KIND = re.compile(r"add_plugin\(\s*NAME\s+\w+\s+KIND\s+(\w+)")


def listed_kinds(text: str) -> dict[str, set[str]]:
    """Of plugin_kinds.txt."""
    pairs = (line.split(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {kind: set(headers.split()) for kind, headers in pairs}


def closure(headers: set[str], public: dict[str, str]) -> set[str]:
    """With what they include; `public`: the text of each public header by its name."""
    found: set[str] = set()
    open_headers = list(headers)
    while open_headers:
        name = open_headers.pop()
        if name not in found and name in public:
            found.add(name)
            open_headers += _INCLUDE.findall(public[name])
    return found


def kind_violations(kinds: dict[str, set[str]], public: dict[str, str], plugins: dict[str, tuple[str, str]]) -> list[str]:
    """`plugins`: by path of a source, the kind of its plugin and its text. Kinds that are not listed see everything."""
    seen = {kind: closure(headers, public) for kind, headers in kinds.items()}
    found = []
    for path, (kind, text) in sorted(plugins.items()):
        for name in _INCLUDE.findall(text):
            if kind in seen and name not in seen[kind]:
                found.append(f"{path} must not include meshwright/{name}.h, which plugins of kind {kind} do not see (sdk/cmake/plugin_kinds.txt)")
    return found


def plugin_sources(source: Path) -> dict[str, tuple[str, str]]:
    found = {}
    for group in ("plugins", "frontends", "backends"):
        for build in (source / group).rglob("CMakeLists.txt"):
            kind = _KIND.search(build.read_text(encoding="utf-8"))
            for file in [*build.parent.glob("*.h"), *build.parent.glob("*.cpp")] if kind else ():
                if not file.name.endswith("_test.cpp"):
                    found[file.relative_to(source).as_posix()] = (kind.group(1), file.read_text(encoding="utf-8"))
    return found


def public_headers(source: Path) -> dict[str, str]:
    return {file.stem: file.read_text(encoding="utf-8") for file in (source / "kernel/include/meshwright").glob("*.h")}
