import torch

from cases import case, close, draw, same
from prelude.layout import Layout
from prelude.moves import all_gather, all_reduce, cut, reduce_scatter
from prelude.parameters import buffer, parameter, used

WHOLE = Layout((8, 6), (None, None))
ROWS = Layout((8, 6), (0, None))
BOTH = Layout((8, 6), (0, 1))

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
