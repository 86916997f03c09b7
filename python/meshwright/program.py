"""The ``meshwright`` program, which lies in this package with its plugins.

``python -m meshwright`` and the console script run it with the arguments given.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from meshwright.errors import Error
from meshwright.saying import say

PACKAGE = Path(__file__).resolve().parent


def path() -> Path:
    """Where the program is: ``MESHWRIGHT_PROGRAM`` if that is set, else inside this package."""
    named = os.environ.get("MESHWRIGHT_PROGRAM")
    program = Path(named) if named else PACKAGE / "bin" / "meshwright"
    if not os.access(program, os.X_OK) or program.is_dir():
        raise Error(f"{program}: the meshwright program is not there; install the package with pip install, or set "
                    "MESHWRIGHT_PROGRAM to a program that was built")
    return program


def configs() -> Path:
    """The folder with ``clusters`` and ``devices``: installed beside the program, or of the source tree."""
    for folder in (PACKAGE / "share" / "meshwright" / "configs", PACKAGE.parents[1] / "configs"):
        if (folder / "devices").is_dir():
            return folder
    raise Error(f"{PACKAGE}: the package has no folder share/meshwright/configs; install it again with pip install")


def run(arguments: Sequence[str | os.PathLike[str]]) -> str:
    """Run the program and give what it printed; its error is raised with its exit code."""
    done = subprocess.run([path(), *map(os.fspath, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.rpartition("meshwright: error: ")[2].splitlines()
    message = "; ".join(line.strip() for line in said if line.strip()) or "it said nothing"
    if done.returncode < 0:
        raise Error(f"the meshwright program was ended by signal {-done.returncode}: {message}", 1)
    raise Error(message, done.returncode)


def main() -> None:
    """Become the program."""
    try:
        program = path()
    except Error as error:
        say(f"error: {error}")
        raise
    os.execv(program, [str(program), *sys.argv[1:]])
