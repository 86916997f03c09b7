#!/usr/bin/env python3
"""Every ATen op that a family serves stands in kernel/graph/aten/schemas.inc, so that calls of it are checked."""
import json
import pathlib
import subprocess
import sys


def ask(program, *arguments):
    return json.loads(subprocess.run([program, "plugins", *arguments, "--format", "json"], capture_output=True, text=True, check=True).stdout)


def main():
    program, sources = sys.argv[1], pathlib.Path(sys.argv[2])
    known = {line.split('"')[1].split()[0] for line in (sources / "kernel/graph/aten/schemas.inc").read_text().splitlines() if '"' in line}
    families = [plugin["id"] for plugin in ask(program, "list")["plugins"] if plugin["kind"] == "ops"]
    served = {op for family in families for op in ask(program, "describe", "ops/" + family)["serves"] if op.startswith("aten.")}
    missing = sorted(served - known)
    assert len(served) > 400, f"only {len(served)} ops are served: the plugins were not found"
    assert not missing, f"not in kernel/graph/aten/schemas.inc: {', '.join(missing)}; run tools/write_aten_schemas.py PROGRAM"
    print(f"{len(served)} served ops have a schema")


if __name__ == "__main__":
    sys.exit(main())
