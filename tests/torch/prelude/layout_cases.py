import torch
import torch.distributed as dist

from cases import case, close, draw
from prelude.layout import Layout, whole_of
from prelude.mesh import axes, coordinates, group


LAYOUTS = [  # of a [8, 12], on two axes
    Layout((8, 12), (None, None)),
    Layout((8, 12), (0, None)),
    Layout((8, 12), (None, 0)),
    Layout((8, 12), (0, 1)),
    Layout((8, 12), (1, 0)),
    Layout((8, 12), (0, 0)),
    Layout((8, 12), (1, 1)),
    Layout((8, 12), (1, 3), ((2, 4), (3, 4))),
    Layout((8, 12), (0, 3), ((2, 4), (3, 4))),
    Layout((8, 12), (3, 3), ((2, 4), (3, 4))),
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
