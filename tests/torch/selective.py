#!/usr/bin/env python3
"""Plans whose single ops run again for the backward ([search] recompute = "free" under a tight budget), or whose linears take their inputs converted again, emitted and run on four ranks next to the
same plans with nothing run again: the same losses and gradients, bit by bit, dropout included; of what is made again nothing is there between
forward and backward, and what autograd keeps is what the plan says, to 2 %.

    tests/torch/selective.py --program build/bin/meshwright -o FOLDER [CASE...]
    torchrun --nproc-per-node 4 tests/torch/selective.py FOLDER [CASE...]
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
import torchvision
import transformers
from torch.multiprocessing.reductions import StorageWeakRef

from equal import ROOT, emitted, export, run_cases, sample
from prepare import CLUSTER, run

RANKS, STEPS = 4, 2
TOLERANCE = 0.02  # of what is kept: a norm's statistics, which plans don't count


def many_tokens():
    """So many that weights are little of what is held."""
    return {"input_ids": torch.zeros(32, 16, dtype=torch.int64), "labels": torch.zeros(32, 16, dtype=torch.int64)}


def gpt2_dropped():
    config = transformers.GPT2Config(n_layer=3, n_embd=export.WIDTH, n_head=export.HEADS, n_positions=export.LENGTH, vocab_size=export.VOCABULARY,
                                     bos_token_id=0, eos_token_id=0, resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.2, use_cache=False)
    return export.WithLoss(transformers.GPT2LMHeadModel(config)), {"input_ids": export.tokens(), "labels": export.tokens()}


def llama_dropped():
    config = transformers.LlamaConfig(num_hidden_layers=2, hidden_size=export.WIDTH, num_attention_heads=export.HEADS, num_key_value_heads=export.HEADS // 2,
                                      intermediate_size=2 * export.WIDTH, vocab_size=export.VOCABULARY, attention_dropout=0.2, use_cache=False)
    return export.WithLoss(transformers.LlamaForCausalLM(config)), many_tokens()


def mixtral_dropped():
    config = transformers.MixtralConfig(num_hidden_layers=2, hidden_size=export.WIDTH, num_attention_heads=export.HEADS, num_key_value_heads=export.HEADS // 2,
                                        intermediate_size=2 * export.WIDTH, vocab_size=export.VOCABULARY, num_local_experts=4, attention_dropout=0.2, use_cache=False)
    return export.WithLoss(transformers.MixtralForCausalLM(config)), many_tokens()


def resnet_deep():
    block = torchvision.models.resnet.Bottleneck
    model = torchvision.models.ResNet(block, [2, 2, 2, 2], num_classes=export.CLASSES, width_per_group=4)
    return export.Classified(model), export.images(32)


def vit_of_patches():
    """So many that weights are little of what is held; and blocks that torchvision numbers in their names ("encoder_layer_0")."""
    model = torchvision.models.VisionTransformer(image_size=32, patch_size=4, num_layers=3, num_heads=export.HEADS, hidden_dim=4 * export.WIDTH,
                                                 mlp_dim=8 * export.WIDTH, num_classes=export.CLASSES)
    return export.Classified(model), export.images(32)


@dataclass
class Case:
    model: str
    shares: tuple[float, ...]  # budgets, on the way from all blocks running again to none
    settings: list[str] = field(default_factory=list)
    inputs: bool = False  # In place of what the search chose, what linears take is converted again.
    for_nothing: str = ""  # a parameter that PyTorch keeps gathered for a gradient that nobody asks for: a convolution's of data, which no plan counts


CASES = {
    "gpt2": Case("gpt2_dropped", (0.0, 0.15, 0.3)),
    "gpt2_deep": Case("gpt2_deep_tiny", (0.0,)),
    "gpt2_zero3": Case("gpt2_dropped", (0.0,), ["search.batch_axes=all", "search.zero=3", "search.regather=always"]),
    "gpt2_inputs": Case("gpt2_dropped", (0.15, 0.3), inputs=True),
    "llama": Case("llama_dropped", (0.1, 0.4, 0.7)),
    "llama_tiny": Case("llama_tiny", (0.0,)),
    "llama_inputs": Case("llama_tiny", (0.0,), inputs=True),
    "mixtral": Case("mixtral_dropped", (0.0, 0.2, 0.4)),
    "vit_torchvision": Case("vit_of_patches", (0.0,)),
    "resnet": Case("resnet_deep", (0.1, 0.3, 0.5), for_nothing="inner.conv1.weight"),
}
MODELS = {**export.MODELS, "gpt2_dropped": gpt2_dropped, "llama_dropped": llama_dropped, "mixtral_dropped": mixtral_dropped, "resnet_deep": resnet_deep, "vit_of_patches": vit_of_patches}


def runs_of(case: str) -> list[str]:
    return [f"{case}_{share * 100:.0f}" for share in CASES[case].shares]


# Which operand of a product of matrices is no weight.
INPUT = {"aten.linear": 0, "aten.mm": 0, "aten.addmm": 1}


def inputs_of_linears(plan: dict) -> list[str]:
    """By their names in `recomputed`; of blocks, which have numbers."""
    nodes = [each for each in plan["variables"] if each["kind"] == "node" and each["op"] in INPUT and re.search(r"\.\d+\.", each["module"])]
    return [f"{node['name']}:{INPUT[node['op']]}" for node in nodes]


def planned(folder: Path) -> int:
    """What a rank holds for the backward by the plan, where it begins."""
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    turn = min(each["ts"] for each in events if each["ph"] == "X" and each["cat"] == "backward")
    held = [each["args"]["bytes"] for each in events if each["ph"] == "C" and each["ts"] < turn][-1]
    kinds = json.loads((folder / "profile.json").read_text())["peak_by_kind"]
    return held - kinds["parameters"] - kinds["optimizer_state"]


def prepare(program: Path, folder: Path, cases: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.toml").write_text(CLUSTER.format(ranks=RANKS, root=ROOT))
    for name in cases:
        case = CASES[name]
        model = ROOT / "tests/models" / f"{case.model}.pt2"
        if not model.exists():
            with torch.device("meta"):
                made, inputs = MODELS[case.model]()
            model = export.meshwright.export(made.train(), inputs, folder / f"{case.model}.pt2")

        def plan(file: Path, *more: str) -> dict:
            set_to = [part for each in case.settings for part in ("--set", each)]
            run(program, "plan", model, "--cluster", folder / "cluster.toml", "--mesh", "2x2", "--set", "search.step_rounds=0", "-o", file, *set_to, *more)
            return json.loads(file.read_text())

        none = plan(folder / f"{name}.json")["peak_bytes"]
        everything = plan(folder / f"{name}.json", "--set", "search.recompute=all")["peak_bytes"]
        for share, each in zip(case.shares, runs_of(name)):
            selective = plan(folder / f"{each}.json", "--set", "search.recompute=free", "--memory-budget", str(int(everything + share * (none - everything))))
            if not selective.get("recomputed"):
                sys.exit(f"{each}: nothing runs again; give the case another share")
            (folder / f"{each}_kept.json").write_text(json.dumps({**selective, "recomputed": []}))
            if case.inputs:
                (folder / f"{each}.json").write_text(json.dumps({**selective, "recomputed": inputs_of_linears(selective)}))
            for file in (each, f"{each}_kept"):
                run(program, "emit", folder / f"{file}.json", "--backend", "torch", "-o", folder / file)
                run(program, "emit", folder / f"{file}.json", "--backend", "simulate", "-o", folder / file)
                profile = subprocess.run([program, "profile", folder / f"{file}.json", "--format", "json"], check=True, capture_output=True)
                (folder / file / "profile.json").write_bytes(profile.stdout)


class FusedRmsNorm(torch.autograd.Function):
    """Keeps for the backward what PyTorch's kernel for GPUs does. On a CPU F.rms_norm is several ops, which keep x twice."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight, scale = ctx.saved_tensors
        x_hat, g = x * scale, gradient * weight
        return scale * (g - x_hat * (g * x_hat).mean(-1, keepdim=True)), (gradient * x_hat).sum_to_size(weight.shape), None


def rms_norm(x, normalized_shape, weight, eps):
    return FusedRmsNorm.apply(x, weight, eps)


def stored(model) -> set[int]:
    """The storages of its parameters: of the shards, and of what is kept of them from step to step."""
    tensors = [each for shard in model.parameters() for each in (shard, shard.storing.kept) if each is not None]
    return {each.untyped_storage()._cdata for each in tensors}


class Run:
    """A program's steps: losses, gradients, and what is kept between the forward and the backward."""

    def __init__(self, folder: Path, case: Case):
        torch.manual_seed(0)
        self.for_nothing = case.for_nothing
        program, self.sharding = emitted(folder)
        self.watch(program)
        model = program.Model()
        generator = torch.Generator().manual_seed(1)
        model.load_whole({**dict(model.named_buffers()), **{key: (torch.rand(value.shape, generator=generator) - 0.5).to(value.dtype)
                                                            for key, value in model.whole_state_dict().items()}})
        with torch.device("meta"):
            inputs = {key: torch.zeros(value.shape, dtype=value.dtype, device="cpu") for key, value in MODELS[case.model]()[1].items()}
        self.losses, self.gradients, self.left = [], [], 0
        for step in range(STEPS):
            self.saved, self.made, self.beside = [], [], []
            with torch.autograd.graph.saved_tensors_hooks(self.note, lambda saved: saved):
                loss = model(*model.local_batch(sample(inputs, step)).values())
            parameters = stored(model) | {each.cdata for each in self.beside}
            self.held = {each.cdata: size for each, size in self.saved if not each.expired() and each.cdata not in parameters}  # by storage
            self.left += sum(not each.expired() for each in self.made)
            loss.backward()
            self.losses.append(loss.item())
            self.gradients.append({key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None})
            model.zero_grad()

    def note(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        self.saved.append((StorageWeakRef(storage), storage.nbytes()))
        return tensor

    def watch(self, program) -> None:
        """Notes what the program keeps, parameters that are at hand and what blocks take among it, and what it makes again."""
        pack, again = getattr(self.sharding, "pack", None), getattr(self.sharding, "Again", None)

        def packed(tensor: torch.Tensor):
            made = pack(tensor)
            if torch.is_tensor(made) or len(made) == 2:  # a tensor, or one of a unit of parameters that is at hand
                self.note(tensor)
            return made

        def by(here, number, function, inputs, results) -> None:
            kept = {self.note(each).untyped_storage()._cdata for each in inputs}
            self.made += [StorageWeakRef(each.untyped_storage()) for each in results if each.untyped_storage()._cdata not in kept]
            real(here, number, function, inputs, results)

        if pack is not None:
            self.sharding.pack = packed
        if again is not None:
            real, again.by = again.by, by
        loaded_value = self.sharding.loaded_value

        def loaded(shard: torch.nn.Parameter) -> torch.Tensor:
            value = self.note(loaded_value(shard))
            if shard.storing.name == self.for_nothing:
                self.beside.append(StorageWeakRef(value.untyped_storage()))
            return value

        self.sharding.loaded_value = loaded
        recomputed = getattr(program, "recomputed", None)
        if recomputed is not None:
            program.recomputed = lambda block, *inputs: recomputed(block, *map(self.note, inputs))


def check(folder: Path, name: str, case: Case) -> str:
    """What is wrong; empty: nothing."""
    kept, selective = Run(folder / f"{name}_kept", case), Run(folder / name, case)
    if kept.losses != selective.losses:
        return f"losses are {selective.losses}, not {kept.losses}"
    for step, (wanted, found) in enumerate(zip(kept.gradients, selective.gradients)):
        for key, value in wanted.items():
            if not torch.equal(found[key], value):
                return f"the gradient of {key} in step {step} differs by {(found[key] - value).abs().max()}"
    if selective.left:
        return f"of {len(selective.made)} values that are made again, {selective.left} are kept"
    if sum(selective.held.values()) >= sum(kept.held.values()):
        return "nothing less is kept"
    for file, run in ((f"{name}_kept", kept), (name, selective)):
        said, held = planned(folder / file), sum(run.held.values())
        if abs(held - said) > TOLERANCE * said:
            return f"autograd keeps {held} bytes of {file}, and the plan {said}"
    return ""


def on_ranks(folder: Path, cases: list[str]) -> int:
    torch.set_num_threads(1)
    F.rms_norm = rms_norm
    wrong = 0
    dist.init_process_group("gloo")
    runs = [(each, CASES[case]) for case in cases for each in runs_of(case)]
    for name, case in runs:
        try:
            problem = check(folder, name, case)
        except Exception as error:  # on every rank: the line says what it was
            if len(runs) == 1:
                raise
            problem = f"{type(error).__name__}: {error}"
        problems: list = [None] * RANKS
        dist.all_gather_object(problems, problem)
        told = [f"rank {rank}: {each}" for rank, each in enumerate(problems) if each]
        if dist.get_rank() == 0:
            print(f"{name:20} {'FAILED: ' + told[0] if told else 'ok'}", flush=True)
        wrong += bool(told)
    dist.destroy_process_group()
    return wrong > 0


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, RANKS, CASES, prepare, on_ranks))
