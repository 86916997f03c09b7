import functools

import torch
from torch.utils.checkpoint import checkpoint

from .loads import Held
from .random import same_numbers


class as_before:
    """A context in which something is computed again for the backward: with the random numbers and the parameters that it had."""

    def __init__(self, held):
        self.contexts = held, same_numbers()

    def __enter__(self):
        for each in self.contexts:
            each.__enter__()

    def __exit__(self, *error):
        for each in self.contexts:
            each.__exit__(*error)


def contexts_of_both():
    """The contexts in which a block is computed, and computed again in the backward."""
    held = Held()
    return held, as_before(held)


@functools.partial(torch.compiler.disable, recursive=False)  # these contexts can't be compiled; the block is
def recomputed(block, *inputs):
    """What the block gives; its backward computes it again."""
    return checkpoint(block, *inputs, use_reentrant=False, context_fn=contexts_of_both)
