"""Ranks of cases that hold (forked.py). Each file's cases run in processes of their own: PyTorch's threads add up."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import transformers.models.gpt_oss.modeling_gpt_oss  # noqa: F401  (once for all ranks)

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from cases import main  # noqa: E402
from forked import next_rank  # noqa: E402

FILES = {path.stem: importlib.import_module(path.stem) for path in sorted(Path(__file__).parent.glob("*cases.py"))}

asked = next_rank()
if asked is not None:
    main(FILES[asked["case"]].CASES, asked["cases"])
