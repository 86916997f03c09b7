#!/usr/bin/env python3
"""Time `meshwright plan` on large models: one line for each, with the CPU seconds of the whole command.

    make search-times
    python bench/search/search.py [-o FOLDER] [--program FILE] [--runs N] [NAME ...]

Models are exported once, on the meta device. Each row is the least of N runs, each a process of its own, since whatever
else a machine does can only add to CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "zoo")]
HERE = ROOT / "bench" / "search"


def language(model: str, config: str, batch: int, length: int, **options: object):
    """A model of transformers with its loss, and its inputs."""
    import torch  # noqa: PLC0415  (seconds, and only to export)
    import transformers as hf  # noqa: PLC0415
    import zoo  # noqa: PLC0415

    hf.logging.set_verbosity_error()
    zoo.BATCH = batch
    with torch.device("meta"):
        return zoo.language(getattr(hf, model), getattr(hf, config)(**options), length)


def gpt(layers: int, width: int = 1024, heads: int = 16, batch: int = 16, length: int = 1024):
    return language("GPT2LMHeadModel", "GPT2Config", batch, length, n_layer=layers, n_embd=width, n_head=heads, n_positions=length, vocab_size=50304)


def llama(layers: int, width: int, inner: int, heads: int, batch: int, length: int):
    return language("LlamaForCausalLM", "LlamaConfig", batch, length, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                    num_attention_heads=heads, num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192)


def t5():
    return language("T5ForConditionalGeneration", "T5Config", 16, 512, d_model=1024, d_kv=64, d_ff=4096, num_layers=24, num_heads=16,
                    dropout_rate=0.1, decoder_start_token_id=0)


MODELS: dict[str, Callable] = {
    "gpt2_24": lambda: gpt(24),
    "gpt2_48": lambda: gpt(48),
    "gpt2_96": lambda: gpt(96),
    "llama_8b": lambda: llama(32, 4096, 14336, 32, 16, 2048),
    "llama_70b": lambda: llama(80, 8192, 28672, 64, 64, 4096),
    "t5_large": t5,
    "gpt3_175b": lambda: gpt(96, 12288, 96, 64, 2048),
}


@dataclass
class Row:
    model: str
    cluster: str
    mesh: str = ""  # all shapes, if empty
    options: list[str] = field(default_factory=list)


ROWS = [
    Row("gpt2_24", "roomy8", "2x4"),
    Row("gpt2_24", "roomy8", "2x2x2"),
    Row("gpt2_48", "roomy8", "2x4"),
    Row("gpt2_96", "roomy8", "2x4"),
    Row("llama_8b", "roomy8", "2x2x2"),
    Row("t5_large", "h100x16", "2x8"),
    Row("t5_large", "h100x16", "2x2x4"),
    Row("gpt3_175b", "h100x512", "4x8x16"),
    Row("llama_70b", "h100x64", "8x8", ["--set", "train.microbatches=4"]),
    Row("gpt2_24", "h100x64"),
]


def cluster_file(name: str) -> Path:
    for folder in (HERE, ROOT / "tests" / "zoo", ROOT / "configs" / "clusters"):
        if (folder / f"{name}.toml").exists():
            return folder / f"{name}.toml"
    raise FileNotFoundError(name)


def exported(name: str, folder: Path) -> Path:
    path = folder / f"search_{name}.pt2"
    if not path.exists():
        import zoo  # noqa: PLC0415

        print(f"exporting {name}", file=sys.stderr, flush=True)
        model, inputs = MODELS[name]()
        zoo.meshwright.export(model, {key: value.to("meta") for key, value in inputs.items()}, path)
    return path


def timed(command: list[str]) -> tuple[float, subprocess.CompletedProcess]:
    """CPU seconds, user and system, of one process."""
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, done


def main() -> int:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all if none is named")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "zoo", help="the folder for exported models")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    print(f"{'model':<10} {'mesh':>8} {'CPU s':>7} {'objective':>12} {'gap':>8} {'variables':>9} {'strategies':>10}  how", flush=True)
    for row in ROWS:
        if options.names and row.model not in options.names:
            continue
        command = [str(options.program), "plan", str(exported(row.model, options.output)), "--cluster", str(cluster_file(row.cluster)),
                   "--format", "json", "--set", "train.dtype=bf16", *row.options]
        if row.mesh:
            command += ["--mesh", row.mesh]
        runs = [timed(command) for _ in range(options.runs)]
        seconds = min(run[0] for run in runs)
        done = runs[0][1]
        if done.returncode != 0:
            print(f"{row.model:<10} {row.mesh or 'all':>8} {seconds:>7.2f}  {done.stderr.strip().splitlines()[0][:200]}", flush=True)
            failed += 1
            continue
        plan = json.loads(done.stdout)
        objective, bound = plan["objective_seconds"], plan["lower_bound_seconds"]
        print(f"{row.model:<10} {row.mesh or 'all':>8} {seconds:>7.2f} {1e3 * objective:>9.3f} ms {objective / bound - 1:>8.3%} "
              f"{plan['variables']:>9} {plan['strategies']:>10}  {plan['status']}, {plan['method']}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
