import math
import weakref

import torch
from torch import nn

from .flights import Flight, range_named
from .modules import Parts
from .moves import Collective, route

UNIT_BYTES = 25_000_000  # so much is loaded together; an emitted program has what its plan was priced with

FORWARDS = {"count": 0}


def for_training():
    """A context for what is kept: though it be made in inference mode, training can use it."""
    return torch.inference_mode(False)


def age_of(shard):
    """Changes whenever the shard may have changed."""
    return shard._version, shard.storing.steps


def is_kept(shard):
    """Whether what is kept of a parameter from step to step is another tensor than the shard."""
    return shard.storing.dtype is not None or bool(shard.storing.stored)


def stored_value(shard):
    """What is kept of a parameter from step to step."""
    renew(shard)
    return (shard.storing.kept if is_kept(shard) else shard).detach()


def renew(shard):
    """Lets what is kept of a parameter follow its steps, and that of others with it."""
    storing = shard.storing
    if is_kept(shard) and storing.kept_age != age_of(shard):
        keep([each for each in storing.kept_with or [shard] if each.storing.kept_age != age_of(each)])


def keep(shards):
    """Makes anew what is kept of parameters, whose moves take one route; where nothing moves, by one op and where it was."""
    if not any(shard.storing.stored for shard in shards) and all(map(keeps_its_place, shards)):
        with for_training(), torch.no_grad():
            torch._foreach_copy_([shard.storing.kept for shard in shards], shards)
        for shard in shards:
            shard.storing.kept_age = age_of(shard)
        return
    for shard in shards:
        shard.storing.kept = shard.storing.leaf = shard.storing.leaf_state = None
    with range_named("gather", shards), for_training():
        values = [shard.detach().to(computed_dtype(shard)) for shard in shards]
        kept = Flight([shard.storing.stored for shard in shards], values, "loads").take() if shards[0].storing.stored else values
        for shard, value in zip(shards, kept):
            shard.storing.kept, shard.storing.kept_age = alone(value), age_of(shard)


def keeps_its_place(shard):
    """Whether what is kept of a parameter is a tensor into which its value can be copied."""
    kept = shard.storing.kept
    here = shard.shape, computed_dtype(shard), shard.device
    return kept is not None and (kept.shape, kept.dtype, kept.device) == here and kept.data_ptr() != shard.data_ptr()


class Pass:
    """Of the forwards of a model, or of its backwards: which units are loaded one after the other, as they were the last time."""

    def __init__(self, phase):
        self.phase = phase
        self.first = None  # unit
        self.number, self.last, self.taken = None, None, set()  # of the one that goes on: its last unit, and all so far

    def begin(self, number):
        """Begins what is loaded first, if this is another forward or backward than the last one."""
        if number == self.number:
            return
        self.number, self.last = number, None
        self.taken.clear()
        if self.first is not None:
            self.first.begin_ahead(self.phase)

    def take(self, unit):
        """Notes that something of the unit is taken: whether it is the first of it."""
        if unit in self.taken:
            return False
        if self.last is None:
            self.first = unit
        else:
            self.last.next[self.phase] = unit
        self.last = unit
        self.taken.add(unit)
        return True


class Passes:
    """The forwards and the backwards of a model."""

    def __init__(self):
        self.forward, self.backward = Pass("forward"), Pass("backward")

    def of(self, phase):
        """The one that goes on; its first units begin to be loaded."""
        if phase == "forward":
            self.forward.begin(FORWARDS["count"])
            return self.forward
        self.backward.begin(torch._C._current_graph_task_id())
        return self.backward

    def begin_backward(self, *_):
        """A hook of what the model returns."""
        self.of("backward")


class Unit:
    """Parameters of a block whose loads begin together: when the first of them is used or, ahead, when the first of the unit before is."""

    def __init__(self, passes):
        self.passes = passes
        self.loads = {"forward": [], "backward": []}  # those that were taken there
        self.next = {"forward": None, "backward": None}  # the unit that came after this one

    def take_turn(self, phase):
        """Notes that one of them is used: whether it is the first."""
        return self.passes.of(phase).take(self)

    def begin(self, phase):
        """Begins its loads."""
        for each in self.loads[phase]:
            if each.is_idle():
                each.begin(phase)

    def begin_ahead(self, phase):
        """Begins those that are prefetched."""
        for each in self.loads[phase]:
            if each.prefetch and each.is_idle():
                each.begin(phase)

    def begin_next(self, phase):
        """Begins what came after it, as far as that is prefetched."""
        following = self.next[phase]
        if following is not None and following not in self.passes.of(phase).taken:
            following.begin_ahead(phase)


class Load:
    """Parameters of a unit that are loaded by one collective: their moves take one route."""

    def __init__(self, shards, unit):
        self.shards, self.unit = shards, unit
        self.prefetch = shards[0].storing.prefetch
        self.flight, self.loading = None, []  # a load that was begun, and of which shards, with their ages
        self.values = {}  # by shard: what has arrived and was not asked for yet, and the shard's age

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

    def is_idle(self):
        """Whether nothing of it is at hand."""
        return self.flight is None and not self.values and all(each.storing.value is None for each in self.shards)


def alone(x):
    """x with memory that it shares with nothing: what is saved of it for the backward is let go of by itself."""
    return x if x.untyped_storage().nbytes() == x.nbytes else x.clone()


def travel_together(model):
    """Lets parameters be loaded a unit at a time: neighbours in a block, of so many bytes at most. And all that are kept. Gives the model's
    passes.
    """
    passes, kept, block, filled = Passes(), {}, None, 0
    units = []
    for name, shard in model.named_parameters():
        if is_kept(shard):
            kept.setdefault((route(shard.storing.stored), computed_dtype(shard), shard.dtype), []).append(shard)
        size = math.prod(shard.sharding.shape) * computed_dtype(shard).itemsize
        if not units or block_of(name) != block or filled + size > UNIT_BYTES:
            units.append([])
            filled = 0
        block, filled = block_of(name), filled + size
        units[-1].append(shard)
    if any(shard.storing.loaded for unit in units for shard in unit):
        for shards in units:
            make_unit(shards, passes)
    for shards in kept.values():
        for bucket in buckets(shards, [shard.storing.stored for shard in shards]) if shards[0].storing.stored else [shards]:
            for shard in bucket:
                shard.storing.kept_with = bucket
    return passes


def make_unit(shards, passes):
    """A unit of these parameters; what takes one route is loaded together."""
    unit, loads = Unit(passes), {}
    for shard in shards:
        storing = shard.storing
        storing.unit = unit
        if storing.loaded:
            loads.setdefault((route(storing.loaded), computed_dtype(shard), storing.regather, storing.prefetch), []).append(shard)
        else:
            mark(shard, unit)
    for together in loads.values():
        load = Load(together, unit)
        for shard in together:
            shard.storing.load = load


def mark(value, unit):
    """Lets whoever saves a value of a parameter for the backward know of its unit."""
    value.untyped_storage().unit = weakref.ref(unit)


def block_of(name):
    """The block that a parameter is of: "transformer.h.0" of "transformer.h.0.attn.weight"; "" of what stands outside of blocks."""
    parts = name.split(".")
    return next((".".join(parts[:i + 1]) for i, part in enumerate(parts) if i > 0 and part.isdecimal()), "")


def computed_dtype(shard):
    return shard.storing.dtype or shard.dtype


def buckets(shards, ways):
    """Shards in lists of which each, if it has several, fits into a bucket behind its moves."""
    made, filled = [], 0
    for shard, moves in zip(shards, ways):
        ranks = math.prod(move.ranks for move in moves if isinstance(move, Collective) and move.kind == "all_gather")
        size = shard.nbytes * ranks
        if not made or filled + size > UNIT_BYTES:
            made.append([])
            filled = 0
        made[-1].append(shard)
        filled += size
    return made


def load(shard, phase):
    """A loaded parameter; the first of a unit begins to load the rest of it, and then what came after it the last time."""
    if shard.storing.load is None:
        make_unit([shard], Passes())
    here = shard.storing.load
    unit = here.unit
    if here not in unit.loads[phase]:
        unit.loads[phase].append(here)
    first = unit.take_turn(phase)
    if first:
        here.begin(phase, shard)
        unit.begin(phase)
    value = here.take(phase, shard)
    if first:
        unit.begin_next(phase)
    return value


def use_of(unit):
    """Begins the loads of a unit, of which a parameter is used that is at hand, and of the next one."""
    phase = "backward" if in_backward() else "forward"
    if unit.take_turn(phase):
        unit.begin(phase)
        unit.begin_next(phase)


def in_backward():
    """Whether a backward is going on: a block that is computed then is one that is computed again."""
    return torch._C._current_graph_task_id() != -1


HELD = {"by": None}  # Held that is entered


class Held:
    """A context for what runs in a forward and again for its backward: holds the loaded parameters that it computes with, but for those
    that are gathered again.
    """

    def __init__(self):
        self.values, self.before = {}, []  # by shard: its value, and its uses that are to come

    def __enter__(self):
        self.before.append(HELD["by"])
        HELD["by"] = self

    def __exit__(self, *_):
        HELD["by"] = self.before.pop()

    def hold(self, shard, value):
        self.values[shard] = value, self.values.get(shard, (value, 0))[1] + 1

    def take(self, shard):
        """The value, if it is held; the last use lets go of it."""
        value, uses = self.values.pop(shard, (None, 0))
        if uses > 1:
            self.values[shard] = value, uses - 1
        return value


def loaded_value(shard):
    """What is computed with; of several uses in a forward, the first loads it."""
    storing, held = shard.storing, HELD["by"]
    if in_backward():
        value = None if held is None else held.take(shard)
        if value is None:
            return load(shard, "backward")
        use_of(storing.load.unit)
        return value.detach()
    if storing.forward != FORWARDS["count"]:
        storing.forward, storing.expected, storing.seen = FORWARDS["count"], storing.seen, 0
        storing.saved, storing.value = 0, None
    storing.seen += 1
    value = load(shard, "forward") if storing.value is None else storing.value
    if storing.regather:
        value.untyped_storage().shard = shard
    else:
        mark(value, storing.load.unit)
        if held is not None:
            held.hold(shard, value)
    storing.value = value if storing.seen < storing.expected else None
    return value.detach()


@torch.compiler.disable
def begin_forward(passes=None):
    """Counts a forward, and begins what a model loads first in it."""
    FORWARDS["count"] += 1
    if passes is not None:
        passes.of("forward")


def regathering():
    """A context for a forward: of parameters that are gathered again for the backward, no value is saved for it."""
    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def pack(saved):
    """In place of a loaded parameter, or a view of it, what it takes to load it again; of one that is at hand, with its unit."""
    storage = saved.untyped_storage()
    shard = getattr(storage, "shard", None)
    if shard is not None:
        shard.storing.saved += 1
        return shard, age_of(shard), saved.shape, saved.stride(), saved.storage_offset()
    unit = getattr(storage, "unit", None)
    return saved if unit is None else (unit, saved)


def unpack(packed):
    """What was saved; of several tensors of one parameter, the first loads it again."""
    if torch.is_tensor(packed):
        return packed
    if len(packed) == 2:
        unit, saved = packed
        if unit() is not None:
            use_of(unit())
        return saved
    shard, age, shape, stride, offset = packed
    if age != age_of(shard):
        raise RuntimeError(f"{shard.storing.name} was changed between the forward that used it and its backward")
    storing = shard.storing
    value = load(shard, "backward") if storing.value is None else storing.value
    storing.saved -= 1
    storing.value = value if storing.saved > 0 else None
    return value.as_strided(shape, stride, offset)
