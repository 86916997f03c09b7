"""kind_tags.py CMAKE SOURCE: a change of a public header changes the tags of the kinds that see it, and of no other one; a
change of comments changes none."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def tags(cmake: str, source: Path, include: Path) -> dict[str, str]:
    output = include / "abi_tag.h"
    subprocess.run([cmake, f"-DOUTPUT={output}", f"-DINCLUDE={include}", "-DVERSION=0.1.0", "-P", str(source / "sdk/cmake/WriteAbiTag.cmake")], check=True)
    text = output.read_text(encoding="utf-8")
    output.unlink()
    found = dict(re.findall(r'\{"(\w+)", "(\w{16})"\}', text))
    found["all"] = re.search(r'HEADERS_HASH "(\w{16})"', text).group(1)
    return found


def main() -> None:
    cmake, source = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        include = Path(folder) / "include"

        def changed_by(header: str, addition: str) -> set[str]:
            shutil.rmtree(include, ignore_errors=True)
            shutil.copytree(source / "kernel/include", include)
            before = tags(cmake, source, include)
            with (include / "meshwright" / header).open("a", encoding="utf-8") as file:
                file.write(addition)
            after = tags(cmake, source, include)
            assert before.keys() == after.keys() >= {"ops", "passes", "intra", "all"}, before
            return {kind for kind in before if before[kind] != after[kind]}

        for header, addition, wanted in (
                ("program.h", "struct Added;\n", {"passes", "all"}),
                ("local_call.h", "struct Added;\n", {"ops", "passes", "all"}),
                ("strategy.h", "struct Added;\n", {"intra", "passes", "all"}),
                ("backend.h", "struct Added;\n", {"all"}),
                ("op.h", "// A comment.\n", set())):
            changed = changed_by(header, addition)
            assert changed == wanted, f"{header}: {sorted(changed)} changed, not {sorted(wanted)}"
        everyone = changed_by("result.h", "struct Added;\n")
        assert everyone == set(tags(cmake, source, include)), everyone


if __name__ == "__main__":
    main()
