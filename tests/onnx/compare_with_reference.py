#!/usr/bin/env python3
"""Hold what ONNX ops are translated to against the ONNX project's own reference implementation.

Every case is a model of one op on values that the file holds, and a loss that weighs the elements of its result. The program plans
it, and `meshwright verify` computes the loss, on one device and on eight. A case whose op no family has numbers for is listed.

    python tests/onnx/compare_with_reference.py build/bin/meshwright
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "configs" / "clusters" / "h100x8.toml"
TOLERANCE = 2e-4
# Families that are not there yet, or not with a gradient; each is named by the program.
UNSERVED = ("no op family serves it", "are not supported", "is supported where", "only constant padding is supported")

random = numpy.random.default_rng(3)


def real(*shape: int) -> numpy.ndarray:
    return random.standard_normal(shape).astype(numpy.float32)


def above(least: float, *shape: int) -> numpy.ndarray:
    return numpy.abs(real(*shape)) + numpy.float32(least)


def integers(*values: int) -> numpy.ndarray:
    return numpy.array(values, dtype=numpy.int64)


def number(value: float) -> numpy.ndarray:
    return numpy.array(value, dtype=numpy.float32)


class Case:
    """One node, or several, whose result is `y`. Names with a dot are those of parameters."""

    def __init__(self, op: str | list, values: dict, opset: int = 17, order: list[str] | None = None, **attributes):
        self.name = op if isinstance(op, str) else op[-1].op_type
        self.nodes = [helper.make_node(op, order or list(values), ["y"], **attributes)] if isinstance(op, str) else op
        self.values = {name: numpy.asarray(value) for name, value in values.items()}
        self.opset = opset

    def model(self, nodes: list, values: dict, output: str) -> onnx.ModelProto:
        graph = helper.make_graph(nodes, self.name, [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(value, name) for name, value in values.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def expected(self) -> numpy.ndarray:
        return ReferenceEvaluator(self.model(self.nodes, self.values, "y")).run(None, {})[0]

    def weighted(self, weights: numpy.ndarray) -> onnx.ModelProto:
        nodes = [*self.nodes, helper.make_node("Mul", ["y", "a.weights"], ["weighted"]),
                 helper.make_node("ReduceSum", ["weighted"], ["loss"], keepdims=0)]
        return self.model(nodes, {**self.values, "a.weights": weights}, "loss")


def pointwise() -> list[Case]:
    cases = [Case(op, {"a.x": real(4, 6)}, 18) for op in
             ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Sin", "Cos", "Erf", "Softplus", "HardSwish", "Softsign", "Elu",
              "Celu", "Selu", "LeakyRelu", "HardSigmoid", "Identity", "Floor", "Sign", "Mish")]
    cases += [Case(op, {"a.x": above(0.5, 4, 6)}) for op in ("Log", "Sqrt", "Reciprocal")]
    cases += [Case("Gelu", {"a.x": real(4, 6)}, 20, approximate=form) for form in ("none", "tanh")]
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max"):
        x = {"a.x": above(0.5, 4, 6)}
        cases += [Case(op, {**x, "a.z": above(2, 6)}), Case(op, {**x, "c": number(2.5)}),
                  Case(op, {**x, "c": number(2.5)}, order=["c", "a.x"])]
    condition = numpy.array([[True], [False], [True]])
    cases += [Case("PRelu", {"a.x": real(2, 3, 4), "a.slope": real(3, 1)}),
              Case("Clip", {"a.x": real(4, 6), "low": number(-0.3), "high": number(0.4)}),
              Case("Mod", {"a.x": real(3, 4), "c": number(0.7)}, fmod=1),
              Case("Sum", {"a.x": real(3, 4), "a.z": real(4), "a.w": real(3, 1)}),
              Case("Mean", {"a.x": real(3, 4), "a.z": real(4)}),
              Case("Where", {"c": condition, "a.x": real(3, 4), "a.z": real(4)}),
              Case("Where", {"c": condition, "a.x": real(3, 4), "k": number(2)}),
              Case("Where", {"c": condition, "k": number(2), "a.x": real(3, 4)})]
    return cases


def reductions() -> list[Case]:
    cases = []
    for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"):
        x = {"a.x": real(2, 3, 4)}
        cases += [Case(op, x, axes=[1], keepdims=0), Case(op, x, axes=[-1, 0]), Case(op, {**x, "axes": integers(2)}, 18),
                  Case(op, x, 18)]
    cases += [Case("ReduceSum", {"a.x": real(2, 3, 4), "axes": integers(1)}),
              Case("ReduceLogSum", {"a.x": above(0.1, 2, 3, 4)}, axes=[1]),
              Case("ReduceProd", {"a.x": real(2, 3, 4)}, axes=[1]),
              Case("CumSum", {"a.x": real(3, 4), "axis": numpy.array(1)}),
              Case("CumSum", {"a.x": real(3, 4), "axis": numpy.array(0)}, reverse=1)]
    return cases


def norms() -> list[Case]:
    return [Case("Softmax", {"a.x": real(2, 3, 4)}, axis=1), Case("LogSoftmax", {"a.x": real(2, 3, 4)}, axis=-1),
            Case("LayerNormalization", {"a.x": real(2, 3, 4), "a.w": real(4), "a.b": real(4)}, axis=-1, epsilon=1e-3),
            Case("LayerNormalization", {"a.x": real(2, 3, 4), "a.w": real(3, 4), "a.b": real(3, 4)}, axis=1),
            Case("RMSNormalization", {"a.x": real(2, 3, 4), "a.w": real(4)}, 23, axis=-1, epsilon=1e-3),
            Case("InstanceNormalization", {"a.x": real(2, 3, 4, 5), "a.w": real(3), "a.b": real(3)}),
            Case("GroupNormalization", {"a.x": real(2, 6, 4, 5), "a.w": real(6), "a.b": real(6)}, 21, num_groups=3),
            Case("BatchNormalization", {"a.x": real(2, 3, 4, 5), "a.w": real(3), "a.b": real(3), "mean": real(3),
                                        "variance": above(0.5, 3)}),
            Case("LpNormalization", {"a.x": real(3, 4)}, axis=1, p=2)]


def products() -> list[Case]:
    shapes = [((2, 3, 4), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((4,), (4, 5)),
              ((2, 3, 4), (4,))]
    cases = [Case("MatMul", {"a.x": real(*a), "a.w": real(*b)}) for a, b in shapes]
    for turn_a in (0, 1):
        for turn_b in (0, 1):
            for alpha, beta in ((1.0, 1.0), (2.0, 0.5)):
                x, w = real(*((4, 3) if turn_a else (3, 4))), real(*((5, 4) if turn_b else (4, 5)))
                cases.append(Case("Gemm", {"a.x": x, "a.w": w, "a.b": real(5)}, transA=turn_a, transB=turn_b, alpha=alpha,
                                  beta=beta))
    cases += [Case("Gemm", {"a.x": real(3, 4), "a.w": real(4, 5)}),
              Case("Gemm", {"a.x": real(3, 4), "a.w": real(4, 5), "a.b": real(3, 1)}),
              Case("Einsum", {"a.x": real(2, 3, 4), "a.w": real(2, 4, 5)}, equation="bij,bjk->bik"),
              Case("Einsum", {"a.x": real(3, 4), "a.w": real(4, 5)}, equation="ij,jk"),
              Case("Attention", {"a.q": real(2, 4, 5, 8), "a.k": real(2, 2, 6, 8), "a.v": real(2, 2, 6, 8)}, 23),
              Case("Attention", {"a.q": real(2, 5, 8), "a.k": real(2, 5, 8), "a.v": real(2, 5, 8)}, 23, q_num_heads=2,
                   kv_num_heads=2, is_causal=1)]
    positions = numpy.array([[0, 1, 2, 3], [3, 4, 5, 6]])
    for width, attributes in ((4, {}), (2, {"rotary_embedding_dim": 4})):
        cases.append(Case("RotaryEmbedding", {"a.x": real(2, 3, 4, 8), "cosine": real(10, width), "sine": real(10, width),
                                              "positions": positions}, 23, **attributes))
    return cases


def windows() -> list[Case]:
    image = (2, 4, 7, 8)
    cases = [Case("Conv", {"a.x": real(*image), "a.w": real(6, 4, 3, 3), "a.b": real(6)}, pads=[1, 1, 1, 1], strides=[2, 2]),
             Case("Conv", {"a.x": real(*image), "a.w": real(6, 2, 3, 3)}, group=2, dilations=[2, 2]),
             Case("Conv", {"a.x": real(2, 4, 9), "a.w": real(6, 4, 3)}, pads=[0, 2]),
             Case("Conv", {"a.x": real(1, 2, 5, 5, 5), "a.w": real(3, 2, 3, 3, 3)}),
             Case("ConvTranspose", {"a.x": real(1, 3, 4, 4), "a.w": real(3, 2, 3, 3)}, strides=[2, 2], pads=[1, 1, 1, 1],
                  output_padding=[1, 1])]
    cases += [Case("Conv", {"a.x": real(*image), "a.w": real(6, 4, 3, 3)}, auto_pad=pad, strides=[2, 2])
              for pad in ("SAME_UPPER", "SAME_LOWER")]
    pools = [{"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
             {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}, {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}]
    cases += [Case("MaxPool", {"a.x": real(*image)}, **pool) for pool in pools]
    cases += [Case("AveragePool", {"a.x": real(2, 3, 8, 8)}, kernel_shape=[3, 3], **more) for more in
              ({"strides": [2, 2]}, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, {"pads": [1, 1, 1, 1], "count_include_pad": 1},
               {"pads": [0, 0, 1, 1], "count_include_pad": 1})]
    cases += [Case("MaxPool", {"a.x": real(2, 3, 9)}, kernel_shape=[3], dilations=[2]),
              Case("GlobalAveragePool", {"a.x": real(2, 3, 4, 5)}), Case("GlobalMaxPool", {"a.x": real(2, 3, 4, 5)})]
    none, twice = numpy.array([], dtype=numpy.float32), numpy.array([1, 1, 2, 2], dtype=numpy.float32)
    image = {"a.x": real(1, 2, 3, 4), "region": none}
    cases += [Case("Resize", {**image, "scales": twice}, mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor"),
              Case("Resize", {**image, "scales": twice}, mode="linear"),
              Case("Resize", {**image, "scales": none, "sizes": integers(1, 2, 5, 7)}, mode="linear",
                   coordinate_transformation_mode="align_corners")]
    return cases


def places() -> list[Case]:
    x = {"a.x": real(2, 3, 4)}
    cases = [Case("Reshape", {**x, "shape": integers(0, -1)}), Case("Transpose", x, perm=[2, 0, 1]), Case("Transpose", x),
             Case("Squeeze", {"a.x": real(2, 1, 4), "axes": integers(1)}), Case("Squeeze", {"a.x": real(2, 1, 4)}),
             Case("Unsqueeze", {"a.x": real(2, 4), "axes": integers(0, -1)}),
             Case("Expand", {"a.x": real(3, 1), "shape": integers(2, 3, 4)}),
             Case("Tile", {"a.x": real(2, 3), "repeats": integers(2, 3)}),
             Case("DepthToSpace", {"a.x": real(1, 8, 2, 3)}, blocksize=2),
             Case("DepthToSpace", {"a.x": real(1, 8, 2, 3)}, blocksize=2, mode="CRD"),
             Case("SpaceToDepth", {"a.x": real(1, 2, 4, 6)}, blocksize=2),
             Case("Concat", {"a.x": real(2, 3), "a.z": real(2, 4)}, axis=-1),
             Case("Trilu", {"a.x": real(4, 4)}, upper=0), Case("Trilu", {"a.x": real(4, 5), "k": numpy.array(1)})]
    cases += [Case("Flatten", x, axis=axis) for axis in (2, -1, 0)]
    wide = {"a.x": real(6, 8)}
    cases += [Case("Slice", {**wide, "starts": integers(1), "ends": integers(100), "axes": integers(1), "steps": integers(3)}),
              Case("Slice", {**wide, "starts": integers(-1), "ends": integers(-100), "axes": integers(0), "steps": integers(-1)}),
              Case("Slice", {**wide, "starts": integers(-3, 1), "ends": integers(-1, 3)}),
              Case("Pad", {"a.x": real(3, 4), "pads": integers(1, 0, 2, 1), "value": number(0.5)}),
              Case("Pad", {"a.x": real(3, 4), "pads": integers(1, 2), "value": number(0), "axes": integers(1)}, 18),
              Case([helper.make_node("Split", ["a.x", "sizes"], ["a", "y"], axis=1)], {"a.x": real(3, 10), "sizes": integers(3, 7)}),
              Case([helper.make_node("Split", ["a.x"], ["a", "b", "y"], axis=1, num_outputs=3)], {"a.x": real(3, 10)}, 18)]
    return cases


def indices() -> list[Case]:
    table = {"a.x": real(5, 4)}
    cases = [Case("Gather", {**table, "i": integers(1, 3)}), Case("Gather", {**table, "i": numpy.array([[1, -2], [0, 3]])}, axis=1),
             Case("Gather", {**table, "i": numpy.array(2)}, axis=1), Case("Gather", {"a.x": real(5, 4, 3), "i": integers(1, -1)}),
             Case("GatherElements", {"a.x": real(3, 4), "i": numpy.array([[0, 1], [2, 0], [3, 3]])}, axis=1),
             Case("GatherND", {"a.x": real(3, 4, 2), "i": numpy.array([[0, 1], [2, 3]])}),
             Case("GatherND", {"a.x": real(3, 4), "i": numpy.array([[0], [2]])}),
             Case("ScatterND", {"a.x": real(5, 3), "i": numpy.array([[1], [4]]), "a.u": real(2, 3)}, reduction="add"),
             Case("ScatterElements", {"a.x": real(5, 3), "i": numpy.array([[1, 0, 2], [4, 1, 3]]), "a.u": real(2, 3)}, axis=0,
                  reduction="add"),
             Case([helper.make_node("TopK", ["a.x", "k"], ["y", "i"], axis=1)], {"a.x": real(3, 10), "k": integers(4)}),
             Case([helper.make_node("OneHot", ["i", "depth", "values"], ["o"], axis=1), helper.make_node("Mul", ["o", "a.x"], ["y"])],
                  {"a.x": real(2, 5, 3), "i": numpy.array([[0, 2, 4], [1, 1, 0]]), "depth": numpy.array(5),
                   "values": numpy.array([-0.5, 2], dtype=numpy.float32)})]
    labels = {"a.x": real(6, 5), "labels": integers(0, 1, 2, 3, 4, 2)}
    loss = [helper.make_node("LogSoftmax", ["a.x"], ["s"], axis=1), helper.make_node("NegativeLogLikelihoodLoss", ["s", "labels"], ["y"])]
    cases += [Case("SoftmaxCrossEntropyLoss", labels, ignore_index=2),
              Case("SoftmaxCrossEntropyLoss", {**labels, "weights": above(0, 5)}, reduction="sum"), Case(loss, labels)]
    return cases


def outcome(case: Case, program: Path, folder: Path) -> str:
    """"" if the program computes what the reference does, "unserved: ..." if no family has the op, else what differs."""
    result = case.expected()
    weights = real(*result.shape) if result.ndim else number(1)
    wanted = float((result.astype(numpy.float64) * weights).sum())
    model, plan = folder / "case.onnx", folder / "plan.json"
    onnx.save(case.weighted(weights), model)
    planned = subprocess.run([program, "plan", model, "--cluster", CLUSTER, "--mesh", "2x4", "-o", plan], capture_output=True, text=True)
    if planned.returncode != 0:
        return planned.stderr.strip()
    verified = subprocess.run([program, "verify", plan, "--format", "json"], capture_output=True, text=True)
    notes = planned.stderr + verified.stderr
    if any(sentence in notes for sentence in UNSERVED):
        return "unserved: " + notes.strip().splitlines()[0]
    if not verified.stdout.lstrip().startswith("{"):
        return verified.stderr.strip()
    found = json.loads(verified.stdout)
    scale = max(abs(wanted), 0.1 * float(numpy.abs(result * weights).sum()), 1e-3)
    if not abs(found["loss_serial"] - wanted) <= TOLERANCE * scale or not found["equal"]:  # NaN differs too
        return f"computes {found['loss_serial']} where the reference computes {wanted}; ranks agree: {found['equal']}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the program meshwright")
    options = parser.parse_args()
    cases = [case for group in (pointwise, reductions, norms, products, windows, places, indices) for case in group()]
    wrong = unserved = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            said = outcome(case, options.program, Path(folder))
            if not said:
                continue
            unserved += said.startswith("unserved")
            wrong += not said.startswith("unserved")
            print(f"{case.name}, opset {case.opset}: {said}")
    print(f"{len(cases)} cases: {len(cases) - wrong - unserved} as the reference, {unserved} without an op family, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
