"""The Python package on a GPU: autoparallelize on one rank (gpu.py)."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from gpu_cases import LIMIT, ROOT, apart, case, join, tell


def package(device: str, only: str) -> None:
    join(device)
    sys.path.insert(0, str(ROOT / "tests/torch/package"))
    import models
    from models import letters

    import meshwright
    from meshwright import ranks

    here = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if here < ranks.OLDEST_TORCH:
        print(f"note: PyTorch {torch.__version__} is older than {ranks.OLDEST_TORCH}, which the package asks for", flush=True)
        ranks.OLDEST_TORCH = here
    program = os.environ.get("MESHWRIGHT_PROGRAM", "")
    if not os.access(program, os.X_OK):
        print(f"skipped: autoparallelize, since MESHWRIGHT_PROGRAM={program!r} is no program", flush=True)
        return
    where = torch.device(device)
    ranks.start()
    options = {"measure": False, "verbose": False}

    def pair(kind=models.WithLoss, inputs=None, there=False, **more):
        """A sharded model, and its copy on the device."""
        model = models.seeded(kind)
        serial = copy.deepcopy(model).to(where)
        inputs = (letters(1), letters(2)) if inputs is None else inputs
        if there:
            model, inputs = model.to(where), tuple(x.to(where) for x in inputs)
        return meshwright.autoparallelize(model, inputs, **{**options, **more}), serial

    def loss_of(model, number):
        inputs = (letters(number), letters(number + 1))
        result = model(*(model.local_batch(inputs) if hasattr(model, "local_batch") else (x.to(where) for x in inputs)))
        return result.loss if hasattr(result, "loss") else result

    def steps(model, count=4, loss_of=loss_of):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        losses = []
        for number in range(count):
            loss = loss_of(model, number)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def weights_apart(sharded, serial):
        whole = sharded.whole_state_dict()
        return max(float((whole[name].float() - value.cpu().float()).abs().max() / value.abs().max().cpu().float().clamp(min=1e-6))
                   for name, value in serial.state_dict().items())

    def compared(sharded, serial, limit=LIMIT):
        far = apart(steps(sharded), steps(serial))
        weights = weights_apart(sharded, serial)
        at = {parameter.device.type for parameter in sharded.parameters()}
        return far < limit and weights < 10 * limit and at == {where.type}, f"losses {far:.0e}, weights {weights:.0e}"

    def check(name: str, body: Callable[[], tuple[bool, str]]) -> None:
        if not re.search(only, name):
            return
        with case(name):
            tell(name, *body())

    def found() -> tuple[bool, str]:
        sharded, _ = pair()
        cluster = sharded.plan["cluster"]
        return True, f"cluster {cluster['name']}, bf16 {cluster['matrix_flops_per_second'].get('bfloat16', 0) / 1e12:.0f} TFLOP/s, backend {dist.get_backend()}"

    def other_shapes() -> tuple[bool, str]:
        sharded, serial = pair()
        far = 0.0
        for rows in (3, 11):
            got = sharded.call_whole(letters(5, rows), letters(6, rows)).loss
            wanted = serial(letters(5, rows).to(where), letters(6, rows).to(where)).loss
            got.backward()
            far = max(far, abs(got.item() - wanted.item()) / wanted.item())
        return far < LIMIT and sharded.get_parameter("body.up.weight").grad is not None, f"losses {far:.1e}"

    def outside() -> tuple[bool, str]:
        sharded, serial = pair(models.WithoutLoss, ({"letters": letters(1)},))

        def loss_of(model, number):
            batch = {"letters": letters(number)}
            result = model(model.local_batch(batch) if model is sharded else {"letters": batch["letters"].to(where)})
            return torch.nn.functional.cross_entropy(result["logits"].flatten(0, 1), letters(number + 1).to(where).flatten())

        far = apart(steps(sharded, loss_of=loss_of), steps(serial, loss_of=loss_of))
        return far < LIMIT, f"losses {far:.1e}"

    def autocast() -> tuple[bool, str]:
        sharded, serial = pair()

        def loss_of_half(model, number):
            with torch.autocast(device, dtype=torch.bfloat16):
                return loss_of(model, number)

        far = apart(steps(sharded, loss_of=loss_of_half), steps(serial, loss_of=loss_of_half))
        return far < 0.02, f"losses {far:.1e}"

    def scaled(config: dict, limit: float, clip: bool) -> tuple[bool, str]:
        """GradScaler from a scale that overflows float16: which steps are left out, the scales, the losses."""
        sharded, serial = pair(config=config)
        half = torch.float16
        values = copy.deepcopy(serial).to(half)  # with a configuration: what is computed with, beside masters in float32
        told = []
        for one, kind in ((sharded, meshwright.GradScaler), (serial, torch.amp.GradScaler)):
            scaler = kind(device, init_scale=2.0 ** 24, growth_interval=6)
            optimizer = torch.optim.SGD(one.parameters(), lr=0.3, momentum=0.9)
            losses, scales = [], []
            for number in range(30):
                optimizer.zero_grad()
                masters = [*one.parameters()] if config and one is serial else []
                for master, value in zip(masters, values.parameters()):
                    value.data.copy_(master.data)
                    value.grad = None
                with contextlib.nullcontext() if config else torch.autocast(device, dtype=half):
                    loss = loss_of(values if masters else one, number)
                scaler.scale(loss.float()).backward()
                for master, value in zip(masters, values.parameters()):
                    master.grad = None if value.grad is None else value.grad.float()
                if clip:
                    scaler.unscale_(optimizer)
                    if one is sharded:
                        one.clip_grad_norm_(1.0)
                    else:
                        torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0)
                if number == 20:
                    one.get_parameter("body.up.weight").grad[0, 0] = float("inf")
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.item())
                scales.append(scaler.get_scale())
            told.append((losses, scales))
        far, (ours, theirs) = apart(told[0][0], told[1][0]), (told[0][1], told[1][1])
        steps_left_out = sum(a > b for a, b in zip([2.0 ** 24, *ours], ours))
        return far < limit and ours == theirs, (f"losses {far:.1e}, {steps_left_out} steps left out, last scale 2^{torch.tensor(ours[-1]).log2():.0f}"
                                                                 f"{'' if ours == theirs else ', scales differ'}")

    def half_masters(kind: str) -> tuple[bool, str]:
        """Values in half precision that are copies of masters in float32."""
        sharded, serial = pair(config={"train.param_dtype": kind})
        types = {parameter.dtype for parameter in sharded.parameters()}
        far = apart(steps(sharded), steps(serial))
        return far < 0.05 and types == {torch.float32}, f"losses {far:.1e} from float32's"

    def checkpoints() -> tuple[bool, str]:
        sharded, _ = pair()
        optimizer = torch.optim.AdamW(sharded.parameters(), lr=1e-2)

        def step(model, optimizer, number):
            loss = loss_of(model, number)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        [step(sharded, optimizer, number) for number in range(3)]
        with tempfile.TemporaryDirectory() as folder:
            sharded.save_checkpoint(folder, optimizer)
            other, _ = pair()
            again = torch.optim.AdamW(other.parameters(), lr=1e-2)
            other.load_checkpoint(folder, again)
        model_state, optimizer_state = ({key: value.clone() for key, value in sharded.state_dict().items()}, copy.deepcopy(optimizer.state_dict()))
        wanted = [step(sharded, optimizer, number) for number in (7, 8)]
        far = apart([step(other, again, number) for number in (7, 8)], wanted)
        other.load_state_dict(model_state)
        again.load_state_dict(optimizer_state)
        farther = apart([step(other, again, number) for number in (7, 8)], wanted)
        return max(far, farther) < 1e-5, f"losses apart {far:.1e} after loading, by state dicts {farther:.1e}"

    def clipped() -> tuple[bool, str]:
        sharded, serial = pair()
        norms = []
        for one in (sharded, serial):
            loss_of(one, 1).backward()
            norms.append((one.clip_grad_norm_(0.01) if one is sharded else torch.nn.utils.clip_grad_norm_(one.parameters(), 0.01)).item())
        return abs(norms[0] / norms[1] - 1) < LIMIT, f"norms {norms[0]:.6f} and {norms[1]:.6f}"

    def dropped() -> tuple[bool, str]:
        sharded, _ = pair(models.Dropping, (letters(1),))
        values = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            values.append(sharded(*sharded.local_batch((letters(1),))).item())
        return values[0] == values[1] != values[2], f"{values[0]:.6f} twice, {values[2]:.6f} with another seed"

    def counting() -> tuple[bool, str]:
        """Batch norm and dropout in eval mode."""
        sharded, serial = pair(models.Counting, (letters(1),))
        far = []
        for one in (sharded, serial):
            one.eval()
            with torch.no_grad():
                far.append(one(letters(3).to(where)).item())
        return abs(far[0] / far[1] - 1) < LIMIT, f"in eval mode {far[0]:.6f} and {far[1]:.6f}"

    def compiled() -> tuple[bool, str]:
        sharded, serial = pair()
        fast = torch.compile(sharded, backend="aot_eager")

        def loss_of_compiled(model, number):
            return (fast if model is sharded else model)(*(x.to(where) for x in (letters(number), letters(number + 1)))).loss

        far = apart(steps(sharded, loss_of=loss_of_compiled), steps(serial, loss_of=loss_of_compiled))
        return far < LIMIT, f"losses {far:.1e}"

    def statistics() -> tuple[bool, str]:
        """Steps that nobody waits for, by the package's own count and by events."""
        width, rows, layers = (2048, 16384, 12) if device == "cuda" else (64, 64, 2)

        class Wide(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(layers)])

            def forward(self, x):
                for layer in self.layers:
                    x = torch.relu(layer(x))
                return x.square().mean()

        torch.manual_seed(0)
        x = torch.randn(rows, width)
        model = meshwright.autoparallelize(Wide(), (x,), **options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        x = x.to(where)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(13)]
        for number in range(13):
            if device == "cuda":
                marks[number].record()
            model(x).backward()
            optimizer.step()
            optimizer.zero_grad()
        told = model.statistics()
        seconds = told.step_seconds
        if device == "cuda":
            torch.cuda.synchronize()
            seconds = sorted(a.elapsed_time(b) for a, b in itertools.pairwise(marks[1:]))[5] / 1000
        return abs(told.step_seconds / seconds - 1) < 0.1, (f"{1000 * told.step_seconds:.2f} ms, by events {1000 * seconds:.2f}, predicted "
                                                           f"{1000 * told.predicted_step_seconds:.2f}; peak {told.peak_bytes / 1e6:.0f} MB, predicted {told.predicted_peak_bytes / 1e6:.0f}")

    def measured() -> tuple[bool, str]:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["MESHWRIGHT_CACHE"] = folder
            begun = time.perf_counter()
            sharded, _ = pair(measure=True)
            seconds = time.perf_counter() - begun
        cluster = sharded.plan["cluster"]
        return cluster["name"] == "1x1_measured", (f"in {seconds:.1f} s; bf16 {cluster['matrix_flops_per_second']['bfloat16'] / 1e12:.0f} TFLOP/s, "
                                                  f"memory {cluster['memory_bytes_per_second'] / 1e12:.2f} TB/s" if "memory_bytes_per_second" in cluster
                                                  else f"in {seconds:.1f} s")

    check("cluster found", found)
    check("model on the CPU", lambda: compared(*pair()))
    check("model on the device", lambda: compared(*pair(there=True)))
    check("other shapes", other_shapes)
    check("loss outside", outside)
    check("autocast bf16", autocast)
    check("GradScaler", lambda: scaled({}, LIMIT * 10, clip=False))
    check("GradScaler, clipped", lambda: scaled({}, LIMIT * 10, clip=True))
    check("GradScaler, fp16 plan", lambda: scaled({"train.param_dtype": "fp16"}, 0.1, clip=False))
    check("fp16 masters", lambda: half_masters("fp16"))
    check("bf16 masters", lambda: half_masters("bf16"))
    check("checkpoints", checkpoints)
    check("clip_grad_norm_", clipped)
    check("dropout", dropped)
    check("eval mode", counting)
    check("compiled", compiled)
    check("statistics", statistics)
    check("machine measured", measured)
