import torch
from torch import nn

from .mesh import device
from .moves import all_reduce, run
from .rows import follow, is_shard

PACK_BYTES = 1 << 20  # smaller gradients are reduced together, about so much at a time
CHUNK_BYTES = 16 << 20  # larger ones in pieces, where several moves can overlap

FORWARDS = {"count": 0}

OPTIMIZERS = {"counted": False}  # whether their steps are counted

REDUCTIONS = {}  # by backward pass: the Reductions of its gradients

LAST_LOADED = {"forward": None, "backward": None}  # what was loaded last in each of them


class Storing:
    """How a parameter is kept and computed with (see `parameter`), and what is at hand of it."""

    def __init__(self, stored, loaded, reduced, regather, prefetch):
        self.stored, self.loaded, self.reduced = tuple(stored), tuple(loaded), tuple(reduced)
        self.regather, self.prefetch = regather, prefetch
        self.name = "parameter"
        self.steps = 0  # of optimizers
        self.optimizer = None  # and its group, where the backward makes the steps (see `step_in_backward`)
        self.stateless = False  # whether that is known to keep nothing
        self.kept = self.kept_age = None  # the stored value, and the age that the shard had
        self.flight = self.flight_age = None  # a load that was begun ahead of its use
        self.next = {"forward": None, "backward": None}  # the parameter that was loaded after this one
        self.uses = 0  # in forwards whose backward has not come yet
        self.forward = None  # the number of the last forward that used it
        self.seen = self.expected = 0  # uses in that forward and in the one before
        self.saved = 0  # tensors that wait for the backward
        self.value = None  # what is computed with, while more uses are expected


def parameter(layout, dtype=torch.float32, stored=(), loaded=(), reduced=(), regather=False, prefetch=False):
    """This rank's shard of a parameter, in the layout of what the optimizer keeps for it.

    stored    moves from the shard to what is kept from step to step
    loaded    moves from there to what is computed with, in each forward
    reduced   moves of the gradient of what is computed with, to the shard's layout
    regather  the loaded value is not kept for the backward but loaded again (see `regathering`)
    prefetch  it is loaded ahead of its use, when the parameter before it is used
    """
    count_optimizer_steps()
    made = nn.Parameter(empty(layout, dtype), requires_grad=dtype.is_floating_point)
    made.sharding = layout
    made.storing = Storing(stored, loaded, reduced, regather, prefetch)
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
    if storing is None or not (storing.stored or storing.loaded or storing.reduced):
        return shard
    return use(shard)


@torch.compiler.disable
def use(shard):
    """The value of a parameter, which is loaded, and whose gradient is reduced, beside the computing."""
    if not in_backward():
        REDUCTIONS.clear()  # of a backward that failed
        if torch.is_grad_enabled() and shard.requires_grad:
            shard.storing.uses += 1
    return Use.apply(torch.empty(0, requires_grad=shard.requires_grad), [shard])


def in_backward():
    """Whether a backward is going on: a block that is computed then is one that is computed again."""
    return torch._C._current_graph_task_id() != -1


class Use(torch.autograd.Function):
    """See use. The gradient goes to the shard's .grad by way of Reductions: autograd, which would call the shard's hooks
    before it is there, knows an empty tensor in its place.
    """

    @staticmethod
    def forward(ctx, empty, shards):
        ctx.shard, = shards
        return value_in_forward(ctx.shard)

    @staticmethod
    def backward(ctx, gradient):
        task = torch._C._current_graph_task_id()
        if task not in REDUCTIONS:
            REDUCTIONS[task] = Reductions()
            torch.autograd.Variable._execution_engine.queue_callback(lambda: REDUCTIONS.pop(task).end())
        REDUCTIONS[task].add(ctx.shard, gradient)
        return None, None


class Reductions:
    """The gradients of one backward pass: reduced while it goes on, added to .grad when it ends."""

    def __init__(self):
        self.sums = {}  # by shard: the gradient so far, of how many uses
        self.packs = {}  # by moves and dtype: small gradients that go together
        self.begun = []  # shards, the dimension of the pieces of their gradients, and the pieces' flights

    def add(self, shard, gradient):
        """The gradient of one use."""
        total, count = self.sums.get(shard, (None, 0))
        self.sums[shard] = gradient if total is None else total + gradient, count + 1
        if count + 1 >= shard.storing.uses:
            self.begin(shard)

    def begin(self, shard):
        """Sends the sum of a shard's gradients on its way."""
        gradient, _ = self.sums.pop(shard)
        shard.storing.uses = 0
        moves = shard.storing.reduced
        gradient = gradient if moves else gradient.clone()
        if moves and all(isinstance(move, all_reduce) for move in moves) and gradient.nbytes < PACK_BYTES:
            together = self.packs.setdefault((moves, gradient.dtype), [])
            together.append((shard, gradient))
            if sum(gradient.nbytes for _, gradient in together) >= PACK_BYTES:
                self.begin_pack(moves, gradient.dtype)
            return
        with range_named("reduce", [shard]):
            dim, pieces = pieces_of(moves, gradient, shard.storing.optimizer is not None)
            self.begun.append(([shard], dim, [Flight(moves, piece, "gradients") for piece in pieces]))

    def begin_pack(self, moves, dtype):
        """Sends small gradients on their way, in a row."""
        shards, gradients = zip(*self.packs.pop((moves, dtype)))
        with range_named("reduce", shards):
            row = torch.cat([gradient.reshape(-1) for gradient in gradients])
            self.begun.append((shards, 0, [Flight(moves, row, "gradients")]))

    @torch.no_grad()
    def end(self):
        """Waits for all of them."""
        for shard in list(self.sums):
            self.begin(shard)
        for moves, dtype in list(self.packs):
            self.begin_pack(moves, dtype)
        flights = [flight for _, _, pieces in self.begun for flight in pieces]
        for _ in range(max((len(flight.moves) for flight in flights), default=0)):
            for flight in flights:
                flight.step()
        for shards, dim, pieces in self.begun:
            if len(pieces) > 1 and shards[0].storing.optimizer and shards[0].grad is None and not has_hooks(shards[0]):
                step_by_pieces(shards[0], dim, pieces)
                continue
            with range_named("reduced", shards):
                made = [flight.take() for flight in pieces]
                made = made[0] if len(made) == 1 else torch.cat(made, dim)
                gradients = [made] if len(shards) == 1 else made.split([shard.numel() for shard in shards])
                for shard, gradient in zip(shards, gradients):
                    gradient = hooked(shard, gradient.view(shard.shape))
                    shard.grad = gradient if shard.grad is None else shard.grad.add_(gradient)
                    for hook in list((shard._post_accumulate_grad_hooks or {}).values()):
                        hook(shard)
                    if shard.storing.optimizer:
                        step_alone(shard)


def has_hooks(shard):
    """Whether something is to be called when its gradient is there."""
    return bool(shard._backward_hooks or shard._post_accumulate_grad_hooks)


def hooked(shard, gradient):
    """What the shard's hooks (register_hook) make of its gradient."""
    for hook in list((shard._backward_hooks or {}).values()):
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


def step_in_backward(optimizer):
    """From now on `backward` makes the optimizer's steps: a parameter's when its gradient has arrived, while others travel.

    Large gradients travel in pieces, and each piece of the parameter is updated when its own has arrived. For optimizers
    that treat each element by itself (SGD, Adam, AdamW). `optimizer.step()` then finds no gradients.
    """
    for group in optimizer.param_groups:
        for shard in group["params"]:
            shard.storing.optimizer = optimizer, group


def step_alone(shard, of=None):
    """A step of the optimizer for one parameter, or for a part `of` one; its gradient is gone then."""
    optimizer, group = (shard if of is None else of).storing.optimizer
    groups, optimizer.param_groups = optimizer.param_groups, [{**group, "params": [shard]}]
    try:
        with range_named("update", [shard if of is None else of]):
            optimizer.step()
    finally:
        optimizer.param_groups = groups
    shard.grad = None


def step_by_pieces(shard, dim, pieces):
    """Updates a parameter piece by piece, each while the next one's gradient travels."""
    optimizer, _ = shard.storing.optimizer
    state, begin, left = optimizer.state[shard], 0, {}
    if not state and not shard.storing.stateless:  # what the optimizer keeps it makes in its first step, of the whole
        shard.grad = torch.cat([flight.take() for flight in pieces], dim)
        step_alone(shard)
        shard.storing.stateless = not optimizer.state[shard]
        return
    for flight, following in zip(pieces, [*pieces[1:], None]):
        gradient = flight.take()
        if following is not None:
            following.step()
        size = gradient.shape[dim]
        part = shard.detach().narrow(dim, begin, size)
        part.grad = gradient
        optimizer.state[part] = {key: part_of_state(value, shard, dim, begin, size) for key, value in state.items()}
        step_alone(part, shard)
        left, begin = optimizer.state.pop(part), begin + size
    state.update({key: value for key, value in left.items() if not torch.is_tensor(state[key]) or state[key].shape != shard.shape})
    shard.storing.steps += 1


def part_of_state(value, shard, dim, begin, size):
    """Of what the optimizer keeps for each element the part; of the rest a copy, since each part's step counts it on."""
    if torch.is_tensor(value):
        return value.narrow(dim, begin, size) if value.shape == shard.shape else value.clone()
    return value


def pieces_of(moves, x, steps):
    """A dimension that no move touches, and x in equal pieces along it, if x is large and something overlaps: a piece's
    move with another piece's next one, or with the step of the optimizer.
    """
    count = -(-x.nbytes // CHUNK_BYTES)
    touched = {getattr(move, "dim", None) for move in moves}
    free = [dim for dim in range(x.dim()) if dim not in touched and x.shape[dim] >= count]
    plain = all(isinstance(move, all_reduce) or hasattr(move, "dim") and move.view is None for move in moves)
    return (free[0], x.chunk(count, free[0])) if count > 1 and len(moves) > (0 if steps else 1) and plain and free else (0, [x])


class Flight:
    """x on its way through moves, beside the computing: on a GPU on a stream for what travels, loads or gradients."""

    @torch.no_grad()
    def __init__(self, moves, x, what):
        self.moves, self.event = list(moves), None
        if x.is_cuda:
            stream = side_stream(x.device, what)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.x = run(moves, x)
            x.record_stream(stream)
            self.moves, self.event = [], stream.record_event()
        else:
            self.x = self.moves[0].begin(x) if self.moves else x

    @torch.no_grad()
    def step(self):
        """Ends a move, and begins the next one."""
        if self.moves:
            x = self.moves.pop(0).end(self.x)
            self.x = self.moves[0].begin(x) if self.moves else x

    def take(self):
        """What arrives."""
        while self.moves:
            self.step()
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)
            self.x.record_stream(torch.cuda.current_stream())
        return self.x


SIDE_STREAMS = {}  # by device and what travels


def side_stream(device, what):
    """The stream on which loads or gradients travel."""
    if (device, what) not in SIDE_STREAMS:
        SIDE_STREAMS[device, what] = torch.cuda.Stream(device)
    return SIDE_STREAMS[device, what]


def range_named(what, shards):
    """A range in traces of torch.profiler."""
    names = [shard.storing.name for shard in shards]
    text = names[0] if len(names) == 1 else f"{len(names)} from {names[0]} to {names[-1]}"
    return torch.autograd.profiler.record_function(f"meshwright: {what} {text}")


def for_training():
    """A context for what is kept: though it be made in inference mode, training can use it."""
    return torch.inference_mode(False)


def age_of(shard):
    """Changes whenever the shard may have changed."""
    return shard._version, shard.storing.steps


def stored_value(shard):
    """What is kept of a parameter from step to step."""
    storing = shard.storing
    if not storing.stored:
        return shard.detach()
    if storing.kept_age != age_of(shard):
        storing.kept = None
        with range_named("gather", [shard]), for_training():
            storing.kept, storing.kept_age = run(storing.stored, shard.detach()), age_of(shard)
    return storing.kept.detach()


def begin_load(shard):
    """Begins to load a parameter, unless that was done."""
    storing = shard.storing
    value = stored_value(shard)
    if storing.flight is not None and storing.flight_age != age_of(shard):
        storing.flight.take()
        storing.flight = None
    if storing.flight is None:
        with range_named("load", [shard]), for_training():
            storing.flight, storing.flight_age = Flight(storing.loaded, value, "loads"), age_of(shard)


def load(shard, phase):
    """A loaded parameter; begins to load the one that came after it in the step before, if that is to be prefetched."""
    begin_load(shard)
    storing = shard.storing
    last, LAST_LOADED[phase] = LAST_LOADED[phase], shard
    if last is not None:
        last.storing.next[phase] = shard
    with range_named("loaded", [shard]):
        value, storing.flight = storing.flight.take(), None
    following = storing.next[phase]
    if following is not None and following.storing.prefetch and following.storing.value is None and following is not shard:
        begin_load(following)
    return value


def value_in_forward(shard):
    """What is computed with; of several uses in a forward, the first loads it."""
    storing = shard.storing
    if not storing.loaded:
        return stored_value(shard)
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
