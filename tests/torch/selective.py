#!/usr/bin/env python3
"""Plans whose single ops run again for the backward ([search] recompute = "free" under a tight budget), emitted and run on four ranks next to the
same plans with nothing run again: the same losses and gradients, bit by bit, dropout included; of what is made again nothing is there between
forward and backward, and what autograd keeps falls by what the plan says.

    tests/torch/selective.py --program build/bin/meshwright -o FOLDER [CASE...]
    torchrun --nproc-per-node 4 tests/torch/selective.py FOLDER [CASE...]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
import transformers
from torch.multiprocessing.reductions import StorageWeakRef

from equal import ROOT, emitted, export, sample, waited
from prepare import CLUSTER, run

RANKS, STEPS = 4, 2


def gpt2_dropped():
    config = transformers.GPT2Config(n_layer=3, n_embd=export.WIDTH, n_head=export.HEADS, n_positions=export.LENGTH, vocab_size=export.VOCABULARY,
                                     bos_token_id=0, eos_token_id=0, resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.2, use_cache=False)
    return export.WithLoss(transformers.GPT2LMHeadModel(config)), {"input_ids": export.tokens(), "labels": export.tokens()}


@dataclass
class Case:
    model: str
    share: float  # of what the plan holds that has no budget
    excess: float = 0.03  # what falls besides, over what the plan says: a norm's statistics, which it does not count
    settings: list[str] = field(default_factory=list)


CASES = {
    "gpt2": Case("gpt2_tiny", 0.73),
    "gpt2_deep": Case("gpt2_deep_tiny", 0.6),
    "gpt2_zero3": Case("gpt2_tiny", 0.7, settings=["search.batch_axes=all", "search.zero=3", "search.regather=always"]),
    "llama": Case("llama_tiny", 0.75),
    "gpt2_dropped": Case("gpt2_dropped", 0.75, excess=float("inf")),
}
MODELS = {**export.MODELS, "gpt2_dropped": gpt2_dropped}


def kept_at_turn(trace: Path) -> int:
    """What a rank holds by the plan when its backward begins."""
    events = json.loads(trace.read_text())["traceEvents"]
    turn = min(each["ts"] for each in events if each["ph"] == "X" and each["cat"] == "backward")
    return [each["args"]["bytes"] for each in events if each["ph"] == "C" and each["ts"] <= turn][-1]


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
        file = folder / f"{name}.json"

        def plan(*more: str) -> dict:
            set_to = [part for each in case.settings for part in ("--set", each)]
            run(program, "plan", model, "--cluster", folder / "cluster.toml", "--mesh", "2x2", "-o", file, *set_to, *more)
            return json.loads(file.read_text())

        budget = int(plan()["peak_bytes"] * case.share)
        selective = plan("--set", "search.recompute=free", "--memory-budget", str(budget))
        if all("." in each for each in selective.get("recomputed", [])):
            sys.exit(f"{name}: no single op runs again; give the case another share")
        (folder / f"{name}_kept.json").write_text(json.dumps({**selective, "recomputed": []}))
        for each in (name, f"{name}_kept"):
            run(program, "emit", folder / f"{each}.json", "--backend", "torch", "-o", folder / each)
            run(program, "emit", folder / f"{each}.json", "--backend", "simulate", "-o", folder / each)


class Run:
    """A program's steps: losses, gradients, and what is kept between the forward and the backward."""

    def __init__(self, folder: Path, model_name: str):
        torch.manual_seed(0)
        program, self.sharding = emitted(folder)
        self.watch()
        model = program.Model()
        generator = torch.Generator().manual_seed(1)
        model.load_whole({**dict(model.named_buffers()), **{key: (torch.rand(value.shape, generator=generator) - 0.5).to(value.dtype)
                                                            for key, value in model.whole_state_dict().items()}})
        shards = {each.untyped_storage()._cdata for each in model.parameters()}
        with torch.device("meta"):
            inputs = {key: torch.zeros(value.shape, dtype=value.dtype, device="cpu") for key, value in MODELS[model_name]()[1].items()}
        self.losses, self.gradients, self.left = [], [], 0
        for step in range(STEPS):
            self.saved, self.made = [], []
            with torch.autograd.graph.saved_tensors_hooks(self.note, lambda saved: saved):
                loss = model(*model.local_batch(sample(inputs, step)).values())
            self.bytes = sum({each.cdata: size for each, size in self.saved if not each.expired() and each.cdata not in shards}.values())
            self.left += sum(not each.expired() for each in self.made)
            loss.backward()
            self.losses.append(loss.item())
            self.gradients.append({key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None})
            model.zero_grad()

    def note(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        self.saved.append((StorageWeakRef(storage), storage.nbytes()))
        return tensor

    def watch(self) -> None:
        """Notes what the program keeps, but for parameters that it loads, and what it makes again."""
        pack, again = getattr(self.sharding, "pack", None), getattr(self.sharding, "Again", None)

        def packed(tensor: torch.Tensor):
            made = pack(tensor)
            return self.note(made) if torch.is_tensor(made) else made

        def by(here, number, function, inputs, results) -> None:
            kept = {self.note(each).untyped_storage()._cdata for each in inputs}
            self.made += [StorageWeakRef(each.untyped_storage()) for each in results if each.untyped_storage()._cdata not in kept]
            real(here, number, function, inputs, results)

        if pack is not None:
            self.sharding.pack = packed
        if again is not None:
            real, again.by = again.by, by


def check(folder: Path, name: str) -> str:
    """What is wrong; empty: nothing."""
    case = CASES[name]
    kept, selective = Run(folder / f"{name}_kept", case.model), Run(folder / name, case.model)
    if kept.losses != selective.losses:
        return f"losses are {selective.losses}, not {kept.losses}"
    for step, (wanted, found) in enumerate(zip(kept.gradients, selective.gradients)):
        for key, value in wanted.items():
            if not torch.equal(found[key], value):
                return f"the gradient of {key} in step {step} differs by {(found[key] - value).abs().max()}"
    if not selective.made or selective.left:
        return f"of {len(selective.made)} values that are made again, {selective.left} are kept"
    falls = kept.bytes - selective.bytes
    planned = kept_at_turn(folder / f"{name}_kept" / "trace.json") - kept_at_turn(folder / name / "trace.json")
    if case.excess < float("inf") and not planned <= falls <= planned * (1 + case.excess):
        return f"what is kept falls by {falls} bytes, not {planned}"
    return "" if falls > 0 else "nothing less is kept"


def on_ranks(folder: Path, cases: list[str]) -> int:
    torch.set_num_threads(1)
    wrong = 0
    dist.init_process_group("gloo")
    for case in cases:
        try:
            problem = check(folder, case)
        except Exception as error:  # on every rank: the line says what it was
            if len(cases) == 1:
                raise
            problem = f"{type(error).__name__}: {error}"
        problems: list = [None] * RANKS
        dist.all_gather_object(problems, problem)
        told = [f"rank {rank}: {each}" for rank, each in enumerate(problems) if each]
        if dist.get_rank() == 0:
            print(f"{case:20} {'FAILED: ' + told[0] if told else 'ok'}", flush=True)
        wrong += bool(told)
    dist.destroy_process_group()
    return wrong > 0


def main() -> int:
    if "--program" not in sys.argv:
        return on_ranks(Path(sys.argv[1]), sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    cases = options.cases or [*CASES]
    prepare(options.program, options.output, cases)
    return waited([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__, str(options.output), *cases])


if __name__ == "__main__":
    sys.exit(main())
