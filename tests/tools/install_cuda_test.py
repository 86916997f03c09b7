#!/usr/bin/env python3
"""What tools/install_cuda.sh decides: install_cuda_test.py TOOLS. nvcc, python3 and pip are scripts that say what they were
told to and note what they were asked for, so that nothing is downloaded."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(sys.argv.pop(1))
# Nothing else is on the PATH: a machine's own nvcc does not count.
CALLED = ("cat", "chmod", "cmp", "cp", "dirname", "mkdir", "sed", "sh")

PYTHON = """#!/bin/sh
if [ "$1" = -c ]; then
  for library in $LIBRARIES; do [ "$library" != "$3" ] || exit 0; done
  exit 1
fi
for folder in "$@"; do :; done
mkdir -p "$folder/bin"
cat >"$folder/bin/pip" <<'PIP'
#!/bin/sh
echo "$@" >>"$NOTES"
exit "$PIP_STATUS"
PIP
chmod +x "$folder/bin/pip"
"""
ALL_13 = "libcudart.so.13 libcublasLt.so.13 libnvrtc.so.13 libcudnn.so.9 libnccl.so.2"
ALL_12 = "libcudart.so.12 libcublasLt.so.12 libnvrtc.so.12 libcudnn.so.9 libnccl.so.2"


class InstallCuda(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.folder = self.root / "cuda"
        self.notes = self.root / "notes"
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for name in CALLED:
            (self.bin / name).symlink_to(shutil.which(name))
        self.script(self.bin / "python3", PYTHON)

    def script(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def nvcc(self, path: Path, release: str) -> None:
        self.script(path, f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")

    def run_script(self, version: str = "", libraries: str = "", pip_status: int = 0, **environment: str) -> subprocess.CompletedProcess:
        settings = {"PATH": str(self.bin), "CUDA_USUAL": str(self.root / "usual"), "LIBRARIES": libraries, "NOTES": str(self.notes),
                    "PIP_STATUS": str(pip_status), **environment}
        command = ["sh", str(TOOLS / "install_cuda.sh"), str(self.folder), *version.split()]
        return subprocess.run(command, env=settings, capture_output=True, text=True, check=False)

    def installed(self) -> list[str]:
        """The lists that pip was given."""
        return [Path(line.split()[-1]).name for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    def test_nothing_where_the_system_has_all(self):
        for place in (self.bin / "nvcc", self.root / "usual" / "bin" / "nvcc"):
            for release, libraries in (("13.0", ALL_13), ("12.4", ALL_12)):
                self.nvcc(place, release)
                done = self.run_script(libraries=libraries)
                self.assertEqual((done.returncode, done.stderr, self.installed()), (0, "", []))
                self.assertIn(f"the system has {place} and the libraries, all of CUDA {release[:2]}", done.stdout)
                self.assertFalse(self.folder.exists())
            place.unlink()

    def test_13_where_the_system_has_nothing(self):
        done = self.run_script()
        self.assertEqual((done.returncode, self.installed()), (0, ["cuda13.txt"]))
        self.assertIn("has not: nvcc libcudart.so.13 libcublasLt.so.13 libnvrtc.so.13 libcudnn.so.9 libnccl.so.2\n", done.stdout)
        self.assertEqual((self.folder / "requirements.txt").read_text(), (TOOLS / "cuda13.txt").read_text())
        for version in ("", "13"):
            again = self.run_script(version)
            self.assertEqual((again.returncode, again.stdout), (0, f"cuda: {self.folder} has CUDA 13\n"))
        self.assertEqual(self.installed(), ["cuda13.txt"])

    def test_what_the_systems_nvcc_can_use(self):
        for release, libraries, wanted, missing in (("13.1", ALL_12, "cuda13.txt", "libcudart.so.13 libcublasLt.so.13 libnvrtc.so.13"),
                                                    ("12.8", "libcudart.so.12", "cuda12.txt", "libcublasLt.so.12 libnvrtc.so.12 libcudnn.so.9 libnccl.so.2"),
                                                    ("11.8", ALL_13, "cuda13.txt", "nvcc")):
            self.nvcc(self.bin / "nvcc", release)
            done = self.run_script(libraries=libraries)
            self.assertEqual((done.returncode, self.installed()), (0, [wanted]))
            self.assertIn(f"has not: {missing}\n", done.stdout)
            shutil.rmtree(self.folder)
            self.notes.unlink()

    def test_cuda_path_goes_before_path(self):
        self.nvcc(self.bin / "nvcc", "13.0")
        self.nvcc(self.root / "other" / "bin" / "nvcc", "12.0")
        done = self.run_script(libraries=ALL_12, CUDA_PATH=str(self.root / "other"))
        self.assertIn("all of CUDA 12; nothing is installed", done.stdout)

    def test_wheels_where_they_are_asked_for(self):
        self.nvcc(self.bin / "nvcc", "13.0")
        self.run_script(libraries=ALL_13, CUDA_FROM="wheels")
        self.assertEqual(self.installed(), ["cuda13.txt"])

    def test_another_version_replaces_one(self):
        self.nvcc(self.bin / "nvcc", "12.9")
        self.run_script(libraries=ALL_12, CUDA_FROM="wheels")
        self.assertEqual(self.installed(), ["cuda13.txt"])
        self.run_script("12", libraries=ALL_12)  # else CMake would take those of 13
        self.assertEqual(self.installed(), ["cuda13.txt", "cuda12.txt"])

    def test_12_is_refused_without_a_compiler(self):
        for release in (None, "13.0"):
            if release:
                self.nvcc(self.bin / "nvcc", release)
            for source in ("system", "wheels"):
                done = self.run_script("12", libraries=ALL_12, CUDA_FROM=source)
                self.assertEqual((done.returncode, self.installed()), (1, []))
                self.assertIn("there is no nvcc in nvidia-cuda-nvcc-cu12", done.stderr)

    def test_what_failed_is_tried_again(self):
        self.assertNotEqual(self.run_script(pip_status=1).returncode, 0)
        self.assertEqual(self.run_script().returncode, 0)
        self.assertEqual(self.installed(), ["cuda13.txt"] * 2)

    def test_other_words_are_refused(self):
        for version, source in (("11", "system"), ("13", "here")):
            done = self.run_script(version, CUDA_FROM=source)
            self.assertEqual((done.returncode, self.installed()), (2, []))
            self.assertIn("usage: ", done.stderr)

    def test_lists_name_one_version_each(self):
        for name in ("cuda12.txt", "cuda13.txt"):
            lines = [line for line in (TOOLS / name).read_text().splitlines() if not line.startswith("#")]
            for line in lines:
                self.assertRegex(line, r"^nvidia-[a-z0-9-]+==\d+(\.\d+)+$")
            packages = [re.sub(r"-cu\d+$", "", line.split("==")[0]) for line in lines]
            self.assertEqual(len(set(packages)), len(packages))
            self.assertLessEqual({"nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-cudnn", "nvidia-nccl"}, set(packages))
            self.assertEqual("nvidia-cuda-nvcc" in packages, name == "cuda13.txt")


if __name__ == "__main__":
    unittest.main()
