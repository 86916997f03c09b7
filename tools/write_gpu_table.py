#!/usr/bin/env python3
"""write_gpu_table.py PAGE FILE... [--gpu NAME] [--check]: brings the table of entry points in docs/gpu.md up to what was
called. Each FILE was written by `meshwright run --backend cuda --set emit.cuda.called=FILE`.

Files of the recording driver say all that is "recorded". What a GPU has called gets NAME, as "H100", behind what others
have; nothing is taken from that column. With --check nothing is written, and what would be is said, with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

ROW = re.compile(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)


def words(cell: str) -> list[str]:
    return [] if cell == "no" else cell.split(", ")


def cell(parts: list[str]) -> str:
    return ", ".join(parts) or "no"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    called: dict[str, set[str]] = {"recording": set(), "nvidia": set()}
    for file in arguments.files:
        said = json.loads(file.read_text())
        called[said["driver"]].update(said["called"])
    if called["nvidia"] and not arguments.gpu:
        parser.error("--gpu says which one the files of the driver 'nvidia' are of")

    def row(found: re.Match[str]) -> str:
        name, seen, on_gpu = found[1], words(found[2]), words(found[3])
        if called["recording"]:
            seen = ["recorded"] * (name in called["recording"]) + [word for word in seen if word != "recorded"]
        if name in called["nvidia"] and arguments.gpu not in on_gpu:
            on_gpu.append(arguments.gpu)
        return f"| `{name}` | {cell(seen)} | {cell(on_gpu)} |"

    text = arguments.page.read_text()
    rows = {found[1] for found in ROW.finditer(text)}
    unknown = (called["recording"] | called["nvidia"]) - rows
    if unknown:
        print(f"{arguments.page} has no row for: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    changed = ROW.sub(row, text)
    if not arguments.check:
        arguments.page.write_text(changed)
        return 0
    before, after = text.splitlines(), changed.splitlines()
    for old, new in zip(before, after):
        if old != new:
            print(f"{old}\nshould be\n{new}", file=sys.stderr)
    return int(text != changed)


if __name__ == "__main__":
    sys.exit(main())
