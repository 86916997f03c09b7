#!/usr/bin/env python3
"""The clock against a GPU: steps and memory of planned programs on one device, measured beside what their plans say.

    bench/gpu/clock.py prepare --program build/bin/meshwright FOLDER [--device h200_141gb]   # on any machine: exports, plans, programs
    bench/gpu/clock.py run FOLDER [CASE...] [--compile SECONDS]                              # where the GPU is
    bench/gpu/clock.py machine FOLDER                                                        # measures it as the package does, and says what shipped files say

Each case is a model, planned for one device with the device files of FOLDER. A step is forward, backward, and AdamW in one kernel (fused); the median of
ten after three, by CUDA events. Beside it stands the ordinary model, eager, in the same precision: values in bfloat16 that are copies of float32 masters,
made once a step. With --compile, also the ordinary model under torch.compile. Memory is what PyTorch's allocator counted at most within a step. Without a
GPU models are tiny and everything runs on the CPU, to see that it does.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/models")]
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

WARM, STEPS = 3, 10
SHIPPED = ["h200_141gb", "h100_80gb"]
CLUSTER = 'name = "{device}"\nnodes = 1\ndevices_per_node = 1\ndevice = "{file}"\n'


@dataclass
class Case:
    model: str
    settings: list[str] = field(default_factory=list)
    share: float = 0.0  # of the peak of the plan before, into which this one is to fit
    plain: bool = True  # whether the ordinary model is measured, too


BF16 = ["train.param_dtype=bf16"]
CASES = {
    "gpt2": Case("gpt2", BF16),
    "gpt2_again": Case("gpt2", [*BF16, "search.recompute=free"], share=0.7, plain=False),
    "llama": Case("llama", BF16),
    "resnet50": Case("resnet50", BF16),
    "bert": Case("bert", BF16),
    "gpt2_fp32": Case("gpt2_short"),
    "resnet50_fp32": Case("resnet50"),
}


# --- models: at their size, and tiny ones that a CPU can do ---

def texts(batch: int, length: int, *names: str) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(batch, length, dtype=torch.int64) for name in names}


def gpt2(batch: int, tiny: bool):
    import export
    import transformers

    width, heads, length, words = (64, 4, 32, 128) if tiny else (2048, 16, 1024, 50304)
    config = transformers.GPT2Config(n_layer=2 if tiny else 4, n_embd=width, n_head=heads, n_positions=length, vocab_size=words, resid_pdrop=0.0, embd_pdrop=0.0,
                                     attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0)
    return export.WithLoss(transformers.GPT2LMHeadModel(config)), texts(2 if tiny else batch, length, "input_ids", "labels")


def llama(tiny: bool):
    import export
    import transformers

    width, heads, length, words = (64, 4, 32, 128) if tiny else (2048, 16, 2048, 32000)
    config = transformers.LlamaConfig(num_hidden_layers=2 if tiny else 4, hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads // 2,
                                      intermediate_size=11 * width // 4, vocab_size=words, max_position_embeddings=length, use_cache=False)
    return export.WithLoss(transformers.LlamaForCausalLM(config)), texts(2 if tiny else 8, length, "input_ids", "labels")


def bert(tiny: bool):
    import export
    import transformers

    width, heads, length, words = (64, 4, 32, 128) if tiny else (1024, 16, 512, 30528)
    config = transformers.BertConfig(num_hidden_layers=2 if tiny else 8, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width, vocab_size=words,
                                     max_position_embeddings=length, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return export.WithLoss(transformers.BertForMaskedLM(config)), texts(2 if tiny else 32, length, "input_ids", "labels")


def resnet50(tiny: bool):
    import export
    import torchvision

    size = 32 if tiny else 224
    model = torchvision.models.resnet18(num_classes=10) if tiny else torchvision.models.resnet50()
    return export.Classified(model), {"images": torch.zeros(4 if tiny else 64, 3, size, size), "labels": torch.zeros(4 if tiny else 64, dtype=torch.int64)}


MODELS: dict[str, Callable[[bool], tuple]] = {"gpt2": lambda tiny: gpt2(16, tiny), "gpt2_short": lambda tiny: gpt2(4, tiny), "llama": llama, "bert": bert,
                                             "resnet50": resnet50}


def sample(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {name: torch.randn(x.shape, generator=generator) if x.is_floating_point() else torch.randint(2, 10 if x.dim() == 1 else 100, x.shape, generator=generator)
            for name, x in inputs.items()}


# --- preparing ---

def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def time_line(trace: Path) -> dict[str, dict[str, float]]:
    """Seconds of a simulated step by phase, and by op of the computing stream."""
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X" and event["tid"] == 0]
    phases, ops = Counter(), Counter()
    for event in events:
        phases[event["cat"]] += event["dur"] / 1e6
        ops[f"{event['cat']} {event['name']}"] += event["dur"] / 1e6
    return {"phases": phases, "ops": dict(ops.most_common(40))}


def prepare(folder: Path, program: Path, tiny: bool, names: list[str]) -> None:
    import meshwright

    peak = 0
    for device in SHIPPED:
        (folder / device).mkdir(parents=True, exist_ok=True)
        (folder / device / "cluster.toml").write_text(CLUSTER.format(device=device, file=ROOT / "configs/devices" / f"{device}.toml"))
    for model_name in dict.fromkeys(CASES[name].model for name in names):
        with torch.device("meta"):
            model, inputs = MODELS[model_name](tiny)
        meshwright.export(model.train(), inputs, folder / f"{model_name}.pt2")
    for device in SHIPPED:
        for name in names:
            each, place = CASES[name], folder / device / name
            place.mkdir(exist_ok=True)
            plan = place / "plan.json"
            settings = [*each.settings, *([f"search.memory_budget={int(peak * (0.99 if tiny else each.share))}B"] if each.share else [])]
            run(program, "plan", folder / f"{each.model}.pt2", "--cluster", folder / device / "cluster.toml", "-o", plan, *(part for one in settings for part in ("--set", one)))
            made = json.loads(plan.read_text())
            run(program, "simulate", plan, "--trace", place / "trace.json")
            said = {"seconds": made["step_seconds"], "peak": made["peak_bytes"], "memory": made.get("memory"), **time_line(place / "trace.json")}
            peak = peak if each.share else made["peak_bytes"]
            (place / "said.json").write_text(json.dumps(said))
            if device == SHIPPED[0]:  # the program is the same
                run(program, "emit", plan, "--backend", "torch", "-o", place)
            plan.unlink()
            (place / "trace.json").unlink()
            print(f"{device} {name}: {1000 * said['seconds']:.2f} ms, {said['peak'] / 2**20:.0f} MiB")
    for each in folder.glob("*.pt2"):
        each.unlink()


# --- measuring ---

def emitted(folder: Path):
    made = {}
    for name in ("sharding", "model"):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        made[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made[name])
    return made["model"]


def mark(device: str):
    if device == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(begun, ended) -> float:
    return ended - begun if isinstance(begun, float) else begun.elapsed_time(ended) / 1000


@dataclass
class Measured:
    seconds: float
    phases: list[float]  # forward, backward, update
    peak: int
    loss: float          # of the first step
    before: int          # bytes that were held before anything was made


def measured(device: str, steps_of: Callable[[], tuple[Callable, Callable]], profile: Path | None = None, warm: int = WARM) -> Measured:
    """`steps_of` makes what gives a loss, and what follows the backward."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
    forward, update = steps_of()
    times, first = [], None
    for number in range(warm + STEPS):
        if number == warm and device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        marks = [mark(device)]
        loss = forward()
        marks.append(mark(device))
        loss.backward()
        marks.append(mark(device))
        update()
        marks.append(mark(device))
        first = loss.detach() if first is None else first
        del loss
        times.append(marks)
    if device == "cuda":
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    rows = sorted([[between(a, b) for a, b in zip(marks, marks[1:])] for marks in times[warm:]], key=sum)
    middle = [sorted(row[i] for row in rows)[STEPS // 2] for i in range(3)]
    whole = sorted(between(times[i][0], times[i + 1][0]) for i in range(warm, warm + STEPS - 1))
    if profile is not None and device == "cuda":
        try:
            profiled(forward, update, profile)
        except Exception:  # noqa: BLE001
            traceback.print_exc()
    return Measured(whole[len(whole) // 2], middle, peak, first.item(), before if device == "cuda" else 0)


def profiled(forward: Callable, update: Callable, log: Path) -> None:
    """The kernels of a step, into a log."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        forward().backward()
        update()
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = {}
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found = kernels.setdefault(event.name, [0, 0.0])
            found[0] += 1
            found[1] += event.device_time_total / 1000
    with log.open("a", encoding="utf-8") as file:
        print(f"  {sum(count for count, _ in kernels.values())} kernels, {sum(ms for _, ms in kernels.values()):.2f} ms of kernels", file=file)
        for name, (count, ms) in sorted(kernels.items(), key=lambda pair: -pair[1][1])[:24]:
            print(f"  {ms:9.3f} ms {count:5} x {re.sub(r'<.*', '', name)[:60]} {name[-50:] if len(name) > 60 else ''}", file=file)


def optimizer_of(parameters) -> torch.optim.Optimizer:
    return torch.optim.AdamW(list(parameters), lr=1e-4, fused=True)


class Plain:
    """The ordinary model with masters of its own."""

    def __init__(self, name: str, tiny: bool, device: str, half: bool):
        self.model, inputs = made(name, tiny, device)
        self.inputs = {key: x.to(device) for key, x in sample(inputs).items()}
        self.values = [*self.model.parameters()]
        self.masters = self.values
        if half:
            self.masters = [value.detach().clone().requires_grad_() for value in self.values]
            self.model.to(torch.bfloat16)
            self.inputs = {key: x.to(torch.bfloat16) if x.is_floating_point() else x for key, x in self.inputs.items()}
        self.optimizer = optimizer_of(self.masters)
        self.run = self.model

    def forward(self) -> torch.Tensor:
        if self.masters is not self.values:
            with torch.no_grad():
                torch._foreach_copy_(self.values, self.masters)
        return self.run(**self.inputs)

    def update(self) -> None:
        if self.masters is not self.values:
            for master, value in zip(self.masters, self.values):
                master.grad, value.grad = None if value.grad is None else value.grad.float(), None
        self.optimizer.step()
        self.optimizer.zero_grad()


def made(name: str, tiny: bool, device: str):
    torch.manual_seed(0)
    with torch.device(device):
        model, inputs = MODELS[name](tiny)
    return model.train(), {key: torch.zeros(x.shape, dtype=x.dtype) for key, x in inputs.items()}


def ours(folder: Path, name: str, tiny: bool, device: str) -> tuple[Callable, Callable]:
    program = emitted(folder)
    serial, inputs = made(name, tiny, device)
    model = program.Model()
    known = {*model.state_dict(), *model.TIED}
    model.load_whole({key: value for key, value in {**dict(serial.named_buffers()), **serial.state_dict()}.items() if key in known})
    del serial
    gc.collect()
    wanted = {key: layout for key, layout in model.INPUTS.items()}
    batch = {key: x.to(torch.bfloat16) if x.is_floating_point() and any(s.storing.dtype == torch.bfloat16 for s in model.parameters()) else x
             for key, x in sample(inputs).items()}
    local = [*model.local_batch({key: batch[key] for key in wanted}).values()]
    optimizer = optimizer_of(model.parameters())

    def update() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return lambda: model(*local), update


class Late(Exception):
    pass


def late(*_: object) -> None:
    raise Late("it took too long")


def compare(folder: Path, names: list[str], device: str, tiny: bool, log: Path | None) -> int:
    join(device)
    chip = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    shipped = next((each for each in SHIPPED if each.split("_")[0].upper() in chip.upper()), SHIPPED[0])
    if names[0] == next(iter(CASES)):
        print(f"{chip}, predictions of {shipped}: ms of a step [forward/backward/update], peak in MiB; then the ordinary model")
    wrong = 0
    for name in names:
        each = CASES[name]
        said = json.loads((folder / shipped / name / "said.json").read_text())
        half = each.settings[:1] == BF16
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                print(f"{name}: predicted {json.dumps(said)}", file=file)
        try:
            own = measured(device, lambda: ours(folder / SHIPPED[0] / name, each.model, tiny, device), log)
            phases = "/".join(f"{1000 * seconds:.2f}" for seconds in own.phases)
            predicted = "/".join(f"{1000 * said['phases'].get(phase, 0.0):.2f}" for phase in ("forward", "backward", "update"))
            print(f"{name:13} {1000 * own.seconds:.2f} pred {1000 * said['seconds']:.2f} ({100 * (said['seconds'] / own.seconds - 1):+5.1f} %) [{phases} pred {predicted}] "
                  f"peak {own.peak / 2**20:.0f} pred {said['peak'] / 2**20:.0f} ({100 * (said['peak'] / max(own.peak - own.before, 1) - 1):+5.1f} %) loss {own.loss:.4f}"
                  + (f" before {own.before / 2**20:.0f}" if own.before > 1 << 20 else ""), flush=True)
            if not each.plain:
                continue
            plain = measured(device, lambda: (lambda p: (p.forward, p.update))(Plain(each.model, tiny, device, half)), log if name == names[0] else None)
            off = abs(plain.loss / own.loss - 1)
            wrong += off > 0.01
            print(f"{'':13} eager {1000 * plain.seconds:.2f} [{'/'.join(f'{1000 * seconds:.2f}' for seconds in plain.phases)}] peak {plain.peak / 2**20:.0f} loss {plain.loss:.4f}"
                  f"{' LOSSES DIFFER' if off > 0.01 else ''}", flush=True)
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            wrong += 1
            print(f"{name:13} FAILED {type(error).__name__}: {error}".splitlines()[0][:300], flush=True)
    return wrong


def compiled(name: str, device: str, tiny: bool, limit: int) -> None:
    """The ordinary model of a case under torch.compile, if that is ready in time."""
    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)

    def fast() -> tuple[Callable, Callable]:
        plain = Plain(CASES[name].model, tiny, device, CASES[name].settings[:1] == BF16)
        plain.run = torch.compile(plain.model)
        return plain.forward, plain.update

    begun = time.perf_counter()
    try:
        found = measured(device, fast)
        print(f"{name:13} compiled {1000 * found.seconds:.2f} [{'/'.join(f'{1000 * seconds:.2f}' for seconds in found.phases)}] peak {found.peak / 2**20:.0f} "
              f"loss {found.loss:.4f} (all {time.perf_counter() - begun:.0f} s)", flush=True)
    except (Exception, Late) as error:  # noqa: BLE001
        traceback.print_exc()
        print(f"{name:13} compiled: {type(error).__name__}: {error}".splitlines()[0][:200], flush=True)
    finally:
        signal.alarm(0)


def join(device: str) -> None:
    if dist.is_initialized():
        return
    os.environ.update({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": os.environ.get("MASTER_PORT", "29512")})
    if device == "cpu":
        dist.init_process_group("gloo")


# --- the machine ---

def machine(device: str, output: Path | None) -> int:
    """A device's file as the package measures it, beside the shipped one."""
    import tomllib

    from meshwright.machine import device_file
    from meshwright.measure import measure_machine

    join(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl")
    begun = time.perf_counter()
    found = measure_machine(torch.device(device, 0) if device == "cuda" else torch.device("cpu"), 1).device
    memory = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else 1 << 30
    text = device_file(found, torch.cuda.get_device_name() if device == "cuda" else "CPU", memory)
    tomllib.loads(text)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)
    print(f"machine measured in {time.perf_counter() - begun:.1f} s; TFLOP/s of products by side:")
    for dtype, curve in found.products.items():
        print(f"  {dtype:9}" + " ".join(f"{(size / 2) ** (1 / 3):.0f}: {rate / 1e12:.1f}" for size, rate in zip(curve.sizes, curve.rates)))
    print(f"  float64 {found.peaks['float64'] / 1e12:.1f}; memory TB/s by MB: " + " ".join(f"{size / 1e6:.2g}: {rate / 1e12:.2f}" for size, rate in zip(found.memory.sizes, found.memory.rates)))
    print(f"  vector {found.vector_flops / 1e12:.2f} T/s; launch {1e6 * found.launch_seconds:.2f} us, host {1e6 * found.host_launch_seconds:.2f} us; attention {found.attention}")
    return 0


def attention(device: str) -> int:
    """Rates of attention in one op, in bfloat16, as plans of these models have it: forward, and backward beside it."""
    import torch.nn.functional as F

    said = []
    for batch, heads, keys, head, causal in ((16, 16, 1024, 128, True), (8, 16, 2048, 128, True), (32, 16, 512, 64, False), (16, 16, 1024, 64, True), (2, 16, 16384, 128, True)):
        if device == "cpu":
            batch, heads, keys = 1, 2, 64
        q, k, v = (torch.randn(batch, heads, keys, head, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        gradient = torch.ones_like(out)
        flops = 4 * batch * heads * keys * keys * head / (2 if causal else 1)

        def rate(work: Callable, count: float) -> float:
            work()
            marks = [mark(device)]
            for _ in range(20):
                work()
            marks.append(mark(device))
            if device == "cuda":
                torch.cuda.synchronize()
            return 20 * count / between(*marks) / 1e12

        forward = rate(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), flops)
        backward = rate(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), 2.5 * flops)
        said.append(f"{batch}x{heads}x{keys}x{head}{' causal' if causal else ''} {forward:.0f}/{backward:.0f}")
    print(f"  attention, forward/backward TFLOP/s: {', '.join(said)}", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["prepare", "run", "machine"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    parser.add_argument("--program", type=Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="models for a CPU")
    parser.add_argument("--compile", type=int, default=0, metavar="SECONDS", help="the first case's ordinary model under torch.compile, too, within so long")
    parser.add_argument("--machine", type=Path, metavar="FILE", help="the device is measured between two cases, too, and its file written")
    parser.add_argument("--log", type=Path, help="where kernels are told")
    options = parser.parse_intermixed_args()
    names = options.cases or [*CASES]
    if options.command == "prepare":
        prepare(options.folder, options.program.resolve(), options.tiny, names)
        return 0
    if options.command == "machine":
        join(options.device)
        return machine(options.device, options.folder / "measured.toml") + attention(options.device)
    wrong = 0
    for place, some in enumerate((names[:2], names[2:4], names[4:])):
        wrong += compare(options.folder, some, options.device, options.tiny, options.log) if some else 0
        if place == 0 and options.machine is not None:
            try:
                machine(options.device, options.machine)
                attention(options.device)
            except Exception as error:  # noqa: BLE001
                traceback.print_exc()
                wrong += 1
                print(f"machine FAILED {type(error).__name__}: {error}".splitlines()[0][:300], flush=True)
        if place == 1 and options.compile > 0:
            compiled(names[0], options.device, options.tiny, options.compile)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
