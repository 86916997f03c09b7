import math

import sharding
import torch
import torch.distributed as dist

from cases import MESHES, case, close, draw, leaf, positions_of, reduced, same
from prelude.layout import Layout
from prelude.mesh import axes
from sharding import scaled_dot_product_attention


def mixed(x):
    """The finalizer of SplitMix64, on Python's integers."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def drawn(stream, step, element):
    key = 0xCBF29CE484222325
    for byte in stream.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    key = mixed((key + step) % 2**64)
    return (mixed((key + element * 0x9E3779B97F4A7C15) % 2**64) >> 11) * 2.0**-53


@case
def test_random_numbers_are_those_of_the_reference_backend():
    for _ in range(3):
        sharding.begin_step()
        step = int(sharding.RANDOM["step"])
        for stream in ("dropout_1", "h.0.attn"):
            elements = torch.tensor([0, 1, 2, 12345678901, 2**40])
            expected = [drawn(stream, step, element) for element in elements.tolist()]
            assert sharding.uniform(stream, elements).tolist() == expected
    many = sharding.uniform("s", torch.arange(100000))
    assert 0 <= many.min() and many.max() < 1 and abs(many.mean() - 0.5) < 0.01


@case
def test_a_seed_repeats_what_is_drawn_on_every_rank():
    steps = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed if dist.get_rank() == 0 else 99 + dist.get_rank() + len(steps))
        for _ in range(2):
            sharding.begin_step()
            steps.append(int(sharding.RANDOM["step"]))
    assert steps[0:2] == steps[2:4] and len(set(steps)) == 4, steps
    everywhere = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, steps)
    assert all(one == steps for one in everywhere)


@case
def test_pytorch_s_own_numbers_are_the_same_on_every_rank():
    torch.manual_seed(dist.get_rank())
    sharding.begin_step()
    before = torch.get_rng_state()
    first, second = (sharding.drawn_alike(lambda: torch.rand(5), stream) for stream in ("a", "b"))
    assert torch.equal(torch.get_rng_state(), before)
    sharding.begin_step()
    drawn = [first.tolist(), second.tolist(), sharding.drawn_alike(lambda: torch.rand(5), "a").tolist()]
    assert len({tuple(numbers) for numbers in drawn}) == 3, drawn
    everywhere = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, drawn)
    assert all(one == drawn for one in everywhere)


@case
def test_a_block_that_is_recomputed_drops_what_it_dropped_with_two_forwards_in_flight():
    def block(x):
        return sharding.dropout(x, 0.5, True, "a") * x

    gradients = []
    for recompute in (False, True):
        torch.manual_seed(0)
        inputs = [torch.ones(64, requires_grad=True) for _ in range(2)]
        results = []
        for x in inputs:
            sharding.begin_step()
            results.append(sharding.recomputed(block, x) if recompute else block(x))
        for result in results:
            result.sum().backward()
        gradients.append([x.grad for x in inputs])
    for whole, again in zip(*gradients):
        assert torch.equal(whole, again)
    assert not torch.equal(*gradients[0])


@case
def test_a_block_that_is_recomputed_can_be_compiled():
    def block(x):
        return torch.tanh(sharding.dropout(x, 0.5, True, "a") * x)

    def computed(x):
        return sharding.recomputed(block, x * 2).sum()

    sharding.begin_step()
    x = torch.linspace(-1, 1, 64)
    expected, found = x.clone().requires_grad_(), x.clone().requires_grad_()
    computed(expected).backward()
    torch.compile(computed, backend="aot_eager")(found).backward()
    close(found.grad, expected.grad)


@case(on=MESHES)
def test_dropout_drops_the_same_elements_in_every_layout():
    sharding.begin_step()
    x, g = draw(8, 12).requires_grad_(), draw(8, 12)
    y = sharding.dropout(x, 0.3, True, "a")
    y.backward(g)
    dropped = (y == 0).double().mean().item()
    assert 0.1 < dropped < 0.5, dropped
    close(y[y != 0].detach(), (x[y != 0] / 0.7).detach())
    for place in {(2, 2): [(0, 1), (1, 0), (0, 0), (None, 1)], (4,): [(0,), (1,)]}[axes()]:
        layout = Layout((8, 12), place)
        here = leaf(layout, x)
        made, keeps = sharding.native_dropout(here, 0.3, True, "a", positions_of(layout, 0, 2))
        made.backward(layout.cut(g))
        close(made.detach(), layout.cut(y.detach()))
        close(keeps, layout.cut(y != 0))
        close(here.grad, layout.cut(x.grad))
    sharding.begin_step()
    assert not torch.equal(sharding.dropout(x, 0.3, True, "a"), y), "another step drops others"
    assert sharding.dropout(x, 0.3, training=False, stream="a") is x and sharding.dropout(x, 0.0, True, "a") is x
    assert not sharding.dropout(x, 1.0, True, "a").any()


@case(on=MESHES)
def test_random_tensors_are_the_same_in_every_layout():
    sharding.begin_step()
    double, p = torch.float64, torch.rand(8, 12, dtype=torch.float64)
    for place in {(2, 2): [(0, 1), (1, 0), (0, 0), (None, 1)], (4,): [(0,), (1,)]}[axes()]:
        layout = Layout((8, 12), place)
        size, elements = layout.local_shape(), positions_of(layout, 0, 2)
        whole = sharding.rand((8, 12), "r", None, double, -1, 3)
        close(sharding.rand(size, "r", elements, double, -1, 3), layout.cut(whole))
        close(sharding.randn(size, "r", elements, double), layout.cut(sharding.randn((8, 12), "r", None, double)))
        close(sharding.randint(2, 9, size, "r", elements), layout.cut(sharding.randint(2, 9, (8, 12), "r")))
        whole = sharding.exponential((8, 12), "r", None, double)
        close(sharding.exponential(size, "r", elements, double), layout.cut(whole))
        close(sharding.bernoulli(layout.cut(p), "r", elements), layout.cut(sharding.bernoulli(p, "r")))
    whole = sharding.rand((8, 12), "r", None, double, -1, 3)
    expected = [-1 + 4 * drawn("r", int(sharding.RANDOM["step"]), element) for element in range(96)]
    close(whole.view(-1), torch.tensor(expected, dtype=double), "as drawn")
    many = sharding.randn((40000,), "n", None, double)
    assert abs(many.mean()) < 0.03 and abs(many.std() - 1) < 0.03
    assert abs(sharding.exponential((40000,), "n", None, double, 2.0).mean() - 0.5) < 0.02
    counts = sharding.randint(2, 9, (7000,), "n").bincount()
    assert len(counts) == 9 and not counts[:2].any() and counts[2:].min() > 800
    assert abs(sharding.bernoulli(torch.full((40000,), 0.3), "n").mean() - 0.3) < 0.02


@case(on=MESHES)
def test_attention_with_dropout():
    q, k, v = (draw(2, 4, 8, 4).requires_grad_() for _ in range(3))
    causal = torch.ones(8, 8, dtype=torch.bool).tril()
    for is_causal in (False, True):
        scores = q @ k.transpose(-2, -1) / 2
        scores = scores.masked_fill(~causal, -math.inf) if is_causal else scores
        keeps = sharding.uniform("s", torch.arange(scores.numel())).view(scores.shape) >= 0.25
        y = (scores.softmax(-1) * keeps / 0.75) @ v
        g = draw(*y.shape)
        gradients = torch.autograd.grad(y, (q, k, v), g)
        for place in {(2, 2): [(2, 0), (0, 1), (1, 2)], (4,): [(2,)]}[axes()]:
            layout = Layout(tuple(q.shape), place)
            of_keys = Layout(tuple(k.shape), tuple(None if at == 2 else at for at in place))
            hq, hk, hv = leaf(layout, q), leaf(of_keys, k), leaf(of_keys, v)
            made = scaled_dot_product_attention(hq, hk, hv, None, 0.25, is_causal, queries=positions_of(layout, 2, 3),
                                                rows=positions_of(layout, 0, 3), stream="s")
            made.backward(layout.cut(g))
            same(made, layout, y, "result")
            same(hq.grad, layout, gradients[0], "queries")
            over = [axis for axis, at in enumerate(place) if at == 2]
            same(reduced(hk.grad, of_keys, over), of_keys, gradients[1], "keys")
            same(reduced(hv.grad, of_keys, over), of_keys, gradients[2], "values")


@case
def test_attention_with_dropout_and_a_mask_keeps_its_operands_and_its_result():
    sharding.begin_step()
    q, k, v = draw(2, 4, 6, 4).requires_grad_(), draw(2, 2, 5, 4).requires_grad_(), draw(2, 2, 5, 3).requires_grad_()
    closed = torch.zeros(6, 5, dtype=torch.bool)
    closed[2] = True  # a query that may see nothing
    for mask in (~closed, draw(2, 1, 6, 5).masked_fill(closed, -math.inf).requires_grad_()):
        scores = q @ k.repeat_interleave(2, 1).transpose(-2, -1) / 2
        scores = scores.masked_fill(closed, -math.inf) + (0 if mask.dtype == torch.bool else mask.masked_fill(closed, 0))
        keeps = sharding.uniform("s", torch.arange(scores.numel())).view(scores.shape) >= 0.25
        y = (scores.softmax(-1).masked_fill(closed, 0) * keeps / 0.75) @ v.repeat_interleave(2, 1)
        of = [x for x in (q, k, v, mask) if x.requires_grad]
        g, saved = draw(*y.shape), []
        expected = torch.autograd.grad(y, of, g)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
            made = scaled_dot_product_attention(q, k, v, mask, 0.25, enable_gqa=True, stream="s")
        close(made.detach(), y.detach())
        assert [tuple(x.shape) for x in saved] == [tuple(x.shape) for x in (q, k, v, mask, y)]
        sharding.begin_step()  # another forward, before the backward of this one
        for gradient, wanted in zip(torch.autograd.grad(made, of, g), expected):
            close(gradient.nan_to_num(), wanted.nan_to_num())
