"""What the cases share."""
import math
import traceback

import torch

from prelude.layout import whole_of
from prelude.mesh import axes
from prelude.moves import all_reduce, run
from prelude.positions import positions

MESHES = ((2, 2), (4,))

CASES = []

PROBLEMS = []  # of the case that runs; told at its end, since ranks that go on must meet the others


def case(function=None, on=((2, 2),)):
    """Adds a case, on each of these meshes."""
    def add(body):
        CASES.extend((body.__name__, mesh, body) for mesh in on)
        return body
    return add(function) if function else add


def close(a, b, what="", tolerance=1e-12):
    """Notes a problem unless the tensors are alike."""
    problem = None
    if a.shape != b.shape:
        problem = f"shape {tuple(a.shape)}, not {tuple(b.shape)}"
    elif a.dtype != b.dtype:
        problem = f"{a.dtype}, not {b.dtype}"
    elif not a.dtype.is_floating_point:
        problem = None if torch.equal(a, b) else f"{a} is not {b}"
    elif a.numel() > 0:
        difference = (a - b).abs().max().item()
        if not difference <= tolerance * max(1.0, b.abs().max().item()):  # nor if it is no number
            problem = f"differs by {difference}"
    if problem:
        PROBLEMS.append(f"{what}: {problem}\n" + "".join(traceback.format_stack(limit=4)[:-1]))


def same(local, layout, whole, what="", tolerance=1e-12):
    """The parts of all ranks are those of a whole tensor, put together and each by itself."""
    close(whole_of(local.detach(), layout), whole.detach(), what + ", put together", tolerance)
    if "sum" not in layout.axes:
        close(local.detach(), layout.cut(whole.detach()), what + ", here", tolerance)


def draw(*shape):
    """The same numbers on every rank."""
    return torch.randn(shape, dtype=torch.float64)


def leaf(layout, whole):
    """This rank's part, to be differentiated."""
    return layout.cut(whole.detach()).requires_grad_()


def positions_of(layout, first, last):
    """The positions that a rank has along dimensions [first, last) of a tensor, as the emitter describes them."""
    counts = [len(factors) for factors in layout.factors()]
    atoms = range(sum(counts[:first]), sum(counts[:last]))
    extents, sizes = layout.extents(), layout.sizes()
    steps = []
    for axis in range(len(axes())):
        place = layout.axes[axis]
        inner = math.prod(axes()[b] for b in range(axis + 1, len(axes())) if layout.axes[b] == place)
        steps.append(tuple(extents[atom] * inner if place == atom else 0 for atom in atoms))
    return positions([sizes[a] for a in atoms], [extents[a] for a in atoms], [0] * len(atoms), steps)


def cut_if(layout, whole):
    """This rank's part of what there may be."""
    return None if whole is None else layout.cut(whole)


def reduced(gradient, layout, over):
    """A gradient that is an addend of each rank of these axes, added up."""
    return run([all_reduce(axis) for axis in over], gradient)
