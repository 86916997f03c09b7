"""What plans set for training: microbatches, types of parameters, of their masters and of their gradients."""
import torch

from cases import case, close, draw, same
from parameter_cases import KINDS, Counting
from prelude import reductions
from prelude.layout import Layout, whole_of
from prelude.moves import all_gather, all_reduce, reduce_scatter
from prelude.parameters import parameter, used
from prelude.reductions import microbatches

COUNT = 3  # of microbatches


def make(name, whole, dtype=torch.float64, **settings):
    layout, moves, _ = KINDS[name]
    shard = parameter(layout, dtype, **moves, **settings)
    with torch.no_grad():
        shard.copy_(layout.cut(whole))
    return shard


def product(shard, name, x):
    """On each rank its rows of x, as the kind cuts the batch."""
    return (x @ used(shard).t()).tanh().sum()


@case
def test_microbatches_add_up():
    """Kept or reduced after each of them: what is in .grad behind the last backward is their sum, and nothing before that."""
    for name, (layout, _, _) in KINDS.items():
        for once in (True, False):
            whole = draw(8, 6)
            shard, plain = make(name, whole, once=once), whole.clone().requires_grad_()
            for _ in range(2):
                counted = []
                for part in microbatches(COUNT):
                    x = draw(5, 6)
                    with Counting() as counts:
                        (product(shard, name, x) / COUNT).backward()
                    ((x @ plain.t()).tanh().sum() / COUNT).backward()
                    assert (shard.grad is not None) == (part == COUNT - 1), (name, once, part)
                    counted.append(sum(counts.get(kind, 0) for kind in ("all_reduce", "reduce_scatter")))
                assert not reductions.SUMS
                # Each rank computes the same here, so sums are as many times as large as there are ranks in them.
                scale = {"replicated": 4, "tensor parallel": 2, "ZeRO-1": 4, "ZeRO-3": 2, "stored and loaded": 4}[name]
                same(shard.grad, layout, plain.grad * scale, f"{name}, {'once' if once else 'each'}")
                assert counted[:-1] == [0 if once else counted[-1]] * (COUNT - 1) and counted[-1] > 0, counted
                shard.grad = plain.grad = None


@case
def test_a_microbatch_that_does_not_use_a_parameter():
    for once in (True, False):
        a, b = (make("replicated", draw(8, 6), once=once) for _ in range(2))
        for part in microbatches(2):
            (used(a).sum() + (used(b).sum() * 3 if part == 0 else 0)).backward()
        close(a.grad, torch.full((8, 6), 8.0, dtype=torch.float64))
        close(b.grad, torch.full((8, 6), 12.0, dtype=torch.float64))


@case
def test_a_step_that_was_left_is_forgotten():
    shard = make("replicated", draw(8, 6), once=True)
    for _ in microbatches(3):
        used(shard).sum().backward()
        break
    for _ in microbatches(2):
        used(shard).sum().backward()
    close(shard.grad, torch.full((8, 6), 8.0, dtype=torch.float64))
    shard.grad = None
    used(shard).sum().backward()  # alone, a backward is a step's
    close(shard.grad, torch.full((8, 6), 4.0, dtype=torch.float64))


@case
def test_steps_in_the_backward_wait_for_the_last_microbatch():
    kept = reductions.CHUNK_BYTES
    try:
        for chunk in (1 << 30, 64):
            reductions.CHUNK_BYTES = chunk
            for once in (True, False):
                whole = draw(8, 6)
                shard, plain = make("replicated", whole, once=once), torch.nn.Parameter(whole.clone())
                ours, theirs = torch.optim.SGD([shard], 0.1), torch.optim.SGD([plain], 0.1)
                reductions.step_in_backward(ours)
                for _ in range(2):
                    for _ in microbatches(COUNT):
                        x = draw(5, 6)
                        (product(shard, "replicated", x) / 4).backward()
                        (x @ plain.t()).tanh().sum().backward()
                    theirs.step(), theirs.zero_grad()
                    assert shard.grad is None
                    close(shard.detach(), plain.detach(), f"once {once}, pieces of {chunk}")
    finally:
        reductions.CHUNK_BYTES = kept


@case
def test_masters_of_narrow_parameters():
    """What is computed with is the master in bfloat16, and moves travel in that; the optimizer sees float32 alone."""
    for name, (layout, arguments, computed) in KINDS.items():
        whole = draw(8, 6).float()
        shard = make(name, whole, torch.bfloat16, master=torch.float32)
        assert shard.dtype == torch.float32
        optimizer = torch.optim.AdamW([shard], 1e-4)
        for _ in range(3):
            before, value = shard.detach().clone(), used(shard)
            assert value.dtype == torch.bfloat16
            assert torch.equal(value, computed.cut(whole.to(torch.bfloat16))), name
            value.sum().backward()
            assert shard.grad.dtype == torch.float32
            optimizer.step()
            optimizer.zero_grad()
            assert not torch.equal(shard, before), "a step smaller than bfloat16 can tell is not lost"
            assert all(state.dtype == torch.float32 for state in optimizer.state[shard].values())
            whole = whole_of(shard.detach(), layout)


@case
def test_gradients_are_reduced_in_their_own_type():
    """Numbers that bfloat16 would round when they are added up."""
    for name, (layout, _, _) in KINDS.items():
        for once in (True, False):
            exact = make(name, draw(8, 6), torch.bfloat16, summed=torch.float32, master=torch.float32, once=once)
            rounded = make(name, draw(8, 6), torch.bfloat16, master=torch.float32, once=once)
            for part in microbatches(2):
                weight = (256.0, 1.0)[part]
                ((used(exact) + used(rounded)) * weight).sum().backward()
            scale = {"replicated": 4, "tensor parallel": 2, "ZeRO-1": 4, "ZeRO-3": 2, "stored and loaded": 4}[name]
            close(exact.grad, torch.full_like(exact.grad, 257.0 * scale), name)
            close(rounded.grad, torch.full_like(rounded.grad, 256.0 * scale), name)


@case
def test_what_travels_is_narrow():
    seen = []
    begins = {kind: kind.begin for kind in (all_gather, all_reduce, reduce_scatter)}

    def watched(kind):
        def begin(move, x):
            seen.append((kind.__name__, x.dtype))
            return begins[kind](move, x)
        return begin

    try:
        for kind in begins:
            kind.begin = watched(kind)
        shard = make("stored and loaded", draw(8, 6), torch.bfloat16, master=torch.float32, summed=torch.float32)
        used(shard).sum().backward()
    finally:
        for kind, begin in begins.items():
            kind.begin = begin
    gathers = [dtype for kind, dtype in seen if kind == "all_gather"]
    sums = [dtype for kind, dtype in seen if kind != "all_gather"]
    assert gathers == [torch.bfloat16] * 2 and sums == [torch.float32] * 2, seen


@case
def test_a_master_that_nothing_moves():
    layout = Layout((8, 6), (0, 1))
    shard = parameter(layout, torch.bfloat16, master=torch.float32)
    with torch.no_grad():
        shard.copy_(layout.cut(draw(8, 6).float()) + 1e-4)
    assert used(shard).dtype == torch.bfloat16
    used(shard).sum().backward()
    assert shard.grad.dtype == torch.float32 and shard.grad.shape == shard.shape
