import torch

from sharding import largest_over, summed_over


class Extremum(torch.autograd.Function):
    """See extremum."""

    @staticmethod
    def forward(ctx, x, largest, dim, keepdim, cut_by):
        found = x.amax(dim, keepdim=True) if largest else -x.amin(dim, keepdim=True)
        found = largest_over(found, cut_by)
        found = found if largest else -found
        ctx.save_for_backward(x, found)
        ctx.dim, ctx.keepdim, ctx.cut_by = dim, keepdim, cut_by
        return found.clone() if keepdim else squeezed(found, dim)

    @staticmethod
    def backward(ctx, gradient):
        x, found = ctx.saved_tensors
        ones = (x == found).to(x.dtype)
        count = summed_over(ones.sum(ctx.dim, keepdim=True), ctx.cut_by)
        return ones * (gradient.reshape(found.shape) / count), None, None, None, None


def extremum(x, dim=(), keepdim=False, axes=(), largest=True):
    """The largest (or smallest) elements along dimensions (none: all), which mesh axes may cut.

    Equal ones share the gradient.
    """
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    return Extremum.apply(x, largest, tuple(d % x.dim() for d in dim) or tuple(range(x.dim())), keepdim, tuple(axes))


def squeezed(x, dim):
    """x without these dimensions."""
    return x.reshape([size for i, size in enumerate(x.shape) if i not in dim])
