"""check_sizes.py SOURCE: no source file of the project has more than 500 lines (docs: about 150, review at 300)."""

import subprocess
import sys
from pathlib import Path

LIMIT = 500
SUFFIXES = {".h", ".cpp", ".py", ".cu", ".cmake"}
SKIPPED = {".git", "__pycache__"}


def project_files(root: Path) -> list[Path]:
    """What git tracks; in a source archive without git, everything but build folders."""
    listing = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True)
    if listing.returncode == 0 and listing.stdout:
        return [root / line for line in listing.stdout.splitlines()]
    return [path for path in root.rglob("*") if not any(part in SKIPPED or part.startswith("build")
                                                        for part in path.relative_to(root).parts)]


def too_long(root: Path) -> list[str]:
    violations = []
    for path in project_files(root):
        if path.suffix in SUFFIXES and path.is_file():
            lines = len(path.read_text(encoding="utf-8", errors="replace").splitlines())
            if lines > LIMIT:
                violations.append(f"{path.relative_to(root)} has {lines} lines, more than {LIMIT}: split it")
    return sorted(violations)


def main() -> int:
    violations = too_long(Path(sys.argv[1]))
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
