#!/usr/bin/env python3
"""Runs on a GPU what the other tests here run on CPUs: emitted programs, their moves and side streams, and the Python package.

    tests/torch/gpu.py prepare --program build/bin/meshwright FOLDER   # plans and programs, on any machine; losses of a CPU are noted
    tests/torch/gpu.py one FOLDER [--device cpu]                       # one rank: NCCL on a GPU
    tests/torch/gpu.py package [--device cpu]                          # the same, autoparallelize; MESHWRIGHT_PROGRAM names the program
    tests/torch/gpu.py shared FOLDER [--device cpu]                    # four ranks on one GPU, with gloo between them
    tests/torch/gpu.py nccl                                            # whether NCCL lets two ranks share a GPU

Each prints a line for each case, with what was seen, and exits with 1 if one is wrong. Without a GPU everything runs on the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import gpu_cases
import torch
import torch.distributed as dist
from gpu_cases import DROPPING, ON_FOUR, ON_ONE, ONE_DEVICE, RANKS, ROOT, built, case, check_program, join, tell
from gpu_package import package


# --- one rank ---

def one(folder: Path, device: str) -> None:
    join(device)
    noted = folder / "losses.json"
    on_cpu = json.loads(noted.read_text()) if noted.exists() else {}
    where = torch.device(device)
    for name, (model, _) in ON_ONE.items():
        with case(name):
            check_program(folder / "1", name, model, where, on_cpu, serial_there=device == "cuda")
    if not noted.exists() and device == "cpu":
        noted.write_text(json.dumps(on_cpu))
    tell("process group", True, dist.get_backend())
    for check in (moves, flights, flights_keep_memory, sharded_parameters, random_numbers, large_loss, too_many_ranks):
        with case(check.__name__):
            tell(check.__name__, *check(where))


def prelude(axes: tuple[int, ...]):
    """All that programs are made of, on a mesh of these sizes."""
    sys.path[:0] = [str(ROOT / each) for each in ("tests/torch/prelude", "backends/torch")]
    import definitions

    sharding = definitions.sharding()
    from prelude import mesh

    mesh.AXES = axes
    mesh.start()
    return sharding


def moves(where: torch.device) -> tuple[bool, str]:
    """On a mesh of one rank each move gives what it takes, through the collectives of the backend."""
    sharding = prelude((1, 1))
    count, others = 0, []
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool):
        x = (torch.arange(24, device=where).view(4, 6) % 7).to(dtype)
        made = {"all_gather": sharding.all_gather(0, 1), "at_once": sharding.at_once(sharding.all_gather(0, 0), sharding.all_gather(1, 1)),
                "all_to_all": sharding.all_to_all(0, 0, 1), "cut": sharding.cut(0, 1), "keep_one": sharding.keep_one(1),
                "relayout": sharding.relayout(sharding.Layout((4, 6), (0, None)), sharding.Layout((4, 6), (None, 1)))}
        if dtype != torch.bool:
            made |= {"reduce_scatter": sharding.reduce_scatter(0, 0), "all_reduce": sharding.all_reduce(0), "largest": sharding.all_reduce(1, "max"),
                     "both": sharding.at_once(sharding.reduce_scatter(0, 0), sharding.reduce_scatter(1, 1))}
        for name, move in made.items():
            count += 1
            try:
                fine = torch.equal(move(x), x)
            except Exception as error:  # noqa: BLE001
                fine, name = False, f"{name}: {error}".splitlines()[0][:60]
            if not fine:
                others.append(f"{name} of {dtype}")
    both = sharding.begin_together([sharding.all_gather(0, 0)] * 2, [x, x])
    fine = all(torch.equal(made, x) for made in sharding.end_together([sharding.all_gather(0, 0)] * 2, both))
    return fine and not others, f"{count} moves{'; wrong: ' + ', '.join(others[:6]) if others else ''}"


def busy(x: torch.Tensor, rounds: int = 30) -> torch.Tensor:
    """Work that takes a device a while, and whose result is known: x."""
    y = x.clone()
    for _ in range(rounds):
        y = (y @ torch.eye(y.shape[-1], device=y.device))
    return y


def flights(where: torch.device) -> tuple[bool, str]:
    """Tensors that travel beside the computing arrive as they are when they leave."""
    sharding = prelude((1,))
    size = 2048 if where.type == "cuda" else 64
    x = torch.randn(size, size, device=where)
    x = torch.where(x > 0, 1.0, -1.0) * torch.exp2(torch.randint(-3, 3, x.shape, device=where).float())  # exact in TF32, too
    wrong_ones = 0
    for turn in range(10):
        y = busy(x) + turn
        gathered = sharding.Flight([[sharding.all_gather(0, 0)], [sharding.all_gather(0, 1)]], [y, y * 2], "loads")
        summed = sharding.Flight([[sharding.all_reduce(0), sharding.reduce_scatter(0, 0)]], [y.clone()], "gradients")
        z = busy(x, 10)
        first, second = gathered.take()
        third, = summed.take()
        wrong_ones += not (torch.equal(first * 2, second) and torch.equal(third, first) and torch.equal(first, z + turn))
    streams = len(sharding.SIDE_STREAMS)
    return wrong_ones == 0 and streams == (2 if where.type == "cuda" else 0), f"10 turns, {wrong_ones} wrong, {streams} side streams"


def flights_keep_memory(where: torch.device) -> tuple[bool, str]:
    """What travels is not given to others before it has left, nor what arrived before it is read."""
    sharding = prelude((1,))

    class late(sharding.Move):
        """A copy that is made long after it was asked for."""

        def begin(self, x):
            if x.is_cuda:
                torch.cuda._sleep(20_000_000)
            return x.clone()

    wrong_ones, overtaken = 0, 0
    for turn in range(10):
        x = torch.full((1 << 22,), float(turn), device=where)
        flight = sharding.Flight([[late()]], [x], "loads")
        begun = time.perf_counter()
        del x
        other = [torch.full((1 << 22,), -1.0, device=where) for _ in range(3)]
        overtaken += flight.event is not None and not flight.event.query()
        arrived, = flight.take()
        total = arrived.double().sum()
        del arrived
        more = [torch.full((1 << 22,), -2.0, device=where) for _ in range(3)]
        wrong_ones += total.item() != turn * (1 << 22)
        del other, more, begun
    return wrong_ones == 0, f"10 turns, {wrong_ones} wrong; of them in {overtaken} the flight was still on its way"


def sharded_parameters(where: torch.device) -> tuple[bool, str]:
    """Parameters that are gathered for each use, with all that this may be, train as ordinary ones."""
    sharding = prelude((1,))
    width, layers, rows = (1024, 6, 4096) if where.type == "cuda" else (32, 6, 64)
    whole = sharding.Layout((width, width), (None,))
    rows_of = sharding.Layout((width, width), (0,))
    kinds = {"ZeRO-0": (whole, dict(reduced=[sharding.all_reduce(0)])),
             "ZeRO-2": (rows_of, dict(stored=[sharding.all_gather(0, 0)], reduced=[sharding.reduce_scatter(0, 0)])),
             "ZeRO-3": (rows_of, dict(loaded=[sharding.all_gather(0, 0)], reduced=[sharding.reduce_scatter(0, 0)], regather=True, prefetch=True)),
             "ZeRO-3 kept": (rows_of, dict(loaded=[sharding.all_gather(0, 0)], reduced=[sharding.reduce_scatter(0, 0)])),
             "ZeRO-3 bf16": (rows_of, dict(dtype=torch.bfloat16, master=torch.float32, loaded=[sharding.all_gather(0, 0)],
                                          reduced=[sharding.reduce_scatter(0, 0)], regather=True, prefetch=True))}

    class Net(sharding.Planned):
        def __init__(self, layout, arguments):
            super().__init__()
            self.layers = torch.nn.ModuleList([sharding.parts(weight=sharding.parameter(layout, **arguments)) for _ in range(layers)])

        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(x @ sharding.used(layer.weight))
            return x.float().square().mean()

    said, fine = [], True
    for kind, (layout, arguments) in kinds.items():
        half = arguments.get("dtype", torch.float32)
        for way in ("step", "in backward"):
            model = Net(layout, arguments)
            generator = torch.Generator().manual_seed(1)
            weights = [torch.randn(width, width, generator=generator) / width ** 0.5 for _ in range(layers)]
            model.load_whole({f"layers.{i}.weight": weight for i, weight in enumerate(weights)})
            plain = [torch.nn.Parameter(weight.to(where)) for weight in weights]
            ours, theirs = (torch.optim.SGD(parameters, lr=20.0, momentum=0.9) for parameters in ([*model.parameters()], plain))
            if way == "in backward":
                model.step_in_backward(ours)
            far = 0.0
            for _ in range(6):
                x = torch.randn(rows, width, generator=generator).to(where)
                loss = model(x.to(half))
                loss.backward()
                y = x.to(half)
                for weight in plain:
                    y = torch.tanh(y @ weight.to(half))
                wanted = y.float().square().mean()
                wanted.backward()
                far = max(far, abs(loss.item() - wanted.item()) / wanted.item())
                for optimizer in (ours, theirs):
                    optimizer.step()
                    optimizer.zero_grad()
            limit = 2e-2 if half == torch.bfloat16 else 1e-4
            fine = fine and far < limit
            said.append(f"{far:.0e}")
    return fine, f"{len(said)} ways, losses apart {' '.join(said)}; {len(sharding.SIDE_STREAMS)} side streams"


def random_numbers(where: torch.device) -> tuple[bool, str]:
    """Numbers depend on the stream, the step and the element, and PyTorch's own generators are put back."""
    sharding = prelude((1,))
    torch.manual_seed(5)
    sharding.begin_step()
    elements = torch.arange(1000, device=where)
    first = sharding.uniform("a", elements)
    fine = first.device.type == where.type and 0 <= float(first.min()) and float(first.max()) < 1
    torch.manual_seed(5)
    sharding.begin_step()
    fine = fine and torch.equal(first, sharding.uniform("a", elements)) and not torch.equal(first, sharding.uniform("b", elements))
    fine = fine and torch.equal(first[500:], sharding.uniform("a", elements[500:]))
    generators = (torch.get_rng_state(), torch.cuda.get_rng_state() if where.type == "cuda" else torch.zeros(1))
    drawn = [sharding.drawn_alike(lambda: torch.rand(8, device=where), "c") for _ in range(2)]
    after = (torch.get_rng_state(), torch.cuda.get_rng_state() if where.type == "cuda" else torch.zeros(1))
    fine = fine and torch.equal(*drawn) and all(torch.equal(a, b) for a, b in zip(generators, after))
    state = sharding.generator_state()
    return fine and torch.equal(state, torch.get_rng_state()), f"first {float(first[0]):.6f}"


def large_loss(where: torch.device) -> tuple[bool, str]:
    """Cross entropy in one tensor as large as the logits gives what PyTorch's gives, to the last bit, and in less memory."""
    import torch.nn.functional as F

    sharding = prelude((1,))
    worst, held = 0.0, []
    for dtype, rows, classes in itertools.product((torch.float32, torch.bfloat16, torch.float16), (7, 512), (13, 1000, 1025, 50304)):
        numbers, target = torch.randn(rows, classes, device=where, dtype=dtype) * 3, torch.randint(classes, (rows,), device=where)
        target[::3] = -100
        found, held = [], []
        for loss in (sharding.whole_cross_entropy, F.cross_entropy):
            before = torch.cuda.memory_allocated() if where.type == "cuda" else 0
            logits = numbers.clone().requires_grad_()
            made = loss(logits, target)
            if where.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            made.backward(torch.full_like(made, 3.0))
            held.append(torch.cuda.max_memory_allocated() - before if where.type == "cuda" else 0)
            found.append((made, logits.grad))
            del made, logits
        worst = max(worst, *((ours - theirs).abs().max().item() for ours, theirs in zip(*found)))
    return worst == 0 and held[0] <= held[1], f"apart {worst:.0e}, of {numbers.nbytes / 1e6:.0f} MB of logits {(held[1] - held[0]) / 1e6:.0f} saved"


def too_many_ranks(where: torch.device) -> tuple[bool, str]:
    """More ranks than GPUs are refused."""
    if where.type != "cuda":
        return True, "no GPU"
    prelude((1,))
    from prelude import mesh

    many = str(torch.cuda.device_count() + 1)
    before, said = {name: os.environ[name] for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}, io.StringIO()
    os.environ.update({"WORLD_SIZE": many, "LOCAL_WORLD_SIZE": many})
    try:
        with contextlib.redirect_stderr(said):
            mesh.join(int(many))
    except SystemExit:
        return True, said.getvalue().strip()[:60]
    finally:
        os.environ.update(before)
    return False, "they are not"


# --- several ranks on one GPU ---

def started(command: str, ranks: int, *arguments: str, limit: float, variables: dict[str, str] | None = None) -> int:
    """This script on so many ranks; those that are left at the limit are ended."""
    import random

    everything = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20_000, 30_000)), "WORLD_SIZE": str(ranks),
                  "LOCAL_WORLD_SIZE": str(ranks), **(variables or {})}
    running = [subprocess.Popen([sys.executable, __file__, command, *arguments, "--rank", str(rank)],
                                env={**everything, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]
    until = time.monotonic() + limit
    for each in running:
        try:
            each.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            each.kill()
            print(f"FAILED {command}: a rank did not end in {limit:.0f} s", flush=True)
    return max(abs(each.wait()) for each in running)


def shared_rank(folder: Path, device: str) -> None:
    import datetime

    if device == "cuda":
        torch.cuda.set_device(0)
        torch.cuda.init()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    for name, (model, _) in ON_FOUR.items():
        with case(name):
            check_program(folder / "4", name, model, torch.device(device), {}, serial_there=False)
    dist.barrier()
    dist.destroy_process_group()


def nccl_rank() -> None:
    import datetime

    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=15))
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    tell("NCCL, two ranks on a GPU", x[0].item() == 2, f"sum {x[0].item():.0f}")


# --- preparing ---

def prepare(folder: Path, program: Path) -> None:
    import meshwright
    from prepare import CLUSTER, run

    for ranks, cases in ((1, ON_ONE), (RANKS, ON_FOUR)):
        place = folder / str(ranks)
        place.mkdir(parents=True, exist_ok=True)
        cluster = place / "cluster.toml"
        cluster.write_text(ONE_DEVICE.format(root=ROOT, device="h200_141gb") if ranks == 1 else CLUSTER.format(ranks=ranks, root=ROOT))
        for name, (model, settings) in cases.items():
            file, plan = ROOT / "tests/models" / f"{model}_tiny.pt2", place / f"{name}.json"
            if model == DROPPING:
                with torch.device("meta"):
                    made, inputs = built(model)
                file = meshwright.export(made.train(), inputs, place / f"{model}.pt2")
            more = [part for each in settings for part in ("--set", each)]
            mesh = ["--mesh", "2x2"] if ranks == RANKS else []
            run(program, "plan", file, "--cluster", cluster, *mesh, "-o", plan, *more)
            run(program, "emit", plan, "--backend", "torch", "-o", place / name)
            plan.unlink()
        for each in place.glob("*.pt2"):
            each.unlink()
        cluster.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["prepare", "one", "package", "shared", "nccl"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--program", type=Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=float, default=90, help="seconds for several ranks")
    parser.add_argument("--only", default="", metavar="PATTERN", help="of the package, the cases whose names it is in")
    parser.add_argument("--rank", type=int, help="of those that the command starts")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # PyTorch's default for convolutions, not for products
    if options.command == "prepare":
        prepare(options.folder, options.program.resolve())
    elif options.command == "one":
        one(options.folder, options.device)
    elif options.command == "package":
        package(options.device, options.only)
    elif options.command == "shared" and options.rank is None:
        return started("shared", RANKS, str(options.folder), "--device", options.device, limit=options.limit)
    elif options.command == "shared":
        shared_rank(options.folder, options.device)
    elif options.rank is None:
        return started("nccl", 2, limit=options.limit, variables={"NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    else:
        try:
            nccl_rank()
        except Exception as error:  # it may refuse  # noqa: BLE001
            lines = [line for line in str(error).splitlines() if line.strip()]
            print(f"note: NCCL, two ranks on a GPU: {type(error).__name__}: {' '.join(lines)[:150]}", flush=True)
        os._exit(0)
    return gpu_cases.wrong > 0


if __name__ == "__main__":
    sys.exit(main())
