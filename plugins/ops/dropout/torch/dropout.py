import torch

from sharding import kept


def dropout(x, p=0.5, training=True, stream="", elements=None):
    """Dropout by the number of the global element (`elements`: which are here), so that any layout drops the same."""
    return native_dropout(x, p, training, stream, elements)[0]


def native_dropout(x, p=0.5, training=True, stream="", elements=None):
    """As dropout, and which elements were kept."""
    if not training or p == 0:
        return x, torch.ones_like(x, dtype=torch.bool)
    element = torch.arange(x.numel(), device=x.device) if elements is None else elements.here
    keeps = kept(stream, element, p).view(x.shape)
    return x.masked_fill(~keeps, 0) * (1 / (1 - p) if p < 1 else 0.0), keeps
