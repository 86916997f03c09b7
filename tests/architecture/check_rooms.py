"""check_rooms.py SOURCE: no file of the kernel includes what lies in a later room (rooms.py)."""

import sys
from pathlib import Path

from rooms import kernel_files, room_violations


def main() -> int:
    files = kernel_files(Path(sys.argv[1]))
    violations = room_violations(files)
    print(f"{len(files)} files, {len(violations)} that are in no room or look into a later one")
    for violation in violations:
        print(violation)
    return 1 if violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
