#!/usr/bin/env python3
"""Compare the bytes that a model's forward saves for its backward with what PyTorch's autograd saves.

PyTorch's side is the eager model on a CPU in training mode, dropout 0, under ``saved_tensors_hooks``: storages are
counted once, whole, parameters and views of them excluded. Our side is the exported model. Fails if they differ
by more than 2 %.

    python tests/zoo/compare_saved.py [--attention flash|math] [--batch N] [--program FILE] [NAME ...]

Models of the zoo by name, at full size, and their small twins (``gpt2_tiny``, ...). ``--fake`` runs PyTorch's side on
fake tensors, which have storages of the right size and no memory, so that any size fits.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import warnings
from pathlib import Path

import torch
import transformers as hf
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

import zoo

TOLERANCE = 0.02
KERNELS = {"flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Sets every probability of dropping something to 0: of modules, in their attributes, in their configurations."""
    for module in model.modules():
        for holder in (module, getattr(module, "config", None)):
            for name, value in list(vars(holder).items()) if holder is not None else []:
                is_probability = "drop" in name or (name in ("p", "drop_prob") and "Drop" in type(holder).__name__)
                if isinstance(value, float) and (is_probability or type(holder).__name__ == "StochasticDepth"):
                    setattr(holder, name, 0.0)
    return model


def make(name: str, batch: int, device: str):
    """The model and its inputs, all on one device."""
    twin = name not in zoo.ZOO
    zoo.BATCH = batch
    with torch.device(device):
        model, inputs = zoo.small.MODELS[name]() if twin else zoo.ZOO[name][0]()
    return without_dropout(model).train(), inputs


def fake_twins(model: torch.nn.Module) -> None:
    """Puts a fake tensor on the CPU in the place of each meta tensor; what is tied stays tied."""
    twins: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in twins:
                    twin = torch.empty_like(tensor, device="cpu")
                    is_parameter = isinstance(tensor, torch.nn.Parameter)
                    twins[id(tensor)] = torch.nn.Parameter(twin, tensor.requires_grad) if is_parameter else twin
                tensors[name] = twins[id(tensor)]


def saved_by_pytorch(name: str, batch: int, attention: str, fake: bool) -> list[tuple[int, str]]:
    """Each storage: its bytes, and what was saved of it first."""
    storages: dict[int, tuple[int, str]] = {}
    kept = []  # so that no address is used twice
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext():
        torch.manual_seed(0)
        if fake:  # made on meta, since initializing may ask for numbers
            model, inputs = make(name, batch, "meta")
            fake_twins(model)
            inputs = {key: torch.empty_like(value, device="cpu") for key, value in inputs.items()}
        else:
            model, inputs = make(name, batch, "cpu")
        parameters = {parameter.untyped_storage()._cdata for parameter in model.parameters()}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in parameters and storage._cdata not in storages:
                storages[storage._cdata] = (storage.nbytes(), f"{tensor.dtype} {list(tensor.shape)}")
                kept.append(storage)
            return tensor

        with sdpa_kernel([KERNELS[attention], SDPBackend.MATH]), torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            loss = model(**inputs)
        del loss
    return sorted(storages.values(), reverse=True)


def saved_by_us(name: str, batch: int, folder: Path, program: Path) -> dict:
    path = folder / f"saved_{name}_{batch}.pt2"
    if not path.exists():
        zoo.meshwright.export(*make(name, batch, "meta"), path)
    done = subprocess.run([str(program), str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def main() -> int:
    warnings.filterwarnings("ignore")
    hf.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all of the zoo if none is named")
    parser.add_argument("--attention", choices=KERNELS, default="flash", help="the kernel of scaled_dot_product_attention")
    parser.add_argument("--batch", type=int, default=2, help="of the models that are no twins")
    parser.add_argument("--fake", action="store_true", help="PyTorch's side on fake tensors")
    parser.add_argument("--list", action="store_true", help="every storage, largest first")
    parser.add_argument("-o", "--output", type=Path, default=zoo.ROOT / "build" / "zoo", help="the folder for exported models")
    parser.add_argument("--program", type=Path, default=zoo.ROOT / "build" / "bin" / "print_saved_bytes")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    print(f"{'model':<20} {'batch':>5} {'attention':>9} {'PyTorch':>15} {'ours':>15} {'difference':>10}")
    for name in options.names or zoo.ZOO:
        batch = options.batch if name in zoo.ZOO else zoo.small.BATCH
        try:
            theirs = saved_by_pytorch(name, batch, options.attention, options.fake)
            ours = saved_by_us(name, batch, options.output, options.program)
        except Exception as problem:  # noqa: BLE001  (one model's failure must not hide the others)
            print(f"{name:<20} FAILED: {str(problem).splitlines()[0][:300]}", flush=True)
            failed += 1
            continue
        everything = sum(size for size, _ in theirs)
        difference = ours["saved_bytes"] / everything - 1
        failed += abs(difference) > TOLERANCE
        print(f"{name:<20} {batch:>5} {options.attention:>9} {everything:>15,} {ours['saved_bytes']:>15,} {difference:>+10.2%}", flush=True)
        if options.list:
            for size, what in theirs:
                print(f"  PyTorch {size:>12,} {what}")
            for storage in sorted(ours["storages"], key=lambda one: -one["bytes"]):
                print(f"  ours    {storage['bytes']:>12,} {storage['type']} {storage['name']} = {storage['op']}, for {' '.join(storage['saved'])}")
    print(f"{failed} of them differ by more than {TOLERANCE:.0%}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
