"""A rank of run.py: trains each family that it is told, one step, and says how it went.

    torchrun --nproc-per-node 2 train.py RESULTS NAME...

A line of JSON for each family goes to the file RESULTS: {"name", "status", "error", "said", "seconds"}. "skipped": this
installation can't make the model or run it on one device.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from families import Family, all_families  # noqa: E402

import meshwright  # noqa: E402
from meshwright import ranks  # noqa: E402

TOLERANCE = 1e-4  # of the largest element of each tensor, as `meshwright verify` has it
FLOOR = 1e-3      # of what is compared: what is smaller is noise
LARGEST = 100_000_000  # parameters


def loss_of(result):
    if isinstance(result, torch.Tensor):
        return result
    return result["loss"] if isinstance(result, dict) or hasattr(result, "keys") else result[0]


def without_chance(model: torch.nn.Module) -> torch.nn.Module:
    """In training mode; nothing is dropped, for a device and two ranks draw different numbers."""
    model.train()
    for module in model.modules():
        for owner in (module, getattr(module, "config", None)):
            for name, value in list(vars(owner).items()) if hasattr(owner, "__dict__") else ():
                if isinstance(value, float) and ("drop" in name or name == "p" or name.startswith("mask_")):
                    setattr(owner, name, 0.0)
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
    return model


def step(model: torch.nn.Module, inputs: dict) -> torch.Tensor:
    loss = loss_of(model(**inputs))
    loss.backward()
    torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1).step()
    return loss.detach()


def difference(got: torch.Tensor, wanted: torch.Tensor, before: torch.Tensor) -> float:
    """Of what a step changed, relative to the largest change; of a loss, to itself."""
    if not wanted.is_floating_point():
        return float((got != wanted).any())
    if not torch.isfinite(wanted).all():
        return 0.0 if torch.allclose(got, wanted, equal_nan=True) else math.inf
    scale = max(float((wanted.double() - before.double()).abs().max()), FLOOR * max(1.0, float(wanted.double().abs().max())))
    return float((got.double() - wanted.double()).abs().max()) / scale


def tried(family: Family, double: bool) -> dict:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    try:
        model, inputs = family.make()
        if sum(parameter.numel() for parameter in model.parameters()) > LARGEST:
            return {"status": "skipped", "said": "it has no small configuration here"}
        model = without_chance(model)
        if double:
            model = model.double()
            inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
        serial = copy.deepcopy(model)
        wanted = step(serial, inputs)
        if not torch.isfinite(wanted):
            return {"status": "skipped", "said": "the loss on one device is not finite"}
    except Exception as error:
        return {"status": "skipped", "said": ranks.summary(error)}
    before = copy.deepcopy(model.state_dict())
    # So small a model is fastest on one device: the batch is cut by force, or else the plan is free.
    try:
        try:
            sharded = meshwright.autoparallelize(model, inputs, config={"search.batch_axes": "all"})
        except meshwright.Error as error:
            if error.code != 3:
                raise
            sharded = meshwright.autoparallelize(model, inputs)
    except meshwright.Error as error:
        return {"status": "refused", "said": error.message}
    try:
        loss = step(sharded, sharded.local_batch(inputs))
        after = sharded.whole_state_dict()
    except Exception as error:
        return {"status": "failed", "said": ranks.summary(error)}
    worst, where = difference(loss, wanted, torch.zeros(())), "loss"
    for name, value in serial.state_dict().items():
        here = difference(after[name], value, before[name])
        if not here <= worst:
            worst, where = here, name
    return {"status": "trains" if worst <= TOLERANCE else "wrong", "error": worst, "said": where}


def main() -> None:
    results, *names = sys.argv[1:]
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    ranks.start()
    known = {family.name: family for family in all_families()}
    for name in names:
        began = time.monotonic()
        result = tried(known[name], double=False)
        if result["status"] == "wrong":  # perhaps rounding, which norms of a few numbers make large: in float64 it must vanish
            again = tried(known[name], double=True)
            if again["status"] == "trains":
                result = {**again, "said": f"{again['said']}; {result['error']:.0e} in float32"}
        everywhere = ranks.all_gathered(result)
        worst = max(everywhere, key=lambda one: ["skipped", "trains", "refused", "wrong", "failed"].index(one["status"]))
        if dist.get_rank() == 0:
            with open(results, "a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, **worst, "seconds": round(time.monotonic() - began, 1)}) + "\n")


if __name__ == "__main__":
    main()
