import math

import torch
import torch.distributed as dist

from .mesh import device
from .moves import waited

RANDOM = {"step": None}  # what this forward's random numbers depend on, an integer in a tensor; None before the first one

SPLIT_MIX_STEP = 0x9E3779B97F4A7C15


def begin_step():
    """Begins a forward with random numbers of its own. They come from rank 0's generator: torch.manual_seed repeats them."""
    step = torch.randint(1 << 62, (), device="cpu").to(device())
    RANDOM["step"] = waited(torch.ops._c10d_functional.broadcast(step, 0, dist.group.WORLD.group_name))


class at_step:
    """A context in which random numbers are those of a forward that began earlier."""

    def __init__(self, step):
        self.step = step

    def __enter__(self):
        self.before, RANDOM["step"] = RANDOM["step"], self.step

    def __exit__(self, *_):
        RANDOM["step"] = self.before


def same_numbers():
    """A context in which random numbers are those of the forward that goes on."""
    return at_step(RANDOM["step"])


def generator_state():
    """The state of rank 0's generator, on every rank."""
    state = torch.get_rng_state().to(device())
    return waited(torch.ops._c10d_functional.broadcast(state, 0, dist.group.WORLD.group_name)).cpu()


def int64(number):
    """The number with the same 64 bits that has a sign."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def split_mix(x):
    """Mixes the bits of each element (SplitMix64; Steele, Lea, Flood 2014)."""
    x = (x ^ shifted(x, 30)) * int64(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * int64(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def shifted(x, bits):
    """x shifted to the right, zeros coming in."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def uniform(stream, elements):
    """For each global element a number in [0, 1) that depends on nothing but the stream, the step and the element."""
    key = 0xCBF29CE484222325
    for byte in stream.encode():
        key = (key ^ byte) * 0x100000001B3 % (1 << 64)
    step = 0 if RANDOM["step"] is None else RANDOM["step"]
    key = split_mix(torch.as_tensor(int64(key), device=elements.device) + step)
    return shifted(split_mix(key + elements * int64(SPLIT_MIX_STEP)), 11).to(torch.float64) * 2.0**-53


def kept(stream, elements, p):
    """Which elements dropout with probability p keeps."""
    return uniform(stream, elements) >= p


def drawn_alike(draw, stream):
    """What `draw` makes with PyTorch's own generator, which is seeded alike on every rank, and then put back."""
    seed = int(uniform(stream, torch.zeros(1, dtype=torch.int64, device=device())) * 2.0**53)
    with torch.random.fork_rng([device()] if device().type == "cuda" else []):
        torch.manual_seed(seed)
        return draw()
