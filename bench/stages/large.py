#!/usr/bin/env python3
"""Models of many layers on many devices, planned by `[search] inter = "joint"`: what is chosen, and what choosing takes.

    bench/stages/large.py [--program build/bin/meshwright] [-o build/large] [--set KEY=VALUE ...] [--log] [NAME ...]

Models are on the meta device and exported once, into the folder. Growth: gpt_12, gpt_24, gpt_48, gpt_96 are GPTs of so many layers of 2048 on 64 A100s, and
gpt_24_on_512, gpt_24_on_4096 one of them on more devices, with as many texts for each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers as hf

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import meshwright  # noqa: E402  (found through the paths above)
from export import WithLoss  # noqa: E402

SETTINGS = ["train.param_dtype=bf16", 'search.recompute="free"', "search.step_rounds=0", "search.sure=false", 'search.inter="joint"']


def gpt(layers: int, width: int, heads: int, length: int):
    return hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=layers, n_embd=width, n_head=heads, n_positions=length, use_cache=False))


def llama(layers: int, width: int, inner: int, heads: int, length: int):
    return hf.LlamaForCausalLM(hf.LlamaConfig(
        hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=8, vocab_size=128256,
        max_position_embeddings=length, use_cache=False))


def qwen_of_experts():
    """256 experts, 8 for a token."""
    return hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(
        hidden_size=4096, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, moe_intermediate_size=1536, shared_expert_intermediate_size=4096,
        num_experts=256, num_experts_per_tok=8, use_cache=False))


def deepseek_v3():
    """The configuration's default sizes are DeepSeek-V3's: 61 layers of 7168, 58 of them with 256 experts of 2048, 8 for a token."""
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(use_cache=False))


@dataclass(frozen=True)
class Large:
    make: Callable[[], torch.nn.Module]
    texts: int
    length: int
    cluster: str


LARGE = {
    "gpt2_24": Large(lambda: gpt(24, 1024, 16, 1024), 32, 1024, "configs/clusters/a100x8_nvswitch.toml"),
    "llama_70b": Large(lambda: llama(80, 8192, 28672, 64, 8192), 64, 8192, "configs/clusters/h100x64.toml"),
    "gpt3_175b": Large(lambda: gpt(96, 12288, 96, 2048), 1536, 2048, "bench/stages/a100x1024.toml"),
    "llama_405b": Large(lambda: llama(126, 16384, 53248, 128, 8192), 2048, 8192, "bench/stages/h100x16384.toml"),
    "deepseek_v3": Large(deepseek_v3, 2048, 4096, "bench/stages/h100x512.toml"),
    "llama_8b_128k": Large(lambda: llama(32, 4096, 14336, 32, 131072), 1, 131072, "configs/clusters/h100x64.toml"),
    "moe_256": Large(qwen_of_experts, 256, 4096, "configs/clusters/h100x64.toml"),
}
GROWTH = {f"gpt_{layers}" + (f"_on_{devices}" if devices > 64 else ""): (layers, devices) for layers, devices in ((12, 64), (24, 64), (48, 64), (96, 64), (24, 512), (24, 4096))}


def cluster_of(devices: int, folder: Path) -> Path:
    """The A100s of a100x1024.toml, but so many."""
    text = (ROOT / "bench" / "stages" / "a100x1024.toml").read_text()
    for before, after in (("nodes = 128", f"nodes = {devices // 8}"), ("group = 1024", f"group = {devices}"), ("x1024", f"x{devices}"), ("../../", f"{ROOT}/")):
        text = text.replace(before, after)
    file = folder / f"a100x{devices}.toml"
    file.write_text(text)
    return file


def case(name: str, folder: Path) -> Large:
    if name in LARGE:
        return LARGE[name]
    layers, devices = GROWTH[name]
    return Large(lambda: gpt(layers, 2048, 16, 1024), 8 * devices, 1024, str(cluster_of(devices, folder)))


def exported(large: Large, file: Path) -> Path:
    if not file.exists():
        with torch.device("meta"):
            model, tokens = large.make(), torch.zeros(large.texts, large.length, dtype=torch.int64)
            meshwright.export(WithLoss(model).train(), {"input_ids": tokens, "labels": tokens.clone()}, file)
    return file


def row(name: str, folder: Path, program: Path, settings: list[str], log: bool) -> str:
    large = case(name, folder)
    model = exported(large, folder / f"{name}.pt2")
    command = [str(program), "plan", str(model), "--cluster", str(ROOT / large.cluster), "-o", str(folder / f"{name}.json"), "--format", "json"]
    for each in [*SETTINGS, *settings]:
        command += ["--set", each]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=None if log else subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    memory = f"{after.ru_maxrss / 2**20:.1f} GiB at most until now"
    if run.returncode != 0:
        return f"{name:16} {seconds:7.1f} CPU s, {memory}: exit status {run.returncode}\n{run.stderr or ''}"
    search = json.loads(run.stdout)["stage_search"]
    chosen = search["chosen"]
    schedule = f" by {chosen['schedule']}" if chosen["schedule"] else ""
    return (f"{name:16} {seconds:7.1f} CPU s, {memory}: {chosen['step_seconds'] * 1e3:.1f} ms, not below {search['step_lower_bound_seconds'] * 1e3:.1f} ms: "
            f"{chosen['stages']} stages{schedule}, {chosen['microbatches']} microbatches")


def main() -> int:
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*LARGE, *GROWTH]))
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright", help="the planner")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "large", help="the folder for exported models")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="over the settings of all rows")
    parser.add_argument("--log", action="store_true", help="show what the planner says")
    options = parser.parse_args()
    for name in options.names:
        if name not in LARGE and name not in GROWTH:
            parser.error(f"no model named {name!r}; known: {', '.join([*LARGE, *GROWTH])}")
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or [*LARGE, *GROWTH]:
        print(row(name, options.output, options.program, options.set, options.log), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
