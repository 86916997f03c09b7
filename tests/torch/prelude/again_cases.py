import gc

import sharding
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cases import case, draw
from prelude.layout import Layout


def ref(x):
    """Whether its storage is still there can be asked of it."""
    return StorageWeakRef(x.untyped_storage())


class Block(torch.nn.Module):
    """exp(x), dropped and halved, times x and squared: of which the first part runs again, or nothing; `kept` tells what is there."""

    def __init__(self, again=True):
        super().__init__()
        self.runs_again, self.runs, self.made = again, 0, []

    def part(self, x):
        self.runs += 1
        y = torch.exp(x)
        z = sharding.dropout(y, 0.5, self.training, "a")
        return z, z.view(-1)

    def forward(self, x):
        return self.some_again(x) if self.runs_again else self.body(x)

    def body(self, x):
        return self.rest(x, *self.part(x))

    def rest(self, x, z, flat):
        w = torch.sin(x)
        self.made = [ref(z), ref(w)]
        return (w * z).sum() + (flat * flat).sum() + (x * z).square().sum()

    @sharding.runs_again
    def some_again(self, again, x):
        with again(0):
            z, flat = self.part(x)
        result = self.rest(x, z, flat)
        again.by(0, self.part, (x,), (z, flat))
        return result

    def there(self):
        """Of what runs again and of what does not, whether it is kept."""
        return [not each.expired() for each in self.made]


def gradients_of(block, xs, together=True):
    """Each x's gradient; with all forwards before the first backward, or not."""
    torch.manual_seed(0)
    sharding.RANDOM["step"] = None
    losses, made = [], []
    for x in xs:
        x.grad = None
        sharding.begin_step()
        losses.append(block(x))
        if not together:
            losses.pop().backward()
    for loss in losses:
        loss.backward()
    for x in xs:
        made.append(x.grad)
    return made


@case
def test_what_runs_again_is_not_kept_and_gives_the_same_gradients():
    xs = [draw(5, 3).requires_grad_() for _ in range(2)]
    for together in (True, False):
        wanted, made = gradients_of(Block(False), xs, together), gradients_of(Block(), xs, together)
        for want, found in zip(wanted, made):
            assert torch.equal(want, found)
    block = Block()
    loss = block(xs[0])
    assert block.there() == [False, True] and block.runs == 1
    loss.backward()
    assert block.runs == 2 and block.there() == [False, False]
    del loss
    kept = Block(False)
    loss = kept(xs[0])
    assert kept.there() == [True, True]


@case
def test_no_gradient_nothing_runs_again():
    x, block = draw(4, 4).requires_grad_(), Block()
    with torch.no_grad():
        expected = Block(False).eval()(x)
        assert torch.equal(block.eval()(x), expected) and block.there() == [False, False]
    loss = block(x)
    assert torch.equal(loss.detach(), expected)
    loss.backward()
    wanted = x.detach().clone().requires_grad_()
    Block(False).eval()(wanted).backward()
    assert torch.equal(x.grad, wanted.grad)


@case
def test_a_graph_that_is_kept_serves_twice():
    x, block = draw(4, 4).requires_grad_(), Block()
    sharding.begin_step()
    loss = block(x)
    loss.backward(retain_graph=True)
    once, x.grad = x.grad, None
    loss.backward()
    assert torch.equal(once, x.grad) and block.runs == 3
    # And a forward that nobody takes back leaves nothing.
    loss = block(x)
    del loss
    gc.collect()
    assert block.there() == [False, False]


class Chain(torch.nn.Module):
    """Two groups around a product that is kept, with a parameter that is loaded for each forward and again for its backward."""

    def __init__(self, again, regather):
        super().__init__()
        layout = Layout((8, 8), (0, 1))
        loaded = [sharding.all_gather(1, dim=1), sharding.all_gather(0, dim=0)]
        reduced = [sharding.reduce_scatter(0, dim=0), sharding.reduce_scatter(1, dim=1)]
        self.weight = sharding.parameter(layout, dtype=torch.float64, loaded=loaded, reduced=reduced, regather=regather)
        self.runs_again = again

    def forward(self, x):
        if self.runs_again:
            return self.some_again(x)
        y, = self.first(x)
        z = y @ sharding.used(self.weight)
        return (z * self.second(z)[0]).sum()

    def first(self, x):
        return (torch.tanh(x @ sharding.used(self.weight)),)

    def second(self, z):
        return (torch.exp(torch.sin(z)),)

    @sharding.runs_again
    def some_again(self, again, x):
        with again(0):
            y, = self.first(x)
        z = y @ sharding.used(self.weight)
        with again(1):
            w, = self.second(z)
        result = (z * w).sum()
        again.by(0, self.first, (x,), (y,))
        again.by(1, self.second, (z,), (w,))
        self.made = [ref(y), ref(w)]
        return result


@case
def test_parameters_that_are_gathered_are_gathered_again():
    whole, x = draw(8, 8), draw(3, 8)
    for regather in (False, True):
        gradients = []
        for again in (False, True):
            model = Chain(again, regather)
            model.weight.data.copy_(model.weight.sharding.cut(whole))
            for _ in range(2):
                here = x.clone().requires_grad_()
                sharding.begin_forward()
                with sharding.regathering():
                    loss = model(here)
                if again:
                    assert all(each.expired() for each in model.made)
                loss.backward()
            gradients.append((here.grad, model.weight.grad))
            assert model.weight.storing.saved == 0 and model.weight.storing.uses == 0
        for want, found in zip(*gradients):
            assert torch.equal(want, found)


@case
def test_ops_that_save_otherwise_when_they_run_again_are_refused():
    x = draw(4).requires_grad_()
    seen = []

    def part(y):
        seen.append(y)
        return (torch.exp(y) if len(seen) == 1 else torch.exp(y) * torch.sin(y),)

    @sharding.runs_again
    def forward(_, again, y):
        with again(0):
            z, = part(y)
        result = (z * z).sum()
        again.by(0, part, (y,), (z,))
        return result

    loss = forward(None, x)
    try:
        loss.backward()
    except RuntimeError as error:
        assert "save 4 tensors, and saved 1 in the forward" in str(error), error
    else:
        raise AssertionError("nothing was said")


@case
def test_what_autocast_was_set_to_holds_again():
    gradients = []
    for again in (False, True):
        x = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()

        def part(y):
            return (torch.relu(y @ y),)

        @sharding.runs_again
        def forward(_, again, y):
            with again(0):
                z, = part(y)
            result = (z * z).float().sum()
            again.by(0, part, (y,), (z,))
            return result

        with torch.autocast("cpu", dtype=torch.bfloat16):
            z, = part(x)
            loss = forward(None, x) if again else (z * z).float().sum()
        loss.backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
