import contextlib
import copy
import tempfile

import torch
import torch.distributed as dist
from torch import nn

from cases import case, close, draw, same
from prelude import mesh
from prelude.layout import Layout
from prelude.mesh import axes
from prelude.moves import all_gather, all_reduce, convert, reduce_scatter
from prelude.parameters import buffer, parameter, used
from prelude.random import generator_state
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
    """The batch on axis 0, the products' inner dimension on axis 1; the table's rows, padded, in ZeRO-3 over axis 0."""
    INPUTS = {"x": Layout((16,), (0, None)), "y": Layout((16,), (0, None))}
    OUTPUTS = {"loss": Layout((), (None, None))}
    TIED = {"head.weight": "table"}

    def __init__(self):
        super().__init__()
        table = Layout((10, 8), (0, None), None, (0,))
        self.table = parameter(table, torch.float64, loaded=[all_gather(0, 0, size=10)],
                               reduced=[reduce_scatter(0, 0, size=6)])
        first = Layout((12, 8), (None, 0)), Layout((12,), (None, 0))
        self.first = Product(*first, dict(reduced=[all_reduce(0)]), dict(reduced=[all_reduce(0)]))
        self.second = Product(Layout((8, 12), (0, 1)), Layout((8,), (None, None)),
                              dict(stored=[all_gather(0, 0)], reduced=[reduce_scatter(0, 0)]),
                              dict(reduced=[all_reduce(0)]))
        self.register_buffer("scale", buffer(Layout((8,), (None, None)), torch.float64))

    def forward(self, x, y):
        h = torch.nn.functional.embedding(x, used(self.table)) * self.scale
        h = convert(h, [], [all_reduce(1)])
        h = torch.tanh(torch.nn.functional.linear(h, used(self.first.weight), used(self.first.bias)))
        h = convert(torch.nn.functional.linear(h, used(self.second.weight)), [all_reduce(1)], [])
        h = h + used(self.second.bias)
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
    assert all(tensor.is_meta for tensor in sharded.named_shards().values())
    sharded.load_whole(plain.state_dict())
    assert not any(tensor.is_meta for tensor in sharded.named_shards().values())
    compare(plain, sharded, "made")
    inputs = batch()
    loss = sharded(*sharded.local_batch(inputs))
    loss.backward()
    expected = plain(*inputs)
    expected.backward()
    close(loss.detach(), expected.detach())
    same(sharded.second.weight.grad, sharded.second.weight.sharding, plain.second.weight.grad)


class InRows(Planned):
    """The parameters of Plain over all ranks of one axis, and computed with whole."""
    INPUTS = {"x": Layout((16,), (0,)), "y": Layout((16,), (0,))}
    TIED = {"table": "head.weight"}

    def __init__(self):
        super().__init__()

        def rows(*shape):
            padded = (0,) if shape[0] % 4 else ()
            size, share = (shape[0], -(-shape[0] // 4)) if padded else (None, None)
            return parameter(Layout(shape, (0,), None, padded), torch.float64, loaded=[all_gather(0, 0, size=size)],
                             reduced=[reduce_scatter(0, 0, size=share)])

        self.head, self.first, self.second = nn.Module(), nn.Module(), nn.Module()
        self.head.weight = rows(10, 8)
        self.first.weight, self.first.bias = rows(12, 8), rows(12)
        self.second.weight, self.second.bias = rows(8, 12), rows(8)
        self.register_buffer("scale", buffer(Layout((8,), (0,)), torch.float64))

    def forward(self, x, y):
        table = used(self.head.weight)
        scale = all_gather(0, 0)(self.scale)
        h = nn.functional.embedding(x, table) * scale
        h = torch.tanh(nn.functional.linear(h, used(self.first.weight), used(self.first.bias)))
        h = nn.functional.linear(h, used(self.second.weight), used(self.second.bias))
        return convert(nn.functional.cross_entropy(h @ table.t(), y) / 4, [all_reduce(0)], [])


def train(model, optimizer, batches):
    for inputs in batches:
        optimizer.zero_grad()
        model(*(model.local_batch(inputs) if isinstance(model, Planned) else inputs)).backward()
        optimizer.step()


@contextlib.contextmanager
def shared_folder():
    """A folder of rank 0's, for all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        names = [folder]
        dist.broadcast_object_list(names)
        yield names[0]
        dist.barrier()


@contextlib.contextmanager
def in_one_row():
    """On a mesh of one axis, instead of 2x2."""
    mesh.AXES = (4,)
    mesh.start()
    try:
        yield
    finally:
        mesh.AXES = (2, 2)


@case
def test_a_checkpoint_goes_on_in_the_same_layout_and_in_another():
    plain, sharded = models()
    theirs, ours = (torch.optim.AdamW(model.parameters(), 0.01) for model in (plain, sharded))
    batches = [batch() for _ in range(4)]
    train(plain, theirs, batches[:2]), train(sharded, ours, batches[:2])
    ours.param_groups[0]["lr"] = theirs.param_groups[0]["lr"] = 0.02
    torch.manual_seed(41 + dist.get_rank())
    drawn = generator_state()
    with shared_folder() as path:
        sharded.save_checkpoint(path, ours)
        train(plain, theirs, batches[2:])
        torch.manual_seed(0)
        with torch.device("meta"):
            again = Sharded()
        for model in (again, sharded):
            model.load_checkpoint(path)
            optimizer = torch.optim.AdamW(model.parameters(), 0.5)
            model.load_checkpoint(path, optimizer)
            assert torch.equal(torch.get_rng_state(), drawn) and optimizer.param_groups[0]["lr"] == 0.02
            train(model, optimizer, batches[2:])
            compare(plain, model, "went on")
        with in_one_row():
            other = InRows()
            optimizer = torch.optim.AdamW(other.parameters(), 0.5)
            other.load_checkpoint(path, optimizer)
            train(other, optimizer, batches[2:])
            compare(plain, other, "went on in another layout")


@case
def test_a_checkpoint_becomes_a_plain_file():
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    plain, sharded = models()
    theirs, ours = (torch.optim.AdamW(model.parameters(), 0.01) for model in (plain, sharded))
    batches = [batch() for _ in range(2)]
    train(plain, theirs, batches), train(sharded, ours, batches)
    with shared_folder() as path:
        sharded.save_checkpoint(path + "/saved", ours)
        if dist.get_rank() == 0:
            dcp_to_torch_save(path + "/saved", path + "/plain.pt")
        dist.barrier()
        file = torch.load(path + "/plain.pt", weights_only=False)
    made = Plain()
    made.load_state_dict(file["model"])
    for name, tensor in plain.state_dict().items():
        close(made.state_dict()[name], tensor, name)
    for name, p in plain.named_parameters():
        for key, value in theirs.state[p].items():
            close(file["optimizer"]["state"][name][key], value, f"{name} {key}")
    groups = file["optimizer"]["param_groups"]
    assert groups[0]["lr"] == 0.01 and groups[0]["params"] == [name for name, _ in sharded.named_parameters()], groups


@case
def test_state_dicts_go_through_pytorch_itself():
    """Saved, and loaded into another layout and one device: with torch.distributed.checkpoint's own functions alone."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    plain, sharded = models()
    theirs, ours = (torch.optim.AdamW(model.parameters(), 0.01) for model in (plain, sharded))
    batches = [batch() for _ in range(4)]
    train(plain, theirs, batches[:2]), train(sharded, ours, batches[:2])
    wrapped = nn.Sequential(sharded)
    with shared_folder() as path:
        by_name = get_optimizer_state_dict(sharded, ours)
        checkpoint.save({"model": wrapped.state_dict(), "optimizer": ours.state_dict(), "by_name": by_name}, checkpoint_id=path)
        alone = Plain()
        state = {"model": {f"0.{name}": torch.zeros_like(tensor) for name, tensor in alone.state_dict().items()}}
        checkpoint.load(state, checkpoint_id=path)
        alone.load_state_dict({name[2:]: tensor for name, tensor in state["model"].items()})
        for name, tensor in plain.state_dict().items():
            close(alone.state_dict()[name], tensor, name)
        train(plain, theirs, batches[2:])

        with torch.device("meta"):
            again = nn.Sequential(Sharded())
        state = {"model": again.state_dict()}
        checkpoint.load(state, checkpoint_id=path)
        again.load_state_dict(state["model"])
        for by_name in (False, True):
            optimizer = torch.optim.AdamW(again.parameters(), 0.01)
            train(again[0], optimizer, batches[:1])  # so that it has a state to load into
            state = {"model": again.state_dict(), "optimizer": optimizer.state_dict(), "by_name": get_optimizer_state_dict(again[0], optimizer)}
            checkpoint.load(state, checkpoint_id=path)
            again.load_state_dict(state["model"])
            if by_name:
                set_optimizer_state_dict(again[0], optimizer, state["by_name"])
            else:
                optimizer.load_state_dict(state["optimizer"])
            train(again[0], optimizer, batches[2:])
            compare(plain, again[0], "went on")

        wanted = sharded.whole_state_dict()
        with in_one_row():
            other = nn.Sequential(InRows())
            state = {"model": other.state_dict()}
            checkpoint.load(state, checkpoint_id=path)
            other.load_state_dict(state["model"])
            for name, tensor in other[0].whole_state_dict().items():
                close(tensor, wanted[name], f"in another layout: {name}")


@case
def test_a_copy_is_refused():
    try:
        copy.deepcopy(Sharded())
        raise AssertionError("copied")
    except TypeError as error:
        assert "make another model" in str(error), error


@case
def test_whole_state_dicts_are_loaded_by_pytorch_itself():
    plain, sharded = Plain(), Sharded()
    theirs, ours = (torch.optim.SGD(model.parameters(), 0.01, momentum=0.9) for model in (plain, sharded))
    batches = [batch() for _ in range(3)]
    train(plain, theirs, batches[:2]), train(sharded, ours, batches[:1])
    sharded.load_state_dict(plain.state_dict())
    compare(plain, sharded, "loaded")
    names = [name for name, _ in plain.named_parameters()]
    order = [names.index(name) for name, _ in sharded.named_parameters()]
    whole = theirs.state_dict()
    ours.load_state_dict({**whole, "state": {i: whole["state"][at] for i, at in enumerate(order)}})
    train(plain, theirs, batches[2:]), train(sharded, ours, batches[2:])
    compare(plain, sharded, "went on")
    given = plain.state_dict()
    given["first.bias"] = given["first.bias"][:3]
    try:
        sharded.load_state_dict(given)
        raise AssertionError("loaded what does not fit")
    except RuntimeError as error:
        assert "size mismatch for first.bias" in str(error), error


@case
def test_checkpoints_of_state_without_tensors():
    for momentum in (0.0, 0.9):
        plain, sharded = models()
        theirs, ours = (torch.optim.SGD(model.parameters(), 0.01, momentum=momentum) for model in (plain, sharded))
        batches = [batch() for _ in range(3)]
        train(plain, theirs, batches), train(sharded, ours, batches[:2])
        with shared_folder() as path:
            sharded.save_checkpoint(path, ours)
            again = Sharded()
            optimizer = torch.optim.SGD(again.parameters(), 0.5, momentum=0.1)
            again.load_checkpoint(path, optimizer)
        train(again, optimizer, batches[2:])
        compare(plain, again, f"momentum {momentum}")


@case
def test_state_of_another_shape_is_refused():
    _, sharded = models()
    optimizer = torch.optim.Adafactor(sharded.parameters(), 0.01)
    train(sharded, optimizer, [batch()])
    try:
        sharded.checkpoint_state_dict(optimizer)
    except ValueError as error:
        assert "row_var" in str(error) or "col_var" in str(error), error
    else:
        raise AssertionError("state of another shape is refused")


@case
def test_inputs_that_the_plan_was_not_made_for():
    _, sharded = models()
    refused = {"x": "is (15,), but the plan was made for (16,)", "z": "has no input z"}
    for name, words in refused.items():
        try:
            sharded.local_batch({name: draw(15)})
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError("an input that the plan was not made for is refused")


@case
def test_a_compiled_model_trains():
    plain, sharded = models()
    theirs, ours = (torch.optim.AdamW(model.parameters(), 0.01) for model in (plain, sharded))
    compiled = torch.compile(sharded, backend="aot_eager")
    for inputs in [batch() for _ in range(2)]:
        train(plain, theirs, [inputs])
        ours.zero_grad()
        compiled(*sharded.local_batch(inputs)).backward()
        ours.step()
    compare(plain, sharded, "compiled")
