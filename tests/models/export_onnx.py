#!/usr/bin/env python3
"""Write the .onnx models for tests beside this script.

The small ones hold their weights, but for the ResNet; the large ones hold none: planning reads shapes, and a file that names
external data which is not there is a model without weights. Each has a .pt2 twin that the tests compare it with: export.py here, and
examples/export.py. What explains a node to a person (stack traces, the module's class) is left out, the module's path kept.

Needs the packages of examples/requirements.txt, torchvision 0.29.2, onnx 1.23.2 and onnxscript 0.7.2.

    python tests/models/export_onnx.py [NAME ...]
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy
import onnx
import torch
import torchvision
import transformers
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent
KEPT = {"pkg.torch.onnx.name_scopes"}


def script(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem + "_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TINY = script(ROOT / "export.py")


class Positional(torch.nn.Module):
    """A model of ``transformers`` called with its inputs in order, for its logits."""

    def __init__(self, inner: torch.nn.Module, names: list[str]):
        super().__init__()
        self.inner = inner
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(**dict(zip(self.names, inputs))).logits


def export(model: torch.nn.Module, inputs: dict[str, torch.Tensor], opset: int, dynamo: bool = True, train: bool = False,
           **options) -> onnx.ModelProto:
    """Distinct weights, because the exporter merges those with the same bytes, as all fresh scales and biases have."""
    TINY.fill(model)
    if isinstance(model, transformers.PreTrainedModel):
        model = Positional(model, list(inputs))
    model.train(train)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(model, tuple(inputs.values()), path, input_names=list(inputs), output_names=["logits"],
                          opset_version=opset, dynamo=dynamo, verbose=False, external_data=False, **options)
        return onnx.load(path)


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.zeros(batch, length, dtype=torch.int64)


def gpt2_tiny(opset: int, **options) -> onnx.ModelProto:
    model, inputs = TINY.gpt2()
    return export(model.inner, {"input_ids": inputs["input_ids"]}, opset, **options)


def bert_tiny(opset: int, **options) -> onnx.ModelProto:
    model, inputs = TINY.bert()
    return export(model.inner, {name: inputs[name] for name in ("input_ids", "attention_mask")}, opset, **options)


def resnet_tiny(opset: int, **options) -> onnx.ModelProto:
    model, inputs = TINY.resnet()
    return export(model.inner, {"images": inputs["images"]}, opset, optimize=False, **options)


def gpt2_small(opset: int) -> onnx.ModelProto:
    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return export(transformers.GPT2LMHeadModel(config), {"input_ids": tokens(8, 1024)}, opset)


def bert_base(opset: int) -> onnx.ModelProto:
    config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    inputs = {"input_ids": tokens(32, 512), "attention_mask": tokens(32, 512)}
    return export(transformers.BertForMaskedLM(config), inputs, opset, dynamo=False)


def resnet50(opset: int) -> onnx.ModelProto:
    return export(torchvision.models.resnet50(), {"images": torch.zeros(32, 3, 224, 224)}, opset, optimize=False)


def image_classifier() -> onnx.ModelProto:
    """What a converter from another framework writes: channels last, weights as MatMul and Gemm take them, a symbolic batch, sizes computed from shapes, and no types between the nodes."""
    generator = numpy.random.default_rng(1)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((generator.random(shape, dtype=numpy.float32) - 0.5) * 0.5, name)

    def integers(name: str, *values: int) -> onnx.TensorProto:
        return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)

    nodes = [
        helper.make_node("Transpose", ["image"], ["nchw"], "to_channels_first", perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["nchw", "conv/kernel:0"], ["conv"], "conv", auto_pad="SAME_UPPER", strides=[2, 2]),
        helper.make_node("Transpose", ["conv"], ["nhwc"], "to_channels_last", perm=[0, 2, 3, 1]),
        helper.make_node("Add", ["nhwc", "conv/bias:0"], ["biased"], "conv/BiasAdd"),
        helper.make_node("Relu", ["biased"], ["rectified"], "conv/Relu"),
        helper.make_node("Transpose", ["rectified"], ["pool_in"], "pool/in", perm=[0, 3, 1, 2]),
        helper.make_node("MaxPool", ["pool_in"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Shape", ["pool"], ["shape"], "flatten/Shape"),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], "flatten/batch"),
        helper.make_node("Concat", ["batch", "minus_one"], ["flat_shape"], "flatten/shape", axis=0),
        helper.make_node("Reshape", ["pool", "flat_shape"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", "dense/kernel:0"], ["dense"], "dense/MatMul"),
        helper.make_node("Add", ["dense", "dense/bias:0"], ["dense_biased"], "dense/BiasAdd"),
        # gelu as Keras writes it, of a person's pieces
        helper.make_node("Pow", ["dense_biased", "three"], ["cube"], "gelu/Pow"),
        helper.make_node("Mul", ["cube", "coefficient"], ["scaled_cube"], "gelu/Mul"),
        helper.make_node("Add", ["dense_biased", "scaled_cube"], ["inner_sum"], "gelu/Add"),
        helper.make_node("Mul", ["inner_sum", "root"], ["inner"], "gelu/Mul_1"),
        helper.make_node("Tanh", ["inner"], ["tanh"], "gelu/Tanh"),
        helper.make_node("Add", ["tanh", "one"], ["one_plus"], "gelu/Add_1"),
        helper.make_node("Mul", ["dense_biased", "one_plus"], ["doubled"], "gelu/Mul_2"),
        helper.make_node("Mul", ["doubled", "half"], ["hidden"], "gelu/Mul_3"),
        helper.make_node("Gemm", ["hidden", "head/kernel:0", "head/bias:0"], ["logits"], "head"),
    ]
    scalars = {"three": 3.0, "coefficient": 0.044715, "root": 0.7978845608, "one": 1.0, "half": 0.5}
    initializers = [
        weight("conv/kernel:0", 8, 3, 3, 3), weight("conv/bias:0", 8), weight("dense/kernel:0", 8 * 4 * 4, 32),
        weight("dense/bias:0", 32), weight("head/kernel:0", 32, 10), weight("head/bias:0", 10), integers("zero", 0),
        integers("minus_one", -1),
        *(numpy_helper.from_array(numpy.array(value, dtype=numpy.float32), name) for name, value in scalars.items())]
    graph = helper.make_graph(
        nodes, "classifier", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 16, 16, 3])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="tf2onnx", ir_version=8)


def nameless() -> onnx.ModelProto:
    """Four equal layers of two products, between two others; no node has a name, and no weight one that says where it belongs."""
    generator = numpy.random.default_rng(1)
    nodes, weights = [], []

    def product(value: str, rows: int, columns: int) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array((generator.random((rows, columns), dtype=numpy.float32) - 0.5) * 0.5, name))
        nodes.append(helper.make_node("MatMul", [value, name], [f"v{len(nodes)}"]))
        return nodes[-1].output[0]

    def node(op: str, *values: str) -> str:
        nodes.append(helper.make_node(op, values, [f"v{len(nodes)}"]))
        return nodes[-1].output[0]

    value = product("rows", 24, 16)
    for _ in range(4):
        value = node("Add", value, product(node("Relu", product(value, 16, 64)), 64, 16))
    nodes.append(helper.make_node("MatMul", [value, "last"], ["result"]))
    weights.append(numpy_helper.from_array((generator.random((16, 8), dtype=numpy.float32) - 0.5) * 0.5, "last"))
    graph = helper.make_graph(nodes, "nameless", [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [16, 24])],
                              [helper.make_tensor_value_info("result", TensorProto.FLOAT, [16, 8])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "gpt2_23_tiny": lambda: gpt2_tiny(23),
    "gpt2_17_tiny": lambda: gpt2_tiny(17),
    "bert_17_tiny": lambda: bert_tiny(17, dynamo=False),
    "resnet_23_tiny": lambda: resnet_tiny(23),
    "classifier_tiny": image_classifier,
    "nameless_tiny": nameless,
    "gpt2_small_23": lambda: gpt2_small(23),
    "gpt2_small_17": lambda: gpt2_small(17),
    "bert_base_17": lambda: bert_base(17),
    "resnet50_23": lambda: resnet50(23),
}


def shrink(model: onnx.ModelProto, keep_weights: bool) -> None:
    """Leave out what only people read, and, of a large model, the bytes of every large tensor."""
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key in KEPT]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.doc_string = ""
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        del value.metadata_props[:]
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
        size = len(tensor.raw_data)
        if keep_weights or size <= 64:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value="weights.bin")
        tensor.external_data.add(key="length", value=str(size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(MODELS)}; all by default")
    parser.add_argument("-o", "--output", type=Path, default=ROOT, help="the folder to write to")
    options = parser.parse_args()
    for name in options.names or MODELS:
        if name not in MODELS:
            parser.error(f"no model named {name!r}; known: {', '.join(MODELS)}")
        model = MODELS[name]()
        shrink(model, keep_weights=name.endswith("_tiny") and "resnet" not in name)
        path = options.output / f"{name}.onnx"
        path.write_bytes(model.SerializeToString(deterministic=True))
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    main()
