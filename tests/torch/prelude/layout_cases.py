import ast
import contextlib
import io
import sys
import types
from pathlib import Path

import definitions
import torch
import torch.distributed as dist

from cases import case, close, draw
from prelude import mesh
from prelude.layout import Layout, whole_of
from prelude.mesh import axes, coordinates, group
from prelude.moves import all_reduce


ON_TWO = dict(mesh=(2, 2))

LAYOUTS = [  # of a [8, 12], on two axes
    Layout((8, 12), (None, None), **ON_TWO),
    Layout((8, 12), (0, None), **ON_TWO),
    Layout((8, 12), (None, 0), **ON_TWO),
    Layout((8, 12), (0, 1), **ON_TWO),
    Layout((8, 12), (1, 0), **ON_TWO),
    Layout((8, 12), (0, 0), **ON_TWO),
    Layout((8, 12), (1, 1), **ON_TWO),
    Layout((8, 12), (1, 3), ((2, 4), (3, 4)), **ON_TWO),
    Layout((8, 12), (0, 3), ((2, 4), (3, 4)), **ON_TWO),
    Layout((8, 12), (3, 3), ((2, 4), (3, 4)), **ON_TWO),
]


@case
def test_parts_of_a_matrix():
    whole = draw(8, 12)
    a, b = coordinates()
    atoms = whole.view(2, 4, 3, 4)
    expected = {
        1: whole[a * 4:][:4],
        2: whole[b * 4:][:4],
        3: whole[a * 4:, b * 6:][:4, :6],
        5: whole[(a * 2 + b) * 2:][:2],
        7: atoms[:, a * 2:, :, b * 2:][:, :2, :, :2].reshape(4, 6),
        8: atoms[a:, :, :, b * 2:][:1, :, :, :2].reshape(4, 6),
        9: atoms[:, :, :, a * 2 + b].reshape(8, 3),
    }
    for i, part in expected.items():
        close(LAYOUTS[i].cut(whole), part, str(LAYOUTS[i]))
    for layout in LAYOUTS:
        part = layout.cut(whole)
        assert tuple(part.shape) == layout.local_shape() and part.is_contiguous()
        close(whole_of(part, layout), whole, str(layout))


@case
def test_sums_are_whole_on_the_first_rank():
    whole = draw(8, 12)
    layout = Layout((8, 12), ("sum", 1))
    part = layout.cut(whole)
    assert bool((part == 0).all()) == (coordinates()[0] != 0)
    close(whole_of(part, layout), whole)


@case(on=((2, 2), (4,)))
def test_padding_nests():
    whole = draw(10, 3)
    for place in {(2, 2): [(0, None), (None, 0), (0, 0)], (4,): [(0,)]}[axes()]:
        layout = Layout((10, 3), place, None, (0,))
        part = layout.cut(whole)
        starts, extents = layout.box(coordinates())
        assert extents[0] * (4 if place in ((0, 0), (0,)) else 2) == 12
        rows = max(0, min(10 - starts[0], extents[0]))
        close(part[:rows], whole[starts[0]:starts[0] + rows], "rows")
        assert not part[rows:].any(), "padding is zero"
        close(whole_of(part, layout), whole, str(layout))
    assert Layout((3,), (None,) * len(axes()), None, (0,)).local_shape() == (3,)


@case
def test_dtypes():
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.int64, torch.bool, torch.uint8):
        whole = torch.arange(96).view(8, 12).to(dtype)
        for layout in LAYOUTS[1:7]:
            close(whole_of(layout.cut(whole), layout), whole, f"{dtype} {layout}")


@case(on=((2, 2), (4,)))
def test_scalars_and_one_rank_dimensions():
    replicated = (None,) * len(axes())
    one = torch.ones((), dtype=torch.float64)
    close(whole_of(Layout((), replicated).cut(one), Layout((), replicated)), one)
    layout = Layout((1, 8, 1), (0,) + (None,) * (len(axes()) - 1))
    whole = draw(1, 8, 1)
    close(whole_of(layout.cut(whole), layout), whole)


@case(on=((2, 2), (4,)))
def test_groups_are_lines_of_the_mesh():
    for axis in range(len(axes())):
        line = [rank for rank in range(4)
                if all(a == b for i, (a, b) in enumerate(zip(coordinates(rank), coordinates())) if i != axis)]
        found = dist.distributed_c10d._resolve_process_group(group(axis))
        assert dist.get_process_group_ranks(found) == line


@case
def test_a_layout_stays_on_its_mesh():
    """On ranks that have a part in meshes of other sizes, too."""
    whole = draw(8, 12)
    with mesh.on_mesh((4,)):
        mesh.start()
        other = Layout((8, 12), (0,))
        assert axes() == (4,) and coordinates() == (dist.get_rank(),)
    assert axes() == (2, 2)
    part = other.cut(whole)
    close(part, whole[dist.get_rank() * 2:][:2])
    close(whole_of(part, other), whole)
    with mesh.on_mesh((4,)):
        close(whole_of(LAYOUTS[3].cut(whole), LAYOUTS[3]), whole)
        assert axes() == (4,)


@case
def test_another_number_of_ranks_is_refused():
    told = io.StringIO()
    mesh.AXES = (2, 4)
    try:
        with contextlib.redirect_stderr(told):
            mesh.start()
    except SystemExit as ended:
        assert ended.code == 1
    else:
        raise AssertionError("a mesh of 8 ranks does not start on 4")
    finally:
        mesh.AXES = (2, 2)
    words = "sharded over 8 ranks (a mesh of 2 x 4) but runs on 4; start it with: torchrun --nproc-per-node 8"
    assert (words in told.getvalue()) == (dist.get_rank() == 0), told.getvalue()


@case
def test_a_mesh_is_made_while_the_default_device_is_meta():
    known = mesh.MESHES.pop((2, 2))
    try:
        with torch.device("meta"):
            mesh.start()
        assert all_reduce(0)(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    finally:
        mesh.MESHES[2, 2] = known


@case
def test_all_files_make_one_program():
    """As the backend writes it: the definitions of all files, without the imports between them."""
    folder = Path(mesh.__file__).parent
    assert sorted(path.stem for path in folder.glob("*.py")) == sorted(definitions.OWN)
    lines = ["import atexit", "import contextlib", "import functools", "import importlib", "import itertools", "import math", "import os", "import sys", "import tempfile", "import weakref", "from pathlib import Path", "from dataclasses import dataclass", "from dataclasses import dataclass, field",
             "import torch", "import torch.distributed as dist", "from torch import nn", "from torch.distributed import pipelining", "import torch.nn.functional as F",
             "from torch.utils.checkpoint import checkpoint"]
    defined = {}
    for path in [folder / f"{name}.py" for name in definitions.OWN] + definitions.emitters_files():
        text = path.read_text()
        for name in (part.name for part in ast.parse(text).body if isinstance(part, (ast.FunctionDef, ast.ClassDef))):
            assert defined.setdefault(name, path) == path, f"{name} of {path} is defined in {defined[name]} too"
        own = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
        assert all(line in lines or line.startswith(("from .", "from sharding import")) for line in own), (path, own)
        lines += [line for line in text.splitlines() if line not in own and not line.startswith("AXES = ")]
    scope = {"AXES": (2, 2), "__name__": "model"}
    program = types.ModuleType("model")
    sys.modules["model"] = program
    program.__dict__.update(scope)
    exec(compile("\n".join(lines), "model.py", "exec"), program.__dict__)
    program.start()
    whole = draw(8, 12)
    layout = program.Layout((8, 12), (0, 1))
    close(program.whole_of(layout.cut(whole), layout), whole)
    p = program.parameter(layout, torch.float64, loaded=[program.all_gather(1, 1)],
                          reduced=[program.reduce_scatter(1, 1)])
    program.used(p).sum().backward()
    close(p.grad, torch.full((4, 6), 2.0, dtype=torch.float64))
