import torch
from torch import nn

from cases import case, close, draw, same
from prelude.layout import Layout
from prelude.mesh import axes
from prelude.moves import all_gather, all_reduce, convert, reduce_scatter
from prelude.parameters import buffer, parameter, used
from prelude.state import Planned


class Plain(nn.Module):
    """Rows of a table through two products; what comes out is compared with the table, which is tied."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(draw(10, 8))
        self.first = nn.Linear(8, 12, dtype=torch.float64)
        self.second = nn.Linear(12, 8, dtype=torch.float64)
        self.head = nn.Linear(8, 10, bias=False, dtype=torch.float64)
        self.head.weight = self.table
        self.register_buffer("scale", draw(8).abs())

    def forward(self, x, y):
        h = self.second(torch.tanh(self.first(torch.nn.functional.embedding(x, self.table) * self.scale)))
        return torch.nn.functional.cross_entropy(self.head(h), y)


class Product(nn.Module):
    def __init__(self, weight, bias, moves, bias_moves):
        super().__init__()
        self.weight = parameter(weight, torch.float64, **moves)
        self.bias = parameter(bias, torch.float64, **bias_moves)


class Sharded(Planned):
    """The batch on axis 0, the products' inner dimension on axis 1, the table in ZeRO-3 over axis 0, its rows padded."""
    INPUTS = {"x": Layout((16,), (0, None)), "y": Layout((16,), (0, None))}
    OUTPUTS = {"loss": Layout((), (None, None))}
    TIED = {"head.weight": "table"}

    def __init__(self):
        super().__init__()
        table = Layout((10, 8), (0, None), None, (0,))
        self.table = parameter(table, torch.float64, loaded=[all_gather(0, 0, size=10)], reduced=[reduce_scatter(0, 0, size=6)])
        first = Layout((12, 8), (None, 0)), Layout((12,), (None, 0))
        self.first = Product(*first, dict(reduced=[all_reduce(0)]), dict(reduced=[all_reduce(0)]))
        self.second = Product(Layout((8, 12), (0, 1)), Layout((8,), (None, None)),
                              dict(stored=[all_gather(0, 0)], reduced=[reduce_scatter(0, 0)]), dict(reduced=[all_reduce(0)]))
        self.register_buffer("scale", buffer(Layout((8,), (None, None)), torch.float64))

    def forward(self, x, y):
        h = torch.nn.functional.embedding(x, used(self.table)) * self.scale
        h = convert(h, [], [all_reduce(1)])
        h = torch.tanh(torch.nn.functional.linear(h, used(self.first.weight), used(self.first.bias)))
        h = convert(torch.nn.functional.linear(h, used(self.second.weight)), [all_reduce(1)], []) + used(self.second.bias)
        loss = torch.nn.functional.cross_entropy(h @ used(self.table).t(), y) / axes()[0]
        return convert(loss, [all_reduce(0)], [])


def models():
    plain, sharded = Plain(), Sharded()
    sharded.load_whole(plain.state_dict())
    return plain, sharded


def batch():
    return torch.randint(10, (16,)), torch.randint(10, (16,))


def compare(plain, sharded, what):
    whole = sharded.whole_state_dict()
    expected = plain.state_dict()
    assert set(whole) == set(expected), (sorted(whole), sorted(expected))
    for name, tensor in expected.items():
        close(whole[name], tensor, f"{what}: {name}")


@case
def test_a_model_trains_and_is_whole_again():
    plain, sharded = models()
    compare(plain, sharded, "loaded")
    ours, theirs = (torch.optim.AdamW(model.parameters(), 0.01) for model in (sharded, plain))
    for _ in range(4):
        inputs = batch()
        expected = plain(*inputs)
        expected.backward()
        here = sharded.local_batch(inputs)
        named = sharded.local_batch(dict(zip("xy", inputs)))
        assert all(torch.equal(a, b) for a, b in zip(here, named.values())) and list(named) == ["x", "y"]
        loss = sharded(*here)
        loss.backward()
        close(loss.detach(), expected.detach(), "loss")
        close(sharded.gather_output("loss", loss.detach()), expected.detach(), "loss, gathered")
        for most in (1e9, 0.1):
            close(sharded.clip_grad_norm_(most), nn.utils.clip_grad_norm_(plain.parameters(), most), "norm")
        close(sharded.table.grad, sharded.table.sharding.cut(plain.table.grad), "table")
        ours.step(), theirs.step()
        ours.zero_grad(), theirs.zero_grad()
        compare(plain, sharded, "trained")


@case
def test_tied_names_and_what_does_not_fit():
    plain, sharded = models()
    given = plain.state_dict()
    del given["table"]
    sharded.load_whole(given)
    compare(plain, sharded, "by the other name")
    del given["head.weight"]
    given["first.bias"] = given["first.bias"][:3]
    given["surplus"] = draw(1)
    try:
        sharded.load_whole(given)
        raise AssertionError("loaded what does not fit")
    except ValueError as error:
        for words in ("missing table", "first.bias is (3,), not (12,)", "not known surplus"):
            assert words in str(error), error
    del given["first.bias"]
    sharded.load_whole(given, strict=False)
    compare(plain, sharded, "what was there")


@case
def test_a_meta_model_is_made_by_loading():
    plain = Plain()
    with torch.device("meta"):
        sharded = Sharded()
    assert all(tensor.is_meta for tensor in sharded.shards().values())
    sharded.load_whole(plain.state_dict())
    assert not any(tensor.is_meta for tensor in sharded.shards().values())
    compare(plain, sharded, "made")
    inputs = batch()
    loss = sharded(*sharded.local_batch(inputs))
    loss.backward()
    expected = plain(*inputs)
    expected.backward()
    close(loss.detach(), expected.detach())
    same(sharded.second.weight.grad, sharded.second.weight.sharding, plain.second.weight.grad)
