"""check_exports.py PLUGIN...: each plugin exports exactly one symbol, meshwright_plugin."""

import subprocess
import sys


def violation(path: str, symbols: list[str]) -> str | None:
    """What is wrong with a plugin that exports `symbols`, or None."""
    if symbols == ["meshwright_plugin"]:
        return None
    listed = ", ".join(symbols) if symbols else "nothing"
    return f"{path} must export meshwright_plugin and nothing else, but exports {listed}"


def exported(path: str) -> list[str]:
    lines = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    # Absolute symbols are the names of symbol versions, not code or data.
    return sorted(line.split()[-1] for line in lines.splitlines() if line.split()[-2] != "A")


def main() -> int:
    violations = [text for path in sys.argv[1:] if (text := violation(path, exported(path)))]
    print(f"{len(sys.argv) - 1} plugins, {len(violations)} that export something else than they should")
    for text in violations:
        print(text)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
