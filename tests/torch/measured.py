"""What tests of machines and links that ranks measure share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch.distributed as dist


def start(script: str, program: Path, folder: Path, ranks: int) -> None:
    """Run a script on ranks that keep what they measure in a folder of theirs."""
    environment = {**os.environ, "MESHWRIGHT_PROGRAM": str(program), "MESHWRIGHT_CACHE": f"{folder}/cache", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), script, "--program", program,
                    "--folder", folder], env=environment, check=True)


def spoil(folder: Path) -> None:
    """Leave what was kept in a folder as a full disk does. All ranks call it."""
    kept, = folder.iterdir()
    dist.barrier()
    if dist.get_rank() == 0:
        kept.write_text(kept.read_text()[:100])
    dist.barrier()
