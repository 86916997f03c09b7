"""All that an emitted program may be made of, as the module `sharding`: the backend's prelude (backends/torch/prelude) and those
of the emitters in this tree, which import from it by that name."""
import importlib
import importlib.util
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OWN = ["mesh", "layout", "moves", "modules", "rows", "flights", "reductions", "loads", "parameters", "state", "positions", "random", "recomputed", "again", "schedule", "pipeline"]


def emitters_files():
    """The preludes of emitters."""
    return sorted(ROOT.glob("plugins/ops/*/torch/*.py"))


def defined_in(module):
    """What a module defines itself."""
    return {name: value for name, value in vars(module).items() if not name.startswith("__") and
            getattr(value, "__module__", module.__name__) == module.__name__ and not isinstance(value, types.ModuleType)}


def sharding():
    """The module. No prelude of an emitter may need another one's: they are added in the order of their names."""
    made = sys.modules["sharding"] = types.ModuleType("sharding")
    for name in OWN:
        made.__dict__.update(defined_in(importlib.import_module(f"prelude.{name}")))
    found = {}
    for file in emitters_files():
        spec = importlib.util.spec_from_file_location(f"emitter_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        own = defined_in(module)
        assert not set(own) & set(vars(made)), (file, set(own) & set(vars(made)))
        found.update(own)
    made.__dict__.update(found)
    return made
