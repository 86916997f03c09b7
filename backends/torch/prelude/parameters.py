import weakref

import torch
from torch import nn

from .loads import for_training, in_backward, loaded_value, mark, renew, stored_value, use_of
from .mesh import device
from .reductions import REDUCTIONS, reductions
from .rows import follow, is_shard

OPTIMIZERS = {"counted": False}  # whether their steps are counted


class Storing:
    """How a parameter is kept and computed with (see `parameter`), and what is at hand of it."""

    def __init__(self, dtype, summed, stored, loaded, reduced, once, regather, prefetch):
        self.dtype, self.summed = dtype, summed  # None: the shard's, and the gradient's as it is
        self.stored, self.loaded, self.reduced = tuple(stored), tuple(loaded), tuple(reduced)
        self.once, self.regather, self.prefetch = once, regather, prefetch
        self.name = "parameter"
        self.steps = 0  # of optimizers
        self.optimizer = None  # and its group, where the backward makes the steps (see `step_in_backward`)
        self.stateless = False  # whether that is known to keep nothing
        self.kept = self.kept_age = None  # the stored value, and the age that the shard had
        self.kept_with = None  # parameters whose stored values are gathered together
        self.leaf = self.leaf_state = None  # the stored value for autograd, and what it was made of (see `leaf_of`); or a token
        self.unit = None  # the Unit that it is of
        self.load = None  # the Load that it is part of
        self.way = None  # its moves of gradients, their route, and whether ranks meet on it
        self.uses = 0  # in forwards whose backward has not come yet
        self.forward = None  # the number of the last forward that used it
        self.seen = self.expected = 0  # uses in that forward and in the one before
        self.saved = 0  # tensors that wait for the backward
        self.value = None  # what is computed with, while more uses are expected


def parameter(layout, dtype=torch.float32, master=None, summed=None, stored=(), loaded=(), reduced=(), once=False,
              regather=False, prefetch=False):
    """This rank's shard of a parameter, in the layout of what the optimizer keeps for it.

    dtype     of what is computed with
    master    the dtype of the shard, and so of what the optimizer keeps, if that is another one: the value is a copy
              of it, made once a step
    summed    the dtype in which gradients are reduced, and those of microbatches added up, if that is another one
    stored    moves from the shard to what is kept from step to step
    loaded    moves from there to what is computed with, in each forward
    reduced   moves of the gradient of what is computed with, to the shard's layout
    once      gradients of microbatches add up on each rank, and the last one's backward reduces the sum; without it
              each backward reduces its own (see `microbatches`)
    regather  the loaded value is not kept for the backward but loaded again (see `regathering`)
    prefetch  it is loaded ahead of its use, when the unit before it is used (see `travel_together`)
    """
    count_optimizer_steps()
    made = nn.Parameter(empty(layout, master or dtype), requires_grad=dtype.is_floating_point)
    made.sharding = layout
    made.storing = Storing(dtype if master else None, summed, stored, loaded, reduced, once, regather, prefetch)
    return made


def count_optimizer_steps():
    """From now on counts the steps of what optimizers update: not all of them change its version. And follows them."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def count(optimizer, *_):
        shards = [shard for each in optimizer.param_groups for shard in each["params"] if is_shard(shard)]
        for shard in shards:
            shard.storing.steps += 1
        if shards:
            follow(optimizer)

    if not OPTIMIZERS["counted"]:
        register_optimizer_step_post_hook(count)
        OPTIMIZERS["counted"] = True


def buffer(layout, dtype=torch.float32):
    """This rank's part of a buffer."""
    made = empty(layout, dtype)
    made.sharding = layout
    return made


def empty(layout, dtype):
    """Zeros for this rank's part of a tensor: where ranks compute, or on the meta device while that is the default."""
    place = torch.get_default_device()
    return torch.zeros(layout.local_shape(), dtype=dtype, device=place if place.type == "meta" else device())


def used(shard):
    """What is computed with, of a parameter; another tensor is what it is."""
    storing = getattr(shard, "storing", None)
    if storing is None:
        return shard
    if storing.unit is not None and not storing.loaded and not torch.compiler.is_compiling():
        use_of(storing.unit)
    if not (storing.stored or storing.loaded or storing.reduced or storing.dtype or storing.summed):
        return shard
    if not storing.loaded and not torch.compiler.is_compiling():
        return leaf_of(shard)
    return use(shard)


@torch.compiler.disable
def use(shard):
    """The value of a parameter, which is loaded, and whose gradient is reduced, beside the computing."""
    if not shard.storing.loaded:
        return leaf_of(shard)
    forget_failed()
    if torch.is_grad_enabled() and shard.requires_grad and not in_backward():
        shard.storing.uses += 1
    return Use.apply(token_of(shard), [shard])


def token_of(shard):
    """An empty tensor that autograd knows in place of a parameter that is loaded for each forward."""
    storing = shard.storing
    if storing.leaf is None or (storing.leaf.requires_grad, storing.leaf.device) != (shard.requires_grad, shard.device):
        storing.leaf = torch.empty(0, device=shard.device, requires_grad=shard.requires_grad)  # where its gradient will be
    return storing.leaf


def forget_failed():
    """Forgets the gradients of a backward that failed."""
    if REDUCTIONS and not in_backward():
        REDUCTIONS.clear()


def leaf_of(shard):
    """What is kept of a parameter, as a leaf of autograd's, whose gradient goes to the shard's .grad by way of Reductions:
    autograd would call the shard's own hooks before it is there.
    """
    forget_failed()
    storing = shard.storing
    renew(shard)
    state = shard.requires_grad, shard.dtype, shard.data_ptr()
    if storing.leaf_state != state:
        with for_training():
            storing.leaf, storing.leaf_state = stored_value(shard).requires_grad_(shard.requires_grad), state
        if storing.unit is not None:
            mark(storing.leaf, storing.unit)
        if shard.requires_grad:
            owner = weakref.ref(shard)  # hooks are known to C++, where no cycle is found
            storing.leaf.register_post_accumulate_grad_hook(lambda leaf: take_gradient(owner(), leaf))
    return storing.leaf


def autograd_leaf(shard):
    """The leaf of autograd's that stands for a parameter: what is kept of it, its token, or the parameter itself."""
    storing = getattr(shard, "storing", None)
    return shard if storing is None or storing.leaf is None else storing.leaf


def take_gradient(shard, leaf):
    """Sends the gradient that autograd has left in a parameter's leaf on its way."""
    gradient, leaf.grad = leaf.grad, None
    reductions().begin(shard, gradient, own=True)


class Use(torch.autograd.Function):
    """A parameter that is loaded for each forward. Autograd knows a token in its place; see leaf_of."""

    @staticmethod
    def forward(ctx, token, shards):
        ctx.shard, = shards
        return loaded_value(ctx.shard)

    @staticmethod
    def backward(ctx, gradient):
        reductions().add(ctx.shard, gradient)
        return gradient.new_empty(0), None  # whoever asks for the token's gradient gets one
