import math

import torch

from sharding import axes, leave, summed_over


class ShardedBatchNorm(torch.autograd.Function):
    """Normalization over the batches of all ranks of some mesh axes; each pass adds up two numbers for each channel, by one
    collective.

    Each rank takes the deviations from its own mean. Of the ranks' means the squares are added up, which loses digits, so
    that is done in float64. Gives the result, mean, 1/deviation and variance.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, eps, over):
        others = [d for d in range(x.dim()) if d != 1]
        numbers = x if x.dtype == torch.float64 else x.float()
        ranks = ranks_of(over)
        count = x.numel() // x.shape[1] * ranks
        own = numbers.mean(others)
        squares = (numbers - along_channels(own, x)).square().mean(others) + own.double().square()
        mean, squares = summed_over(torch.stack([own.double(), squares]), over) / ranks
        variance = (squares - mean.square()).clamp(min=0).to(own.dtype)
        mean = mean.to(own.dtype)
        invstd = (variance + eps).rsqrt()
        scale = invstd if weight is None else invstd * weight
        y = (numbers - along_channels(mean, x)) * along_channels(scale, x)
        y = y if bias is None else y + along_channels(bias, x)
        ctx.save_for_backward(x, weight, mean, invstd)
        ctx.count, ctx.over, ctx.others, ctx.bias_dtype = count, over, others, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(mean, invstd, variance)
        return y.to(x.dtype), mean, invstd, variance

    @staticmethod
    def backward(ctx, gradient, *_):
        x, weight, mean, invstd = ctx.saved_tensors
        gradient = gradient.to(mean.dtype)
        y = (x.to(mean.dtype) - along_channels(mean, x)) * along_channels(invstd, x)
        here = torch.stack([gradient.sum(ctx.others), (gradient * y).sum(ctx.others)])
        sums = summed_over(here, ctx.over) / ctx.count
        scale = invstd if weight is None else invstd * weight
        of_x = (gradient - along_channels(sums[0], x) - y * along_channels(sums[1], x)) * along_channels(scale, x)
        of_weight = None if weight is None else here[1].to(weight.dtype)
        of_bias = None if ctx.bias_dtype is None else here[0].to(ctx.bias_dtype)
        return of_x.to(x.dtype), of_weight, of_bias, None, None


def ranks_of(over):
    """How many ranks meet along these mesh axes."""
    return math.prod(axes()[axis] for axis in over)


def along_channels(numbers, x):
    """A number for each channel of x [n, c, ..], in a shape that is broadcast to x."""
    return numbers.view(1, -1, *[1] * (x.dim() - 2))


def batch_norm(x, weight, bias, running_mean, running_var, training=True, momentum=0.1, eps=1e-5, axes=()):
    """Batch normalization of x [n, c, ..], of which mesh axes may cut all but the channels.

    Gives the result, mean and 1/deviation (empty when not training), and the running mean and variance as they are
    afterwards. The gradients of weight and bias are addends of each rank of `axes`.
    """
    if not training or not axes:
        running = [None if numbers is None else numbers.clone() for numbers in (running_mean, running_var)]
        return *torch.native_batch_norm(x, weight, bias, *running, training, momentum, eps), *running
    y, mean, invstd, variance = ShardedBatchNorm.apply(x, weight, bias, eps, tuple(axes))
    if running_mean is not None:
        count = x.numel() // x.shape[1] * ranks_of(axes)
        running_mean = running_mean.lerp(mean.to(running_mean.dtype), momentum)
        running_var = running_var.lerp((variance * (count / (count - 1))).to(running_var.dtype), momentum)
    return y, mean, invstd, running_mean, running_var


def batch_norm_left(x, weight, bias, running_mean, running_var, training=True, momentum=0.1, eps=1e-5, axes=()):
    """The result of batch_norm, which leaves the running mean and variance where they are; not again in the backward (see `leave`)."""
    if not training or not axes:
        if training and torch._C._current_graph_task_id() != -1:
            running_mean, running_var = (None if numbers is None else numbers.clone() for numbers in (running_mean, running_var))
        return torch.batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, torch.backends.cudnn.enabled)
    y, _, _, *afterwards = batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps, axes)
    for numbers, changed in zip((running_mean, running_var), afterwards):
        if numbers is not None:
            leave(numbers, changed)
    return y
