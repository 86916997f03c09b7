#!/usr/bin/env python3
"""A plan file is held against its graph and its model: stored conversions, layouts, counts, the model's bytes."""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--sources", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, file = folder / "model.pt2", folder / "plan.json"
        shutil.copy(arguments.sources / "tests/models/gpt2_tiny.pt2", model)
        code, errors = run(arguments.program, "plan", model, "--cluster", arguments.sources / "tests/e2e/slow8.toml", "--mesh", "2x4", "-o", file)
        assert code == 0, errors
        good = json.loads(file.read_text())
        moved = next(i for i, each in enumerate(good["conversions"]) if "operand" in each)

        def refused(change, said):
            plan = json.loads(json.dumps(good))
            change(plan)
            file.write_text(json.dumps(plan))
            code, errors = run(arguments.program, "simulate", file)
            assert code == 2 and said in errors, f"{code}: {errors}, not: {said}"

        conversion = good["conversions"][moved]
        refused(lambda plan: plan["conversions"][moved].update(target_layout="S9"), "target_layout")
        refused(lambda plan: plan["conversions"][moved].update(target_layout=conversion["source_layout"]), "the plan has no conversion from")
        refused(lambda plan: plan["conversions"][moved]["moves"][-1].update(layout=conversion["source_layout"]), "leads from")
        refused(lambda plan: plan["conversions"][moved]["moves"].pop(), "it is said to take")
        refused(lambda plan: plan["conversions"].pop(moved), "the plan has no conversion from")
        refused(lambda plan: next(v for v in plan["variables"] if v.get("backward"))["backward"].pop(), "was the plan made with other op families?")
        refused(lambda plan: next(v for v in plan["variables"] if v.get("backward"))["backward"][0]["axes"].__setitem__(0, "z"), "has no factor 'z' to shard")
        refused(lambda plan: plan["conversions"][moved]["moves"][0].update(bytes=1), "is said to take 1 bytes")
        refused(lambda plan: plan["conversions"][moved]["moves"][0].update(seconds=1.0), "and it is said to take")
        refused(lambda plan: plan["conversions"][moved].update(seconds=conversion["seconds"] / 2), "and it is said to take")
        refused(lambda plan: plan["conversions"][moved].update(hides=not conversion["hides"]), "conversion of")
        refused(lambda plan: plan["conversions"][moved].update(to=conversion["from"]), "conversion of")
        refused(lambda plan: plan["conversions"][moved].update(times=1000), "times")
        refused(lambda plan: plan["conversions"][moved].update(seconds=-1), "seconds")
        refused(lambda plan: plan["training"].update(microbatches=10**9), "microbatches")
        refused(lambda plan: plan["graph"]["values"][-1].__setitem__(2, [3, 3]), "what it computes is")
        refused(lambda plan: plan["mesh"][0].update(size=2**40), "mesh")

        file.write_text(json.dumps(good))
        with model.open("ab") as stream:
            stream.write(b"one more byte")
        for command in (("simulate",), ("emit", "--backend", "torch"), ("verify",), ("profile",)):
            code, errors = run(arguments.program, command[0], file, *command[1:])
            assert code == 2 and "has changed since it was planned" in errors, f"{command}: {code}: {errors}"
        code, errors = run(arguments.program, "simulate", file, "--allow-changed-model")
        assert code == 0, errors
        model.unlink()
        code, errors = run(arguments.program, "simulate", file)
        assert code == 0, f"a model that is gone: {errors}"
    print("plans that do not fit their graph or their model are refused")


if __name__ == "__main__":
    main()
