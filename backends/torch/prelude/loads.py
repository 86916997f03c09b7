import math

import torch
from torch import nn

from .flights import Flight, range_named
from .modules import Parts
from .moves import Collective, route
from .reductions import BUCKET_BYTES

FORWARDS = {"count": 0}

LAST_LOADED = {"forward": None, "backward": None}  # the Load of what was loaded last in each of them


def for_training():
    """A context for what is kept: though it be made in inference mode, training can use it."""
    return torch.inference_mode(False)


def age_of(shard):
    """Changes whenever the shard may have changed."""
    return shard._version, shard.storing.steps


def is_kept(shard):
    """Whether what is kept of a parameter from step to step is another tensor than the shard."""
    return bool(shard.storing.stored or shard.storing.dtype)


def stored_value(shard):
    """What is kept of a parameter from step to step."""
    if not is_kept(shard):
        return shard.detach()
    storing = shard.storing
    if storing.kept_age != age_of(shard):
        keep([each for each in storing.kept_with or [shard] if each.storing.kept_age != age_of(each)])
    return storing.kept.detach()


def keep(shards):
    """Makes anew what is kept of parameters, whose moves take one route."""
    for shard in shards:
        shard.storing.kept = shard.storing.leaf = shard.storing.leaf_state = None
    with range_named("gather", shards), for_training():
        values = [shard.detach().to(shard.storing.dtype or shard.dtype) for shard in shards]
        kept = Flight([shard.storing.stored for shard in shards], values, "loads").take()
        for shard, value in zip(shards, kept):
            shard.storing.kept, shard.storing.kept_age = alone(value), age_of(shard)


class Load:
    """Parameters that are loaded together: their moves take one route."""

    def __init__(self, shards):
        self.shards = shards
        self.flight, self.loading = None, []  # a load that was begun, and of which shards, with their ages
        self.values = {}  # by shard: what has arrived and was not asked for yet, and the shard's age
        self.next = {"forward": None, "backward": None}  # the load that came after this one

    def wanted(self, phase, shard):
        """What the phase is still to compute with: this shard, if one is named, and others."""
        if phase == "backward":
            saved = [each for each in self.shards if each.storing.saved and each.storing.value is None]
            if saved and (shard is None or any(each is shard for each in saved)):
                return saved
            return self.shards  # of a block that is computed again
        count = FORWARDS["count"]
        return [each for each in self.shards if each is shard or each.storing.forward != count]

    def begin(self, phase, shard=None):
        """Begins to load what is wanted, unless that was done."""
        if self.flight is not None:
            if all(age == age_of(each) for each, age in self.loading) and (shard is None or any(each is shard for each, _ in self.loading)):
                return
            self.flight.take()
            self.flight = None
        self.values.clear()
        shards = self.wanted(phase, shard)
        if not shards:
            return
        values = [stored_value(each) for each in shards]
        with range_named("load", shards), for_training():
            self.flight = Flight([each.storing.loaded for each in shards], values, "loads")
            self.loading = [(each, age_of(each)) for each in shards]

    def take(self, phase, shard):
        """The loaded value of one of them."""
        value, age = self.values.pop(shard, (None, None))
        if value is None or age != age_of(shard):
            self.begin(phase, shard)
            with range_named("loaded", [each for each, _ in self.loading]):
                arrived, self.flight = self.flight.take(), None
                self.values = {each: (alone(x), age) for (each, age), x in zip(self.loading, arrived)}
            value, _ = self.values.pop(shard)
        return value

    def is_ahead(self):
        """Whether it may begin before it is needed, and nothing of it is at hand."""
        idle = self.flight is None and not self.values and all(each.storing.value is None for each in self.shards)
        return idle and any(each.storing.prefetch for each in self.shards)


def alone(x):
    """x with memory that it shares with nothing: what is saved of it for the backward is let go of by itself."""
    return x if x.untyped_storage().nbytes() == x.nbytes else x.clone()


def travel_together(model):
    """Lets neighbouring parameters of each block be loaded together, and all that are kept, so much as a bucket holds."""
    def walk(module, block):
        for shard in module._parameters.values():
            if shard is None:
                continue
            storing, dtype = shard.storing, shard.storing.dtype or shard.dtype
            if storing.loaded:
                loads.setdefault((block, route(storing.loaded), dtype, storing.regather, storing.prefetch), []).append(shard)
            if storing.stored:
                kept.setdefault((route(storing.stored), dtype), []).append(shard)
        for child in module.children():
            if isinstance(child, (Parts, nn.ModuleList)):
                walk(child, block)
            else:  # what stands behind it is used behind it
                walk(child, (*block, len(loads)))
                block = (*block[:-1], len(loads))

    loads, kept = {}, {}
    walk(model, (0,))
    for shards in loads.values():
        for bucket in buckets(shards, [shard.storing.loaded for shard in shards]):
            together = Load(bucket)
            for shard in bucket:
                shard.storing.load = together
    for shards in kept.values():
        for bucket in buckets(shards, [shard.storing.stored for shard in shards]):
            for shard in bucket:
                shard.storing.kept_with = bucket


def buckets(shards, ways):
    """Shards in lists of which each, if it has several, fits into a bucket behind its moves."""
    made, filled = [], 0
    for shard, moves in zip(shards, ways):
        size = shard.nbytes * math.prod(move.ranks for move in moves if isinstance(move, Collective) and move.kind == "all_gather")
        if not made or filled + size > BUCKET_BYTES:
            made.append([])
            filled = 0
        made[-1].append(shard)
        filled += size
    return made


def load(shard, phase):
    """A loaded parameter; begins to load what came after its like in the step before, if that is to be prefetched."""
    storing = shard.storing
    if storing.load is None:
        storing.load = Load([shard])
    here, last = storing.load, LAST_LOADED[phase]
    if last is not None and last is not here:
        last.next[phase] = here
    LAST_LOADED[phase] = here
    value, following = here.take(phase, shard), here.next[phase]
    if following is not None and following.is_ahead():
        following.begin(phase)
    return value


def in_backward():
    """Whether a backward is going on: a block that is computed then is one that is computed again."""
    return torch._C._current_graph_task_id() != -1


def loaded_value(shard):
    """What is computed with; of several uses in a forward, the first loads it."""
    storing = shard.storing
    if in_backward():
        return load(shard, "backward")
    if storing.forward != FORWARDS["count"]:
        storing.forward, storing.expected, storing.seen = FORWARDS["count"], storing.seen, 0
        storing.saved, storing.value = 0, None
    storing.seen += 1
    value = load(shard, "forward") if storing.value is None else storing.value
    if storing.regather:
        value.untyped_storage().shard = shard
    storing.value = value if storing.seen < storing.expected else None
    return value.detach()


def begin_forward():
    """Counts a forward: what is loaded in it follows nothing that was loaded before."""
    FORWARDS["count"] += 1
    LAST_LOADED["forward"] = LAST_LOADED["backward"] = None


def regathering():
    """A context for a forward: of parameters that are gathered again for the backward, no value is saved for it."""
    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def pack(saved):
    """In place of a loaded parameter, or a view of it, what it takes to load it again."""
    shard = getattr(saved.untyped_storage(), "shard", None)
    if shard is None:
        return saved
    shard.storing.saved += 1
    return shard, age_of(shard), saved.shape, saved.stride(), saved.storage_offset()


def unpack(packed):
    """What was saved; of several tensors of one parameter, the first loads it again."""
    if torch.is_tensor(packed):
        return packed
    shard, age, shape, stride, offset = packed
    if age != age_of(shard):
        raise RuntimeError(f"{shard.storing.name} was changed between the forward that used it and its backward")
    storing = shard.storing
    value = load(shard, "backward") if storing.value is None else storing.value
    storing.saved -= 1
    storing.value = value if storing.saved > 0 else None
    return value.as_strided(shape, stride, offset)
