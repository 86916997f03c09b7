import math

import torch

from sharding import device, uniform


def rand(size, stream, elements=None, dtype=None, low=0.0, high=1.0):
    """Numbers in [low, high), in a tensor of this size here; `elements`: which of the whole tensor's these are."""
    return filled(size, low + uniform(stream, elements_of(size, elements)) * (high - low), dtype)


def randn(size, stream, elements=None, dtype=None, mean=0.0, std=1.0):
    """Numbers of a normal distribution (Box and Muller 1958), as rand."""
    element = elements_of(size, elements)
    radius = (-2 * torch.log1p(-uniform(stream, 2 * element))).sqrt()
    return filled(size, mean + std * radius * (2 * math.pi * uniform(stream, 2 * element + 1)).cos(), dtype)


def randint(low, high, size, stream, elements=None, dtype=torch.int64):
    """Integers from low to high - 1, as rand."""
    return filled(size, (low + uniform(stream, elements_of(size, elements)) * (high - low)).floor(), dtype)


def exponential(size, stream, elements=None, dtype=None, lambd=1.0):
    """Numbers of an exponential distribution, as rand."""
    return filled(size, -torch.log1p(-uniform(stream, elements_of(size, elements))) / lambd, dtype)


def bernoulli(p, stream, elements=None):
    """Ones with the probabilities in the tensor p, else zeros; as rand."""
    return (uniform(stream, elements_of(p.shape, elements)).view(p.shape) < p).to(p.dtype)


def elements_of(size, elements):
    """The numbers of the elements that are here, of a tensor of this size here."""
    return torch.arange(math.prod(size), device=device()) if elements is None else elements.here


def filled(size, drawn, dtype):
    """The numbers that were drawn in a tensor of this size."""
    return drawn.view(size).to(torch.get_default_dtype() if dtype is None else dtype)
