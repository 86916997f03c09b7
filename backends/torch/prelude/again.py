import functools
import weakref

import torch

from .loads import Held, pack, unpack
from .mesh import device
from .recomputed import as_before


class Saved:
    """What autograd saves for the backward: a tensor or, until the backward asks, the ops that make it again."""

    def __init__(self, tensor=None, ops=None):
        self.tensor, self.ops = tensor, ops

    def take(self):
        """The tensor; one that was made again is then forgotten."""
        if self.ops is None:
            return self.tensor
        if self.tensor is None:
            self.ops.run()
        tensor, self.tensor = self.tensor, None
        return tensor


class OpsAgain:
    """Ops of a forward that run again together. What they save for their backward is then saved again; what others save of
    their results is taken from there.
    """

    def __init__(self):
        self.held, self.autocast = Held(), autocast_now()
        self.as_before = as_before(self.held)
        self.own, self.of_results = [], []  # who is alive has the tensors: weak references
        self.function, self.inputs = None, []

    def save(self):
        """What autograd gets for the next tensor that the ops save."""
        saved = Saved(ops=self)
        self.own.append(weakref.ref(saved))
        return saved

    def take_over(self, saved, number):
        """Lets go of a tensor that lies in the storage of that result."""
        tensor, saved.tensor, saved.ops = saved.tensor, None, self
        self.of_results.append((weakref.ref(saved), number, tensor.shape, tensor.stride(), tensor.storage_offset()))

    def run(self):
        """Runs the ops with the random numbers and the parameters that they had, for all who wait."""
        count = 0

        def save_again(tensor):
            nonlocal count
            saved = self.own[count]() if count < len(self.own) else None
            count += 1
            if saved is not None:
                saved.tensor = tensor.detach()

        inputs = [x.detach().requires_grad_(needs_gradient) for x, needs_gradient in self.inputs]
        with torch.enable_grad(), self.autocast, self.as_before, torch.autograd.graph.saved_tensors_hooks(save_again, unpack):
            results = self.function(*inputs)
        if count != len(self.own):
            raise RuntimeError(f"ops that run again for the backward save {count} tensors, and saved {len(self.own)} in the forward")
        for waiting, number, shape, stride, offset in self.of_results:
            saved = waiting()
            if saved is not None:
                saved.tensor = results[number].detach().as_strided(shape, stride, offset)


def autocast_now():
    """A context with what autocast is set to here."""
    kind = device().type
    return torch.autocast(kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind),
                          cache_enabled=torch.is_autocast_cache_enabled())


class Again:
    """A block's forward of which some ops run again: `with again(NUMBER)` those of a group."""

    def __init__(self):
        self.groups, self.here, self.saved = {}, None, []

    def __call__(self, number):
        self.next = self.groups.setdefault(number, OpsAgain())
        return self

    def __enter__(self):
        self.here = self.next
        self.here.held.__enter__()

    def __exit__(self, *error):
        self.here.held.__exit__(*error)
        self.here = None

    def pack(self, tensor):
        """In place of a tensor that autograd saves (see `pack`)."""
        if self.here is not None:
            return self.here.save()
        packed = pack(tensor)
        if not torch.is_tensor(packed):
            return packed
        self.saved.append(Saved(tensor.detach()))
        return self.saved[-1]

    def by(self, number, function, inputs, results):
        """How a group's results, of which nothing is kept, are made again: by the function, of these inputs, which are kept."""
        group = self.groups.setdefault(number, OpsAgain())
        group.function, group.inputs = function, [(x.detach(), x.requires_grad) for x in inputs]
        numbers = {(x.untyped_storage()._cdata, x.dtype): i for i, x in enumerate(results)}
        for saved in self.saved:
            made = None if saved.ops else numbers.get((saved.tensor.untyped_storage()._cdata, saved.tensor.dtype))
            if made is not None:
                group.take_over(saved, made)

    def end(self):
        """Autograd holds the hooks for as long as what they gave: nothing else is to be held with them."""
        self.groups, self.saved = {}, []


def give_saved(packed):
    """What was saved."""
    return packed.take() if isinstance(packed, Saved) else unpack(packed)


def runs_again(forward):
    """A block's forward some of whose ops run again for the backward: it is given an Again besides."""

    @torch.compiler.disable
    @functools.wraps(forward)
    def run(block, *inputs):
        again = Again()
        try:
            with torch.autograd.graph.saved_tensors_hooks(again.pack, give_saved):
                return forward(block, again, *inputs)
        finally:
            again.end()

    return run
