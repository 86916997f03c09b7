import torch

from .flights import Flight, range_named
from .moves import Collective, all_reduce, route

BUCKET_BYTES = 25_000_000  # so much is reduced together; an emitted program has what its plan says

FIRST_BYTES = 1 << 20  # of the first gradients that are reduced together, so that something travels early

CHUNK_BYTES = 16 << 20  # what is larger than a bucket is reduced in pieces of this size, where several moves can overlap

REDUCTIONS = {}  # by backward pass: the Reductions of its gradients

STEP = {"microbatch": 0, "microbatches": 1}  # which of a step's microbatches is computed, and how many it has

SUMS = {}  # by shard: the gradient of the step's microbatches so far


def microbatches(count):
    """The numbers of a step's microbatches, for a loop that computes the forward and the backward of each.

    Meanwhile gradients add up in the dtype in which they are reduced, and reach .grad in the last one's backward.
    """
    SUMS.clear()  # of a step that was left
    try:
        for number in range(count):
            STEP.update(microbatch=number, microbatches=count)
            yield number
    finally:
        STEP.update(microbatch=0, microbatches=1)


def is_last_microbatch():
    """Whether gradients go to .grad in this backward."""
    return STEP["microbatch"] + 1 == STEP["microbatches"]


def summed_up(shard, gradient):
    """The sum of the shard's gradients in this step, with one more, which it may keep and change."""
    total = SUMS[shard] = gradient if shard not in SUMS else SUMS[shard].add_(gradient)
    return total


def reductions():
    """The Reductions of the backward that is going on."""
    task = torch._C._current_graph_task_id()
    if task not in REDUCTIONS:
        REDUCTIONS[task] = Reductions()
        torch.autograd.Variable._execution_engine.queue_callback(lambda: REDUCTIONS.pop(task).end())
    return REDUCTIONS[task]


class Reductions:
    """The gradients of one backward pass: reduced while it goes on, added to .grad when it ends."""

    def __init__(self):
        self.sums = {}  # by shard: the gradient so far, of how many uses
        self.here = {}  # by shard: a gradient that goes nowhere
        self.packs = {}  # by route and dtype: gradients that go together, with their shards, and their bytes
        self.begun = []  # shards, and the flight of their gradients; or those of a gradient's pieces, and their dimension

    def add(self, shard, gradient):
        """The gradient of one use."""
        total, count = self.sums.get(shard, (None, 0))
        self.sums[shard] = gradient if total is None else total + gradient, count + 1
        if count + 1 >= shard.storing.uses:
            self.begin_sum(shard)

    def begin_sum(self, shard):
        """Sends the sum of the gradients of a shard's uses on its way."""
        gradient, count = self.sums.pop(shard)
        shard.storing.uses = 0
        self.begin(shard, gradient, own=count > 1)

    def begin(self, shard, gradient, own):
        """Sends a shard's gradient on its way. `own`: nobody else reads it, so it may be kept and changed."""
        storing, moves = shard.storing, shard.storing.reduced
        waits = storing.once and STEP["microbatches"] > 1
        if storing.summed or (waits or not moves) and not own:
            gradient = gradient.to(storing.summed or gradient.dtype, copy=(waits or not moves) and not own)
        if waits:
            gradient = summed_up(shard, gradient)
            if not is_last_microbatch():
                return
            del SUMS[shard]
        self.send(shard, gradient, moves)

    def send(self, shard, gradient, moves):
        """Sends what is to be reduced on its way, together with others of its route when they fill a bucket."""
        if not moves:
            before = self.here.get(shard)
            self.here[shard] = gradient if before is None else before.to(shard.dtype) + gradient
            return
        size, storing = gradient.nbytes, shard.storing
        if storing.way is None or storing.way[0] is not moves:  # which stay the same
            storing.way = moves, route(moves), any(isinstance(move, Collective) for move in moves)
        _, way, meets = storing.way
        if size < BUCKET_BYTES and meets:
            pack = self.packs.setdefault((way, gradient.dtype), [[], [], 0])
            pack[0].append(shard)
            pack[1].append(gradient)
            pack[2] += size
            if pack[2] >= (BUCKET_BYTES if self.begun else min(FIRST_BYTES, BUCKET_BYTES)):
                self.send_pack(way, gradient.dtype)
            return
        with range_named("reduce", [shard]):
            dim, pieces = pieces_of(moves, gradient, storing.optimizer is not None)
            self.begun.append(([shard], [Flight([moves], [piece], "gradients") for piece in pieces], dim))

    def send_pack(self, way, dtype):
        """Sends gradients on their way together."""
        shards, gradients, _ = self.packs.pop((way, dtype))
        with range_named("reduce", shards):
            flight = Flight([shard.storing.reduced for shard in shards], gradients, "gradients")
            self.begun.append((shards, [flight], 0))

    @torch.no_grad()
    def end(self):
        """Waits for all of them."""
        for shard in list(self.sums):
            self.begin_sum(shard)
        if is_last_microbatch():  # what the last one did not use
            for shard in [shard for shard in SUMS if shard.storing.once]:
                self.send(shard, SUMS.pop(shard), shard.storing.reduced)
        for way, dtype in list(self.packs):
            self.send_pack(way, dtype)
        arrive_together(self.here)
        flights = [flight for _, pieces, _ in self.begun for flight in pieces]
        for _ in range(max((len(flight.stages) for flight in flights), default=0)):
            for flight in flights:
                flight.step()
        for shards, pieces, dim in self.begun:
            storing = shards[0].storing
            whole = storing.once or STEP["microbatches"] == 1  # else it is the gradient of one microbatch
            if len(pieces) > 1 and storing.optimizer and whole and shards[0].grad is None and not has_hooks(shards[0]):
                step_by_pieces(shards[0], dim, pieces)
                continue
            with range_named("reduced", shards):
                made = [flight.take() for flight in pieces]
                gradients = made[0] if len(made) == 1 else [torch.cat([piece for piece, in made], dim)]
                for shard, gradient in zip(shards, gradients):
                    arrive(shard, gradient if gradient.shape == shard.shape else gradient.view(shard.shape))
        if is_last_microbatch():  # what earlier ones reduced
            give_together(SUMS)


def arrive(shard, gradient):
    """Takes a reduced gradient, which is the step's or one microbatch's."""
    if STEP["microbatches"] > 1 and not shard.storing.once:
        summed_up(shard, gradient)
    else:
        give(shard, gradient)


def arrive_together(gradients):
    """As `arrive`, for many shards and their gradients; takes these out."""
    if STEP["microbatches"] == 1:
        give_together(gradients)
        return
    sums = {}  # by dtypes: sums, and what is added to them
    for shard, gradient in taken_out(gradients):
        if shard.storing.once or shard not in SUMS:
            arrive(shard, gradient)
        else:
            totals, more = sums.setdefault((SUMS[shard].dtype, gradient.dtype), ([], []))
            totals.append(SUMS[shard])
            more.append(gradient)
    for totals, more in sums.values():
        torch._foreach_add_(totals, more)


def taken_out(gradients):
    """Shards and their gradients, each of which is then held no longer."""
    for shard in list(gradients):
        yield shard, gradients.pop(shard)


def give_together(gradients):
    """As `give`, for many shards and their gradients: by one op for many, where nothing is to be called for each. Takes them out."""
    chunks = {}  # by dtypes, and by whether there are gradients already: shards, their gradients, and the bytes of these
    for shard, gradient in taken_out(gradients):
        if gradient.dtype == shard.dtype and shard.grad is None or shard.storing.optimizer or has_hooks(shard):
            give(shard, gradient)
            continue
        kind = gradient.dtype, shard.dtype, shard.grad is None
        chunk = chunks.setdefault(kind, [[], [], 0])
        chunk[0].append(shard)
        chunk[1].append(gradient)
        chunk[2] += gradient.nbytes
        if chunk[2] >= CHUNK_BYTES:
            give_chunk(*chunks.pop(kind)[:2])
    for shards, more, _ in chunks.values():
        give_chunk(shards, more)


def give_chunk(shards, gradients):
    """As `give`, by one op, for shards of one dtype and gradients of one, of which all or none have a gradient already."""
    made = gradients
    if gradients[0].dtype != shards[0].dtype:
        made = [torch.empty_like(gradient, dtype=shards[0].dtype) for gradient in gradients]
        torch._foreach_copy_(made, gradients)
    if shards[0].grad is not None:
        torch._foreach_add_([shard.grad for shard in shards], made)
        return
    for shard, gradient in zip(shards, made):
        shard.grad = gradient


def give(shard, gradient):
    """Puts the gradient where optimizers look for it."""
    gradient = gradient if gradient.dtype == shard.dtype else gradient.to(shard.dtype)
    if shard._backward_hooks:
        gradient = hooked(shard, gradient)
    shard.grad = gradient if shard.grad is None else shard.grad.add_(gradient)
    if shard._post_accumulate_grad_hooks:
        for hook in list(shard._post_accumulate_grad_hooks.values()):
            hook(shard)
    if shard.storing.optimizer:
        step_alone(shard)


def has_hooks(shard):
    """Whether something is to be called when its gradient is there."""
    return bool(shard._backward_hooks or shard._post_accumulate_grad_hooks)


def hooked(shard, gradient):
    """What the shard's hooks (register_hook) make of its gradient."""
    for hook in list(shard._backward_hooks.values()):
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
        shard.grad = torch.cat([flight.take()[0] for flight in pieces], dim).to(shard.dtype)
        step_alone(shard)
        shard.storing.stateless = not optimizer.state[shard]
        return
    for flight, following in zip(pieces, [*pieces[1:], None]):
        gradient = flight.take()[0].to(shard.dtype)
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
