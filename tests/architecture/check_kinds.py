"""check_kinds.py SOURCE: no plugin includes a header of the kernel that its kind does not see (kinds.py)."""

import sys
from pathlib import Path

from kinds import kind_violations, listed_kinds, plugin_sources, public_headers


def main() -> int:
    source = Path(sys.argv[1])
    kinds = listed_kinds((source / "sdk/cmake/plugin_kinds.txt").read_text(encoding="utf-8"))
    plugins = plugin_sources(source)
    violations = kind_violations(kinds, public_headers(source), plugins)
    print(f"{len(plugins)} files of plugins, {len(violations)} includes that their kinds do not see")
    for violation in violations:
        print(violation)
    return 1 if violations or not plugins or not kinds else 0


if __name__ == "__main__":
    sys.exit(main())
