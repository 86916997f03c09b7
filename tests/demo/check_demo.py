"""check_demo.py SOURCE PROGRAM KERNEL PLUGIN...: what `make demo` does, by a copy of the program that has these plugins alone."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0 or "warning" in said or "not computed" in said:
        sys.exit(f"{' '.join(command)} ends with {done.returncode}; a plugin that it needs is not in MESHWRIGHT_DEMO_PLUGINS?\n{said}")
    return said


def main() -> None:
    source, program, kernel, *plugins = (Path(argument) for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        shutil.copy(program, here)
        shutil.copy(kernel, here)
        for plugin in plugins:
            kind = here / "plugins" / plugin.parent.name
            kind.mkdir(parents=True, exist_ok=True)
            shutil.copy(plugin, kind)
        copy = str(here / program.name)
        cluster = str(source / "configs/clusters/a100x8_nvlink_pairs.toml")
        for model, settings in (("gpt2_small", ()), ("gpt2_mini", ("--set", "train.param_dtype=exported"))):
            run(copy, "plan", str(source / f"examples/{model}.pt2"), "--cluster", cluster, "--config", str(source / "configs/demo.toml"), *settings,
                "-o", str(here / "plan.json"))
        said = run(copy, "verify", str(here / "plan.json"))
        assert "8 ranks compute what 1 computes" in said, said


if __name__ == "__main__":
    main()
