#!/usr/bin/env python3
"""write_aten_schemas.py PROGRAM >kernel/graph/aten/schemas.inc: what PyTorch says of the arguments of every op that a family
of PROGRAM serves, a line each. Needs PyTorch; run it when a family serves another op.

    "aten.add.Tensor self:T other:T alpha=s -> 1"

A colon stands before the kind of an argument that a call must have, an equals sign before that of one with a default.
Kinds: T tensor, T? tensor or none, T* tensors, T?* tensors or none; i integer, I integers, f number, F numbers, s number
of any kind, b truth value, t text, d dtype, x nothing that changes a result's type (a device, a layout). At the end: the
number of results, or * for a list.
"""
import json
import re
import subprocess
import sys

import torch

KINDS = {"Tensor": "T", "Tensor[]": "T*", "Optional[Tensor]": "T?", "List[Tensor]": "T*", "List[Optional[Tensor]]": "T?*", "int": "i", "List[int]": "I",
         "float": "f", "List[float]": "F", "number": "s", "bool": "b", "List[bool]": "I", "str": "t"}
UNTYPED = ("dtype", "layout", "device", "memory_format", "generator", "input_dtype")


def kind_of(argument):
    if argument.name in UNTYPED:
        return "d" if argument.name.endswith("dtype") else "x"
    kind = str(argument.type)
    optional = re.fullmatch(r"Optional\[(.*)\]", kind)
    if optional and optional[1] != "Tensor":
        kind = optional[1]
    return KINDS[kind]


def line_of(op):
    parts = op.split(".")
    schema = getattr(getattr(torch.ops.aten, parts[1]), parts[2] if len(parts) > 2 else "default")._schema
    arguments = []
    for argument in schema.arguments:
        kind = kind_of(argument)
        may_miss = argument.has_default_value() or not kind.startswith("T") or kind == "T?"
        arguments.append(argument.name + ("=" if may_miss else ":") + kind)
    listed = len(schema.returns) == 1 and str(schema.returns[0].type) == "List[Tensor]"
    return f'    "{" ".join([op, *arguments])} -> {"*" if listed else len(schema.returns)}",'


def ask(program, *arguments):
    return json.loads(subprocess.run([program, "plugins", *arguments, "--format", "json"], capture_output=True, text=True, check=True).stdout)


def main():
    program = sys.argv[1]
    families = [plugin["id"] for plugin in ask(program, "list")["plugins"] if plugin["kind"] == "ops"]
    ops = {op for family in families for op in ask(program, "describe", "ops/" + family)["serves"] if op.startswith("aten.")}
    print("// Written by tools/write_aten_schemas.py with PyTorch " + torch.__version__.split("+")[0] + ", which says what the letters mean.")
    for op in sorted(ops):
        print(line_of(op))


if __name__ == "__main__":
    main()
