"""check_arrows.py SOURCE BUILD: no include and no link of the build crosses a forbidden arrow."""

import os
import sys
from pathlib import Path

from arrows import include_violations, link_violations
from ninja_build import read_compilations, read_links


def main() -> int:
    root, build = (os.path.realpath(argument) for argument in sys.argv[1:3])
    compilations = read_compilations(Path(build))
    links = read_links(Path(build))
    violations = include_violations(compilations, root, build) + link_violations(links, root, build)
    print(f"{len(compilations)} compilations and {len(links)} links, {len(violations)} forbidden arrows")
    for violation in violations:
        print(violation)
    if not compilations or not links:
        print("nothing was checked: is this a Ninja build folder that was built?")
        return 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
