"""What gpu.py and gpu_package.py share: models, how they are trained, and lines for cases."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
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
