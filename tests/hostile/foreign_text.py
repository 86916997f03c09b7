#!/usr/bin/env python3
"""What a file says never becomes code.

Plans a model, puts hostile text in place of its names (modules, parameters, inputs, nodes, values, the model itself) and
of its words (dtypes, memory formats), and reads what the program emits with the parsers of Python, JSON and XML. The
text begins a call of PWNED wherever it gets out of a literal or a comment, so no emitted program may have that name in
its syntax tree. Words that are none, and names of ops and arguments, are refused or emitted without harm.
"""
import argparse
import ast
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HOSTILE = [
    '"; PWNED(); "',
    "'''\n\"\"\"\nPWNED()\n\"\"\"",
    "\nPWNED()\n",
    "\r\nPWNED()\r",
    "\\",
    "\\\"+PWNED()+\"",
    "a\x01\x02\x03\x00b",
    "{PWNED()}",
    "[PWNED()](1,",
    "\u2028PWNED()\u2029",
    "\u202ename\U0001f600\u00e9",
    "]]><script>PWNED()</script><![CDATA[",
    "&PWNED;\ufffe\uffff",
    "class",
    "a b-c",
    "0x",
    "PWNED()#" + "x" * 5000,
]


def replaced(value, old, new):
    """`value` with every text in it changed; keys stay."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [replaced(each, old, new) for each in value]
    if isinstance(value, dict):
        return {key: replaced(each, old, new) for key, each in value.items()}
    return value


def run(program, *arguments):
    # Bytes as they come: a replacement character would hide what is no UTF-8.
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "backslashreplace")


def check_python(text, what):
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for name in (getattr(node, field, None) for field in ("id", "attr", "name", "arg")):
            assert name is None or not (isinstance(name, str) and name == "PWNED"), f"{what}: a file's text became code"
    text.decode("ascii")


def check_plan(program, plan, folder, what, may_refuse):
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    code, _, errors = run(program, "emit", path, "--backend", "torch", "-o", folder / "out")
    assert code == 0 or (code == 2 and may_refuse), f"{what}: emit gave {code}: {errors[:400]}"
    assert "PWNED" not in errors or errors.isprintable() or all(c.isprintable() or c == "\n" for c in errors), f"{what}: {errors!r}"
    assert errors.count("\n") <= 6 and len(errors) < 4000, f"{what}: a message of {len(errors)} letters"
    if code != 0:
        return False
    for name in ("model.py", "sharding.py", "train.py"):
        check_python((folder / "out" / name).read_bytes(), f"{what}, {name}")
    code, _, errors = run(program, "simulate", path, "--trace", folder / "trace.json")
    assert code == 0, f"{what}: simulate gave {code}: {errors[:400]}"
    json.loads((folder / "trace.json").read_bytes().decode("utf-8"))
    code, out, errors = run(program, "profile", path, "--format", "json", "--svg", folder / "memory.svg")
    assert code == 0, f"{what}: profile gave {code}: {errors[:400]}"
    json.loads(out.decode("utf-8"))
    root = xml.etree.ElementTree.parse(folder / "memory.svg").getroot()
    assert not [each for each in root.iter() if each.tag.endswith("script")], f"{what}: a script in the drawing"
    return True


def check_words(program, plan, folder):
    """Texts of attributes, and names of ops and of arguments."""
    for text in HOSTILE:
        for what in ("value", "key", "operand", "op"):
            changed = json.loads(json.dumps(plan))
            for node in changed["graph"]["nodes"]:
                if what == "value":
                    for key in ("dtype", "memory_format"):
                        node["attributes"][key] = text
                elif what == "key":
                    node["attributes"][text] = 1
                elif what == "operand" and node["operands"]:
                    node["operands"][0][0] = text
                elif what == "op":
                    node["op"] = "aten." + text
            check_plan(program, changed, folder, f"{what} {text[:20]!r}", may_refuse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--sources", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        original = folder / "original.json"
        cluster = arguments.sources / "tests/e2e/slow8.toml"
        emitted = 0
        for model, words in (("gpt2_tiny", ("transformer", "wte", "labels", "linear", "h.0")), ("mlp_tiny", ("mlp_tiny",))):
            code, _, errors = run(arguments.program, "plan", arguments.sources / f"tests/models/{model}.pt2", "--cluster", cluster,
                                  "--mesh", "2x4", "-o", original)
            assert code == 0, errors
            plan = json.loads(original.read_text())
            for word in words:
                for text in HOSTILE:
                    model_path = plan["model"]["path"]
                    changed = replaced(plan, word, text)
                    changed["model"]["path"] = model_path
                    for node, old in zip(changed["graph"]["nodes"], plan["graph"]["nodes"]):
                        node["op"] = old["op"]
                    for variable, old in zip(changed["variables"], plan["variables"]):
                        if "op" in old:
                            variable["op"] = old["op"]
                    emitted += check_plan(arguments.program, changed, folder, f"{model}, {text[:20]!r} for {word}", may_refuse=False)
            if model == "mlp_tiny":
                check_words(arguments.program, plan, folder)
        print(f"{emitted} programs with hostile names: read, and none of their text is code")


if __name__ == "__main__":
    sys.exit(main())
