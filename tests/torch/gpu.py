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
import copy
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / each) for each in ("python", "tests/torch", "tests/models", "tests/closeness")]
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

MODELS = ["gpt2", "llama", "bert", "resnet", "mixtral", "t5", "vit", "clip"]
STEPS, RANKS = 5, 4
LIMIT = 1e-3  # of a loss in float32
CHAOTIC, LOOSE = {"resnet"}, 0.05  # batch norms over a handful of numbers: the first two losses are held, and the others to this
DROPPING = "gpt2_dropping"

# By case: the model and how it is planned, for one rank and for four.
ON_ONE = {**{name: (name, []) for name in MODELS}, "gpt2_again": ("gpt2_deep", ["search.recompute=all"]), DROPPING: (DROPPING, [])}
ON_FOUR = {
    "gpt2_zero3": ("gpt2", ["search.batch_axes=all", "search.zero=3", "search.regather=always"]),
    "gpt2_zero2": ("gpt2", ["search.batch_axes=all", "search.zero=2"]),
    "gpt2_sharded": ("gpt2", ["search.weights=sharded"]),
    "llama_prefetched": ("llama", ["search.batch_axes=all", "search.zero=3", "search.prefetch=always"]),
    "mixtral": ("mixtral", []),
    "resnet": ("resnet", ["search.batch_axes=all", "search.zero=0"]),
    "gpt2_again": ("gpt2_deep", ["search.recompute=all", "search.zero=3", "search.batch_axes=all"]),
    "t5": ("t5", []),
}
ONE_DEVICE = """name = "one"
nodes = 1
devices_per_node = 1
device = "{root}/configs/devices/{device}.toml"
"""

wrong = 0


def tell(name: str, fine: bool, said: str) -> None:
    """A case's line, of rank 0."""
    global wrong
    wrong += not fine
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"{'ok    ' if fine else 'FAILED'} {name:<26} {said}", flush=True)


@contextlib.contextmanager
def case(name: str) -> Iterator[None]:
    """What raises is told, and the next case goes on."""
    try:
        yield
    except (Exception, SystemExit) as error:  # noqa: BLE001
        traceback.print_exc()
        tell(name, False, f"{type(error).__name__}: {error}".splitlines()[0][:170])


def join(device: str) -> None:
    """One rank, as torchrun starts it."""
    os.environ.update({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": os.environ.get("MASTER_PORT", "29511")})
    if device == "cpu":
        dist.init_process_group("gloo")


# --- models ---

def built(name: str):
    import export

    if name == DROPPING:
        import transformers

        config = transformers.GPT2Config(n_layer=2, n_embd=export.WIDTH, n_head=export.HEADS, n_positions=export.LENGTH, vocab_size=export.VOCABULARY,
                                         bos_token_id=0, eos_token_id=0, use_cache=False)
        return export.WithLoss(transformers.GPT2LMHeadModel(config)), {"input_ids": export.tokens(), "labels": export.tokens()}
    return export.MODELS[f"{name}_tiny"]()


def filled(name: str):
    import export

    torch.manual_seed(0)
    model, inputs = built(name)
    export.fill(model)
    return model.train(), inputs


def trained(model: torch.nn.Module, inputs: dict[str, torch.Tensor], device: torch.device | None, whole: Callable | None = None) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses of some steps, and the gradients of the first; `device` is that of an ordinary model."""
    from equal import optimizer_of, sample

    optimizer = optimizer_of([*model.parameters()])
    losses, gradients = [], {}
    for step in range(STEPS):
        batch = sample(inputs, step)
        if device is None:
            loss = model(*model.local_batch(batch).values())
        else:
            loss = model(**{key: value.to(device) for key, value in batch.items()})
        loss.backward()
        if step == 0:
            gradients = {key: (value.grad if whole is None else whole(value.grad, value.sharding)).cpu() for key, value in model.named_parameters()
                         if value.grad is not None}
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses, gradients


def apart(losses: list[float], wanted: list[float]) -> float:
    return max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(losses, wanted, strict=True))


def losses_hold(losses: list[float], wanted: list[float], model: str) -> bool:
    return apart(losses, wanted) < LIMIT or model in CHAOTIC and apart(losses[:2], wanted[:2]) < LIMIT and apart(losses, wanted) < LOOSE


def gradients_apart(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], tied: dict[str, str]) -> float:
    from equal import worst

    return worst(found, {name: value for name, value in wanted.items() if name not in tied})[0]


def check_program(folder: Path, case_name: str, model_name: str, where: torch.device, on_cpu: dict[str, list[float]], serial_there: bool) -> None:
    """The emitted program against the model itself, there and on a CPU."""
    from equal import emitted

    program, sharding = emitted(folder / case_name)
    if dist.is_initialized() and dist.get_backend() == "gloo" and where.type == "cuda":
        sharding.device.__code__ = (lambda: torch.device("cuda", 0)).__code__  # for all who imported it
    serial, inputs = filled(model_name)
    start = copy.deepcopy({**dict(serial.named_buffers()), **serial.state_dict()})
    model = program.Model()
    known = {*model.state_dict(), *model.TIED}
    model.load_whole({name: value for name, value in start.items() if name in known})
    torch.manual_seed(3)
    losses, gradients = trained(model, inputs, None, sharding.whole_of)
    at = {parameter.device.type for parameter in model.parameters()}
    fine, said = at == {where.type}, [] if at == {where.type} else [f"on {'/'.join(sorted(at))}"]
    if model_name != DROPPING:
        wanted, their_gradients = trained(copy.deepcopy(serial), inputs, torch.device("cpu"))
        far, farther = apart(losses, wanted), gradients_apart(gradients, their_gradients, model.TIED)
        said.append(f"of CPU's losses {far:.0e} gradients {farther:.0e}")
        fine = fine and losses_hold(losses, wanted, model_name) and farther < 10 * LIMIT
        if serial_there:
            try:
                wanted = trained(serial.to(where), inputs, where)[0]
                said.append(f"there {apart(losses, wanted):.0e}")
                fine = fine and losses_hold(losses, wanted, model_name)
            except Exception as error:  # the ordinary model's own trouble  # noqa: BLE001
                said.append(f"ordinary model there: {type(error).__name__}: {error}"[:100])
    if case_name in on_cpu:
        said.append(f"own on CPU {apart(losses, on_cpu[case_name]):.0e}")
        fine = fine and losses_hold(losses, on_cpu[case_name], model_name)
    tell(case_name, fine, ", ".join(said))
    on_cpu.setdefault(case_name, losses)


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


# --- the package ---

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
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
