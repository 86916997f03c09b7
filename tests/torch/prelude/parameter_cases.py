import time
import weakref

import torch

from cases import case, close, draw, same
from prelude import reductions
from prelude.layout import Layout
from prelude.loads import begin_forward, regathering, travel_together
from prelude.modules import parts
from prelude.moves import Collective, all_gather, all_reduce, at_once, reduce_scatter
from prelude.parameters import buffer, parameter, used
from prelude.recomputed import recomputed

WHOLE = Layout((8, 6), (None, None), mesh=(2, 2))
ROWS = Layout((8, 6), (0, None), mesh=(2, 2))
BOTH = Layout((8, 6), (0, 1), mesh=(2, 2))

ONCE = dict(loaded=[all_gather(0, 0)], reduced=[reduce_scatter(0, 0)])  # gathered for each use

# How a parameter is kept: its layout, what `parameter` gets, and the layout that it is computed with.
KINDS = {
    "replicated": (WHOLE, dict(reduced=[all_reduce(0), all_reduce(1)]), WHOLE),
    "tensor parallel": (ROWS, dict(reduced=[all_reduce(1)]), ROWS),
    "ZeRO-1": (ROWS, dict(stored=[all_gather(0, 0)], reduced=[reduce_scatter(0, 0), all_reduce(1)]), WHOLE),
    "ZeRO-3": (BOTH, dict(loaded=[all_gather(1, 1)], reduced=[reduce_scatter(1, 1)]), ROWS),
    "stored and loaded": (BOTH, dict(stored=[all_gather(1, 1)], loaded=[all_gather(0, 0)],
                                     reduced=[reduce_scatter(0, 0), reduce_scatter(1, 1)]), WHOLE),
}


def step(kinds, batches, optimizer_of, uses=2):
    """Trains one parameter of each kind on rows of x that axis 0 and 1 cut as the kind says, and as one process."""
    whole = {name: draw(8, 6) for name in kinds}
    shards, plain = {}, {}
    for name in kinds:
        layout, arguments, _ = KINDS[name]
        shards[name] = parameter(layout, torch.float64, **arguments)
        with torch.no_grad():
            shards[name].copy_(layout.cut(whole[name]))
        plain[name] = torch.nn.Parameter(whole[name].clone())
    ours, theirs = optimizer_of(list(shards.values())), optimizer_of(list(plain.values()))
    for _ in range(3):
        for _ in range(batches):
            x = draw(16, 6)
            loss = sum(((x @ p.t()).tanh() * (i + 1)).sum() for p in plain.values() for i in range(uses))
            loss.backward()
            mine = 0
            for name, p in shards.items():
                layout, _, computed = KINDS[name]
                # Axes over which the gradient is summed cut the batch.
                batch = Layout((16, 6), tuple(0 if place is None else None for place in computed.axes))
                here = batch.cut(x)
                mine = mine + sum(((here @ used(p).t()).tanh() * (i + 1)).sum() for i in range(uses))
            mine.backward()
            for name, p in shards.items():
                assert p.grad.shape == p.shape
                same(p.grad, KINDS[name][0], plain[name].grad, f"gradient, {name}")
        ours.step(), theirs.step()
        for name, p in shards.items():
            same(p, KINDS[name][0], plain[name], name)
            close(used(p).detach(), KINDS[name][2].cut(plain[name].detach()), f"used, {name}")
        ours.zero_grad(), theirs.zero_grad()


@case
def test_parameters_train():
    step(KINDS, 1, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))


@case
def test_gradients_accumulate():
    step(KINDS, 3, lambda p: torch.optim.AdamW(p, 0.01))


@case
def test_stored_values_follow_every_kind_of_step():
    for options in (dict(fused=True), dict(foreach=True), dict(foreach=False)):
        step(["ZeRO-1", "stored and loaded"], 1, lambda p: torch.optim.AdamW(p, 0.01, **options))


@case
def test_without_gradients():
    p = parameter(BOTH, torch.float64, **KINDS["ZeRO-3"][1])
    whole = draw(8, 6)
    with torch.no_grad():
        p.copy_(BOTH.cut(whole))
        close(used(p), ROWS.cut(whole))
    plain = draw(3)
    assert used(plain) is plain
    assert buffer(ROWS, torch.int64).shape == (4, 6) and buffer(ROWS).sharding is ROWS
    assert not parameter(ROWS, torch.int64).requires_grad


@case
def test_packs_and_pieces_give_the_same():
    kept = reductions.BUCKET_BYTES, reductions.CHUNK_BYTES
    try:
        for pack, chunk in ((0, 1 << 30), (1 << 30, 1 << 30), (500, 1 << 30), (0, 100), (0, 48)):
            reductions.BUCKET_BYTES, reductions.CHUNK_BYTES = pack, chunk
            step([*KINDS], 2, lambda p: torch.optim.SGD(p, 0.1))
    finally:
        reductions.BUCKET_BYTES, reductions.CHUNK_BYTES = kept


@case
def test_steps_in_the_backward_are_the_optimizers():
    """Whole and piece by piece, with what the optimizer keeps; the gradient's pieces arrive one after the other."""
    kept = reductions.BUCKET_BYTES, reductions.CHUNK_BYTES, reductions.step_alone
    parts = []

    def counted(shard, of=None):
        parts.extend([] if of is None else [shard.shape])
        kept[2](shard, of)

    deep, whole_layout = Layout((4, 8, 6), (1, 2)), Layout((4, 8, 6), (None, None))
    gathered = dict(stored=[all_gather(1, 2)], loaded=[all_gather(0, 1)], reduced=[reduce_scatter(0, 1), reduce_scatter(1, 2)])
    for optimizer_of in (lambda p: torch.optim.AdamW(p, 0.01), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
                         lambda p: torch.optim.SGD(p, 0.1)):
        for chunk, layout, moves, ranks in ((1 << 30, deep, gathered, 4), (400, deep, gathered, 4),
                                            (400, whole_layout, dict(reduced=[all_reduce(0)]), 2)):
            reductions.BUCKET_BYTES, reductions.CHUNK_BYTES, reductions.step_alone = 0, chunk, counted
            parts.clear()
            try:
                whole = draw(4, 8, 6)
                plain, shard = torch.nn.Parameter(whole.clone()), parameter(layout, torch.float64, **moves)
                with torch.no_grad():
                    shard.copy_(layout.cut(whole))
                ours, theirs = optimizer_of([shard]), optimizer_of([plain])
                reductions.step_in_backward(ours)
                for _ in range(4):
                    x = draw(4, 8, 6)
                    # Every rank adds the same, so that sums are as many times as large as there are ranks.
                    (used(shard) * x).tanh().sum().div(ranks).backward()
                    (plain * x).tanh().sum().backward()
                    theirs.step(), theirs.zero_grad()
                    assert shard.grad is None
                    same(shard, layout, plain, f"in pieces of {chunk} bytes")
                    for key, value in theirs.state[plain].items():
                        if torch.is_tensor(value) and value.dim():
                            same(ours.state[shard][key], layout, value, key)
                        elif torch.is_tensor(value):
                            close(ours.state[shard][key], value, key)
                assert len(parts) == (0 if chunk == 1 << 30 else 3 * 4), parts  # all steps but the first
                assert len(ours.state) <= 1 and ours.param_groups[0]["params"][0] is shard
            finally:
                reductions.BUCKET_BYTES, reductions.CHUNK_BYTES, reductions.step_alone = kept


class Counting:
    """Counts the collectives that begin, by kind."""

    def __enter__(self):
        counts, send = {}, Collective.send

        def counted(move, row, own=False):
            counts[move.kind] = counts.get(move.kind, 0) + 1
            return send(move, row, own)
        self.send, Collective.send = send, counted
        return counts

    def __exit__(self, *_):
        Collective.send = self.send


@case
def test_small_gradients_go_together():
    for moves, total in (([all_reduce(1)], 2.0), ([all_reduce(0), all_reduce(1)], 4.0), ([at_once(all_reduce(0), all_reduce(1))], 4.0)):
        shards = [parameter(ROWS, torch.float64, reduced=moves) for _ in range(5)]
        with Counting() as counts:
            sum(used(p).sum() for p in shards).backward()
        assert counts == {"all_reduce": len(moves)}, counts
        for p in shards:
            close(p.grad, torch.full((4, 6), total, dtype=torch.float64))


@case
def test_a_stored_value_is_gathered_once_a_step():
    p = parameter(ROWS, torch.float64, stored=[all_gather(0, 0)], reduced=[reduce_scatter(0, 0)])
    optimizer = torch.optim.SGD([p], 0.1)
    with Counting() as counts:
        for _ in range(3):
            used(p).sum().backward()
            (used(p) * used(p)).sum().backward()
        assert counts["all_gather"] == 1 and counts["reduce_scatter"] == 6, counts
        optimizer.step()
        used(p), used(p)
        assert counts["all_gather"] == 2, counts


@case
def test_what_is_gathered_in_inference_mode_serves_training():
    whole = draw(8, 6)
    for name in ("ZeRO-1", "ZeRO-3", "stored and loaded"):
        layout, arguments, computed = KINDS[name]
        first, second = (parameter(layout, torch.float64, **arguments, prefetch=True) for _ in range(2))
        with torch.no_grad():
            first.copy_(layout.cut(whole)), second.copy_(layout.cut(whole))
        passes = passes_of([first, second])
        for mode in (torch.inference_mode, torch.enable_grad, torch.inference_mode):
            begin_forward(passes)
            with mode():
                y = (used(first) * used(first)).sum() + used(second).sum()
            if mode is torch.enable_grad:
                y.backward()
        begin_forward(passes)
        with torch.inference_mode():
            used(first)  # what follows is on its way
        y = (used(second) * used(second)).sum()
        y.backward()
        close(used(second).detach(), computed.cut(whole), name)


def passes_of(shards):
    """Of a model in which each of them is a block's."""
    return travel_together(parts(blocks=torch.nn.ModuleList([parts(weight=shard) for shard in shards])))


def chain(shards, x):
    for p in shards:
        x = torch.tanh(x @ used(p).t())
    return x


@case
def test_values_are_gathered_again_for_the_backward():
    for prefetch in (False, True):
        layout = Layout((6, 6), (0, None))
        whole = [draw(6, 6) for _ in range(3)]
        shards = [parameter(layout, torch.float64, **ONCE, regather=True, prefetch=prefetch) for _ in whole]
        with torch.no_grad():
            for p, w in zip(shards, whole):
                p.copy_(layout.cut(w))
        plain = [w.clone().requires_grad_() for w in whole]
        passes, ours, theirs = passes_of(shards), torch.optim.SGD(shards, 0.1), torch.optim.SGD(plain, 0.1)
        for step_number in range(3):
            x = draw(5, 6)
            expected = x
            for w in plain:
                expected = torch.tanh(expected @ w.t())
            expected.square().sum().backward()
            with Counting() as counts:
                begin_forward(passes)
                with regathering():
                    y = chain(shards, x)
                assert counts["all_gather"] == 3, counts
                # Of the first product, whose input needs no gradient, nothing is saved.
                close(y.detach(), expected.detach())
                y.square().sum().div(2).backward()
                assert counts["all_gather"] == 5, counts
            for p, w in zip(shards, plain):
                close(p.grad, layout.cut(w.grad), f"gradient in step {step_number}")
            ours.step(), theirs.step()
            ours.zero_grad(), theirs.zero_grad()


def remaining(references, wanted):
    """How many of these tensors are still there. gloo's thread lets go of one a moment after its collective has ended."""
    for _ in range(200):
        count = sum(reference() is not None for reference in references)
        if count <= wanted:
            break
        time.sleep(0.01)
    return count


@case
def test_no_gathered_value_outlives_the_forward():
    layout, gathered, end = Layout((46, 46), (0, None)), [], all_gather.end

    def watched(move, begun):
        value = end(move, begun)
        gathered.append(weakref.ref(value.untyped_storage()))
        return value

    try:
        all_gather.end = watched
        for regather in (False, True):
            gathered.clear()
            shards = [parameter(layout, torch.float64, **ONCE, regather=regather) for _ in range(3)]
            x = draw(2, 46).requires_grad_()
            begin_forward()
            with regathering():
                y = chain(shards, x)
            assert remaining(gathered, 0 if regather else 3) == (0 if regather else 3)
            y.sum().backward()
            assert len(gathered) == (6 if regather else 3) and remaining(gathered, 0) == 0
    finally:
        all_gather.end = end


@case
def test_what_a_block_that_runs_again_computes_with_is_gathered_again_only_where_the_plan_says_so():
    for regather in (False, True):
        gradients, gathered = [], []
        for block in (lambda run, x: run(x), recomputed):
            torch.manual_seed(1)
            shards = [parameter(Layout((46, 46), (0, None)), torch.float64, **ONCE, regather=regather) for _ in range(2)]
            for shard in shards:
                torch.nn.init.normal_(shard)
            x = draw(2, 46).requires_grad_()
            begin_forward()
            with regathering(), Counting() as counts:
                y = block(lambda x: chain(shards, chain(shards, x)), x)  # each twice
                forward = counts["all_gather"]
                y.sum().backward()
            gathered.append(counts["all_gather"] - forward)
            gradients.append([x.grad, *(shard.grad for shard in shards)])
        assert all(torch.equal(*both) for both in zip(*gradients))
        assert gathered == ([2, 4] if regather else [0, 0]), gathered


@case
def test_a_value_used_twice_is_loaded_once_when_that_is_known():
    layout = Layout((6, 6), (0, None))
    a, b = (parameter(layout, torch.float64, **ONCE, regather=True, prefetch=True) for _ in range(2))
    with torch.no_grad():
        a.fill_(0.1), b.fill_(0.2)
    x, passes = draw(4, 6).requires_grad_(), passes_of([a, b])
    for step_number, gathers in enumerate((5, 4, 4)):
        with Counting() as counts:
            begin_forward(passes)
            with regathering():
                y = chain([a, b, a], x)
            y.sum().backward()
        if step_number == 0:
            first = x.grad.clone()
        else:
            assert counts["all_gather"] == gathers, (step_number, counts)
        close(x.grad, first)
        x.grad = None


@case
def test_blocks_that_are_computed_again_for_the_backward():
    """With activation checkpoints: gathers as many as with values gathered again, reductions together."""
    from torch.utils.checkpoint import checkpoint

    layout = Layout((6, 6), (0, None))
    whole = [draw(6, 6) for _ in range(4)]
    shards = [parameter(layout, torch.float64, **ONCE, regather=True, prefetch=True) for _ in whole]
    with torch.no_grad():
        for p, w in zip(shards, whole):
            p.copy_(layout.cut(w))
    plain = [w.clone().requires_grad_() for w in whole]
    x = draw(5, 6)
    expected = x
    for w in plain:
        expected = torch.tanh(expected @ w.t())
    expected.square().sum().backward()
    passes = passes_of(shards)
    for _ in range(3):
        with Counting() as counts:
            begin_forward(passes)
            with regathering():
                y = x.clone().requires_grad_()
                for block in (shards[:2], shards[2:]):
                    y = checkpoint(chain, block, y, use_reentrant=False)
            y.square().sum().div(2).backward()
        assert counts == {"all_gather": 8, "reduce_scatter": 1}, counts
        assert not any(p.storing.uses or p.storing.value is not None for p in shards)
        for p, w in zip(shards, plain):
            close(p.grad, layout.cut(w.grad))
            p.grad = None


@case
def test_a_change_between_forward_and_backward_is_told():
    p = parameter(ROWS, torch.float64, **ONCE, regather=True)
    with regathering():
        y = draw(3, 6).requires_grad_() @ used(p).t()
    with torch.no_grad():
        p.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        assert "was changed between" in str(error)
    else:
        raise AssertionError("a value that is not the forward's any more is refused")


@case
def test_a_failed_backward_leaves_nothing_behind():
    p = parameter(ROWS, torch.float64, reduced=[all_reduce(1)])

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("on purpose")

    x = torch.ones(6, dtype=torch.float64, requires_grad=True)
    try:
        (Fails.apply(x) * used(p)).sum().backward()
    except ValueError:
        pass
    assert reductions.REDUCTIONS
    loss = used(p).sum()
    assert not reductions.REDUCTIONS
    loss.backward()
    close(p.grad, torch.full((4, 6), 2.0, dtype=torch.float64))


@case
def test_traces_show_reductions():
    p = parameter(ROWS, torch.float64, reduced=[all_reduce(1)])
    p.storing.name = "block.weight"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        used(p).sum().backward()
    names = {event.name for event in profile.events()}
    assert {"meshwright: reduce block.weight", "meshwright: reduced block.weight"} <= names, names


@case
def test_bfloat16_parameters():
    for name, (layout, arguments, computed) in KINDS.items():
        whole, x = draw(8, 6), draw(16, 6)
        p = parameter(layout, torch.bfloat16, **arguments)
        with torch.no_grad():
            p.copy_(layout.cut(whole))
        plain = whole.to(torch.bfloat16).double().requires_grad_()
        batch = Layout((16, 6), tuple(0 if place is None else None for place in computed.axes))
        x = x.to(torch.bfloat16)
        (x.double() @ plain.t()).tanh().sum().backward()
        y = (batch.cut(x) @ used(p).t()).tanh()
        y.sum().backward()
        assert y.dtype == p.grad.dtype == torch.bfloat16
        close(p.grad.double(), layout.cut(plain.grad), name, 0.03)
        torch.optim.AdamW([p], 0.1).step()
        assert not torch.equal(used(p), computed.cut(whole.to(torch.bfloat16)))


@case
def test_reductions_begin_before_the_backward_ends():
    """Of a chain of products, the last one's gradient is on its way before the first one's is computed."""
    moves = [all_reduce(0), all_reduce(1)]
    shards = [parameter(Layout((6, 6), (None, None)), torch.float64, reduced=moves) for _ in range(3)]
    events, kept, send = [], reductions.BUCKET_BYTES, Collective.send

    def begun(move, row, own=False):
        events.append("reduce")
        return send(move, row, own)

    reductions.BUCKET_BYTES, Collective.send = 0, begun
    try:
        x = draw(2, 6).requires_grad_()
        y = x
        for p in shards:
            y = torch.tanh(y @ used(p).t())
            y.register_hook(lambda gradient: events.append("gradient"))
        y.sum().backward()
    finally:
        reductions.BUCKET_BYTES, Collective.send = kept, send
    # Of each gradient the first sum begins at once, the second when the backward ends.
    assert events == ["gradient", "reduce"] * 3 + ["reduce"] * 3, events
