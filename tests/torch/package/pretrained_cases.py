"""Published weights: safetensors files, of which each rank reads its part.

Run by run.py, as cases.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from cases import DATA, HYBRID, TENSOR, compared, pair, same, shared_folder, weights_within  # noqa: E402
from models import LETTERS, WithLoss, letters, seeded  # noqa: E402

import meshwright  # noqa: E402
import meshwright.pretrained  # noqa: E402

CASES: list[Callable[[], str]] = []
INPUTS = (letters(1), letters(2))
TIED = "body.head.weight"  # published once, as body.letter.weight


def case(function: Callable[[], str]) -> Callable[[], str]:
    CASES.append(function)
    return function


def publish(model: nn.Module, folder: str, files: int = 1, rename: Callable[[str], str] = lambda name: name) -> None:
    """Writes a model as it would be published: tied tensors once, in one file or in several with an index. On rank 0 alone."""
    if dist.get_rank() == 0:
        state = {rename(name): value.contiguous() for name, value in model.state_dict().items() if name != TIED}
        names = [f"model-{number}-of-{files}.safetensors" for number in range(files)]
        where = {name: names[number % files] for number, name in enumerate(state)}
        for file in names:
            save_file({name: value for name, value in state.items() if where[name] == file}, f"{folder}/{file}")
        if files == 1:
            Path(folder, names[0]).rename(Path(folder, "model.safetensors"))
        else:
            Path(folder, "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    dist.barrier()


def on_meta(config: dict) -> nn.Module:
    with torch.device("meta"):
        return meshwright.autoparallelize(WithLoss(), INPUTS, mesh=(2, 2), config=config, verbose=False)


@case
def from_the_meta_device():
    """In several layouts, and each rank reads no more than its shards."""
    said = []
    for files, config in ((1, HYBRID), (3, {**DATA, "search.zero": 3}), (2, TENSOR)):
        serial = seeded(WithLoss)
        with shared_folder() as folder:
            publish(serial, folder, files)
            sharded = on_meta(config)
            assert all(parameter.is_meta for parameter in sharded.parameters())
            read = sharded.load_pretrained(folder, others={"body.ramp": serial.body.ramp})
        own = sum(part.nbytes for part in sharded.named_shards().values()) + sum(one.nbytes for one in sharded._call.unused.values())
        whole = sum(value.nbytes for name, value in serial.state_dict().items() if name != TIED)
        assert read == own, f"{read} bytes were read for shards of {own}"
        assert config == TENSOR or read < 0.8 * whole, f"{read} of {whole} bytes"
        said.append(f"{read} of {whole} bytes, {weights_within(sharded, serial, 0.0)}, {compared(sharded, serial)}")
    return "; ".join(said)


class Heads(nn.Module):
    """A fused product whose heads are cut: of its rows a rank has several stretches."""

    def __init__(self):
        super().__init__()
        self.letter, self.mixed, self.last = nn.Embedding(LETTERS + 3, 64), nn.Linear(64, 3 * 64), nn.Linear(64, 64)

    def forward(self, x):
        query, key, value = self.mixed(self.letter(x)).unflatten(-1, (3, 8, 8)).permute(2, 0, 3, 1, 4)
        return self.last(nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)).square().mean()


@case
def strided_and_padded_shards():
    """Into other names and another type; the embedding's rows are no multiple of the ranks."""
    serial = seeded(Heads)
    with shared_folder() as folder:
        publish(serial.double(), folder, rename=lambda name: f"published.{name}")
        serial.float()
        sharded = meshwright.autoparallelize(seeded(Heads), (letters(1),), mesh=(4,), verbose=False, config={"search.weights": "sharded"})
        most = meshwright.pretrained._MOST_RUNS
        for meshwright.pretrained._MOST_RUNS in (1, most):  # several stretches as one, of which rows are picked, and one by one
            with torch.no_grad():
                for parameter in sharded.parameters():
                    parameter.zero_()
            sharded.load_pretrained(Path(folder) / "model.safetensors", names=lambda name: f"published.{name}")
            weights_within(sharded, serial, 0.0)
    layouts = {name: (part.sharding.axes, part.sharding.factors()) for name, part in sharded.named_shards().items()}
    assert any(None not in axes and len(factors[0]) > 1 for axes, factors in layouts.values()), f"nothing is cut by heads: {layouts}"
    return f"{weights_within(sharded, serial, 0.0)}"


@case
def files_that_do_not_fit():
    serial = seeded(WithLoss)
    sharded, _ = pair(HYBRID)
    before = sharded.whole_state_dict()
    said = []

    def refused(beginning: str, *arguments, **more) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as told:
            try:
                sharded.load_pretrained(*arguments, **more)
            except meshwright.Error as error:
                assert beginning in error.message and "\n" not in error.message, error.message
                assert told.getvalue() == (f"meshwright: error: {error.message}\n" if dist.get_rank() == 0 else "")
                said.append(error.message)
                return
        raise AssertionError(f"it was not refused: {beginning}")

    with shared_folder() as folder:
        refused("the folder has neither model.safetensors nor model.safetensors.index.json", folder)
        refused("there is no such file or folder", folder + "/nothing.safetensors")
        publish(serial, folder)
        refused("has nothing for 'body.", folder, names=lambda name: f"other.{name}")
        refused("others= has 'body.rump', which the model does not have", folder, others={"body.rump": torch.ones(1)})
        file = Path(folder, "model.safetensors")
        if dist.get_rank() == 0:
            state = {name: value.contiguous() for name, value in serial.state_dict().items() if name != TIED}
            save_file({**state, "body.up.weight": torch.ones(3, 2)}, f"{folder}/other.safetensors")
            save_file({**state, "more": torch.ones(1)}, f"{folder}/more.safetensors")
            Path(folder, "broken.safetensors").write_bytes(file.read_bytes()[:-5])
            shutil.copy(file, f"{folder}/../{Path(folder).name}.outside")
            Path(folder, "absent.index.json").write_text(json.dumps({"weight_map": {"a": "absent.safetensors"}}))
            Path(folder, "outside.index.json").write_text(json.dumps({"weight_map": {"a": f"../{Path(folder).name}.outside"}}))
            Path(folder, "words.index.json").write_text("words")
        dist.barrier()
        refused("'body.up.weight' is [3, 2], and 'body.up.weight' of the model is [128, 32]", f"{folder}/other.safetensors")
        refused("has 'more', which the model does not have", f"{folder}/more.safetensors")
        refused("no safetensors file, or not a whole one", f"{folder}/broken.safetensors")
        refused("the file absent.safetensors that it names is not there", f"{folder}/absent.index.json")
        refused("is not the name of a file beside it", f"{folder}/outside.index.json")
        refused("this is no index of safetensors files", f"{folder}/words.index.json")
        if dist.get_rank() == 0:
            Path(f"{folder}/../{Path(folder).name}.outside").unlink()
        for name, value in sharded.whole_state_dict().items():
            same(value, before[name], f"{name} after refusals", 0.0)
        sharded.load_pretrained(f"{folder}/more.safetensors", strict=False)
    return f"{len(said)} refusals, {weights_within(sharded, serial, 0.0)}"
