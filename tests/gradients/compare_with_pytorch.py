#!/usr/bin/env python3
"""Compare what op families compute, and the gradients they state, with PyTorch.

    print_gradient_cases | python compare_with_pytorch.py

Each case comes as it is written, mostly in float64, and drawn several times in float32 on other shapes. Values and
gradients must agree within 1e-5 of the tensor's largest value. The last line says how many did.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "closeness"))
from closeness import distance  # noqa: E402  (found through the path above)

TOLERANCE = 1e-5
DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64, "int32": torch.int32,
          "bool": torch.bool, "uint8": torch.uint8}


def tensor_of(entry: dict) -> torch.Tensor:
    numbers = [float(number) for number in entry["numbers"]]  # NaN and the infinities come as text
    return torch.tensor(numbers, dtype=torch.float64).reshape(entry["shape"]).to(DTYPES[entry["dtype"]])


def find_overload(op: str):
    """'aten.add.Tensor' or 'aten.mm', whose overload 'default' is left out."""
    _, name, *overload = op.split(".")
    return getattr(getattr(torch.ops.aten, name), overload[0] if overload else "default")


def arguments(overload, operands: dict[str, torch.Tensor], attributes: dict) -> dict:
    """By schema name; 'tensors.0', 'tensors.1' make a list, absent elements are None."""
    gathered: dict = {}
    for argument in overload._schema.arguments:
        parts = {int(name.rsplit(".", 1)[1]): tensor for name, tensor in operands.items()
                 if name.rpartition(".")[0] == argument.name}
        if argument.name in operands:
            gathered[argument.name] = operands[argument.name]
        elif parts:
            gathered[argument.name] = [parts.get(i) for i in range(max(parts) + 1)]
        elif argument.name in attributes:
            value = attributes[argument.name]
            gathered[argument.name] = getattr(torch, value) if argument.name.endswith("dtype") else value
        elif not argument.has_default_value() and isinstance(argument.type, torch.OptionalType):
            gathered[argument.name] = None
    return gathered


def batch_norm(input, weight=None, bias=None, running_mean=None, running_var=None, *, momentum, eps, **_) -> list:
    """Batch normalization in parts: PyTorch's own op differentiates its first result alone."""
    dims = [d for d in range(input.dim()) if d != 1]
    shape = [-1 if d == 1 else 1 for d in range(input.dim())]
    variance, mean = torch.var_mean(input, dims, correction=0)
    invstd = torch.rsqrt(variance + eps)
    out = (input - mean.reshape(shape)) * invstd.reshape(shape)
    out = out if weight is None else out * weight.reshape(shape)
    out = out if bias is None else out + bias.reshape(shape)
    if running_mean is None:
        return [out, mean, invstd]
    unbiased = torch.var(input, dims, correction=1)
    return [out, mean, invstd, (1 - momentum) * running_mean + momentum * mean,
            (1 - momentum) * running_var + momentum * unbiased]


def layer_norm(input, weight=None, bias=None, *, normalized_shape, eps, **_) -> list:
    """In parts too, for the same reason."""
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    variance, mean = torch.var_mean(input, dims, correction=0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    out = (input - mean) * rstd
    out = out if weight is None else out * weight
    return [out if bias is None else out + bias, mean, rstd]


def group_norm(input, weight=None, bias=None, *, group, eps, **_) -> list:
    """In parts: with the statistics' gradients, PyTorch keeps more than without."""
    out, mean, rstd = layer_norm(input.reshape(input.shape[0], group, -1), normalized_shape=[0], eps=eps)
    shape = [-1 if d == 1 else 1 for d in range(input.dim())]
    out = out.reshape(input.shape)
    out = out if weight is None else out * weight.reshape(shape)
    return [out if bias is None else out + bias.reshape(shape), mean[..., 0], rstd[..., 0]]


def group_norm_backward(grad_out, input, mean, rstd, weight=None, *, group, output_mask, **_) -> list:
    """PyTorch's own, with the sizes that its arguments repeat: drawn shapes have others."""
    examples, channels, *space = input.shape
    return torch.ops.aten.native_group_norm_backward(grad_out, input, mean, rstd, weight, examples, channels, math.prod(space),
                                                     group, [bool(given) for given in output_mask])


def embedding_bag(weight, indices, offsets, per_sample_weights=None, *, mode, padding_idx, **_) -> list:
    """PyTorch's own, with the bag of each index where its fast path leaves that out."""
    out, bags, *rest = torch.ops.aten._embedding_bag(weight, indices, offsets, False, mode, False, per_sample_weights, False, padding_idx)
    if bags.numel() == 0:
        bags = torch.bucketize(torch.arange(indices.numel()), offsets, right=True) - 1
    return [out, bags, *rest]


def recurrent(input, hx, cx=None, *, cell, has_biases, num_layers, bidirectional, batch_first, train=True, dropout=0.0, **params) -> list:
    """PyTorch's layers; what they keep for their backward nobody else sees."""
    layers = getattr(torch, cell if cx is not None or cell == "gru" else "rnn_" + cell)
    weights = [params[f"params.{i}"] for i in range(len(params))]
    return [*layers(input, hx if cx is None else (hx, cx), weights, has_biases, num_layers, dropout, train, bidirectional, batch_first), None]


INSTEAD = {"meshwright.recurrent": recurrent, "aten._embedding_bag": embedding_bag,
           "aten.native_group_norm_backward": group_norm_backward,
           "aten.native_layer_norm": layer_norm, "aten.native_group_norm": group_norm,
           "aten._native_batch_norm_legit_functional": batch_norm, "aten._native_batch_norm_legit.no_stats": batch_norm}


def relative_error(ours: list[float | str], theirs: torch.Tensor, special: bool) -> float:
    """``special``: the call was given NaN or infinities, so that they may be what PyTorch gives as well."""
    return distance(torch.tensor([float(number) for number in ours], dtype=torch.float64), theirs.reshape(-1), special=special)


# Ops of which we save a tensor that PyTorch does not, and why no more is held by it.
SAVED_OTHERWISE = {
    "meshwright.recurrent": "the steps' gates and states; PyTorch keeps them in tensors of its own",
    "aten.scaled_dot_product_attention": "as PyTorch's fused kernels; on a CPU small calls take the unfused path",
    "aten.cross_entropy_loss": "the logits in place of their log-softmax, which has the same size",
    "aten.matmul": "the operands in place of copies that PyTorch folds into two dimensions",
    "aten.native_layer_norm": "each row's mean and deviation; PyTorch's own op keeps them as well",
    "aten.native_group_norm": "each group's mean and deviation; PyTorch's own op keeps them as well",
    "aten.instance_norm": "the input in place of a copy in which examples are channels",
    "aten.einsum": "the operands in place of copies that PyTorch folds into three dimensions",
    "aten.cosine_similarity": "the operands in place of the normalized ones",
    "aten.l1_loss": "the operands in place of their difference",
    "aten.kl_div": "the operands in place of the exponential and the difference of its parts",
    "aten.conv2d.padding": "the input in place of a padded copy",
    "aten._native_batch_norm_legit_functional": "each channel's mean, of which PyTorch keeps a copy",
    "aten._native_batch_norm_legit.no_stats": "each channel's mean, of which PyTorch keeps a copy",
}


def saved_by_pytorch(saved: list[torch.Tensor], named: dict[str, torch.Tensor]) -> set[str]:
    """The names of the call's own tensors among what autograd saved."""
    names = {tensor.untyped_storage().data_ptr(): name for name, tensor in reversed(named.items())}
    return {names[storage] for tensor in saved if (storage := tensor.untyped_storage().data_ptr()) in names}


def check(case: dict) -> float:
    operands = {entry["name"]: tensor_of(entry) for entry in case["operands"]}
    for entry in case["operands"]:
        if "gradient" in entry:
            operands[entry["name"]].requires_grad_()
    saved: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: (saved.append(tensor), tensor)[1], lambda tensor: tensor):
        if case["op"] in INSTEAD:
            results = INSTEAD[case["op"]](**operands, **case["attributes"])
        else:
            overload = find_overload(case["op"])
            results = overload(**arguments(overload, operands, case["attributes"]))
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    named = operands | {entry["name"]: tensor for entry, tensor in zip(case["results"], results, strict=True) if tensor is not None}
    more = set(case["saved"]) - saved_by_pytorch(saved, named)
    if more and case["op"] not in SAVED_OTHERWISE:
        raise AssertionError(f"nothing of {sorted(more)}, which we save for the backward")
    loss = torch.zeros((), dtype=torch.float64)
    special = any(not tensor.isfinite().all() for tensor in operands.values())
    worst = 0.0
    for entry, result in zip(case["results"], results, strict=True):
        if result is None:
            continue
        worst = max(worst, relative_error(entry["numbers"], result, special))
        if "weights" in entry:
            loss = loss + (result * torch.tensor(entry["weights"], dtype=result.dtype).reshape(entry["shape"])).sum()
    if loss.requires_grad:
        loss.backward()
    for entry in case["operands"]:
        if "gradient" in entry:
            worst = max(worst, relative_error(entry["gradient"], operands[entry["name"]].grad, special))
    return worst


def is_random(case: dict) -> bool:
    """Whether the numbers cannot agree: they are other random ones than PyTorch's, or nobody says what they are."""
    drops = case["attributes"].get("dropout_p", 0) or (case["attributes"].get("p", 0) and "dropout" in case["op"])
    return bool(drops) or case["op"].startswith(("aten.rand", "aten.bernoulli", "aten.uniform", "aten.normal", "aten.exponential",
                                                     "aten.empty", "aten.new_empty"))


def main() -> int:
    passed = failed = random = 0
    worst = {False: 0.0, True: 0.0}  # by whether the case was drawn
    ops = set()
    for case in json.load(sys.stdin):
        name = f"{case['family']}, case {case['number']}, draw {case['draw']} ({case['op']})"
        if not case["op"].startswith("aten.") and case["op"] not in INSTEAD:
            continue  # an op of our own, which PyTorch does not have
        if is_random(case):
            random += 1
            continue
        try:
            error = check(case)
        except Exception as problem:  # a case that PyTorch refuses is our case's fault: say so and go on
            print(f"{name}: PyTorch says {problem}")
            failed += 1
            continue
        worst[case["draw"] > 0] = max(worst[case["draw"] > 0], error)
        ops.add(case["op"])
        if error > TOLERANCE:
            print(f"{name}: relative error {error:.2e}")
            failed += 1
        else:
            passed += 1
    print(f"{len(ops)} ops, largest relative error {worst[False]:.2e}, in float32 on drawn shapes {worst[True]:.2e}, "
          f"torch {torch.__version__}")
    print(f"{passed} passed, {failed} failed, {random} with random numbers left out")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
