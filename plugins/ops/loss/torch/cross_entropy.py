import math

import torch
import torch.nn.functional as F

from sharding import largest_over, mean_over, sum_begun, summed_over


class ShardedCrossEntropy(torch.autograd.Function):
    """The loss of each label, from logits whose classes are cut and never gathered (Megatron-LM, Shoeybi et al. 2019).

    logits [n, c], target [n], weight [c] or None -> loss [n], the labels' weights [n]; on each rank of the axes `over`
    """

    @staticmethod
    def forward(ctx, logits, target, weight, ignore_index, over, classes):
        numbers = logits if logits.dtype == torch.float64 else logits.float()
        if classes is not None and classes.padding():
            numbers = numbers.masked_fill(classes.here < 0, -math.inf)  # what pads the vocabulary
        largest = largest_over(numbers.amax(1), over)
        label = target if classes is None else classes.local(target)
        counts = target != ignore_index
        whole = logits.shape[1] if classes is None else math.prod(classes.atoms)
        torch._assert_async((~counts | ((target >= 0) & (target < whole))).all(), "a label is outside of the classes")
        is_here = counts & (label >= 0)
        label = label.where(is_here, 0)
        zero = numbers.new_zeros(())
        terms = torch.stack([
            (numbers - largest[:, None]).exp().sum(1),
            (numbers.gather(1, label[:, None])[:, 0] - largest).where(is_here, zero),
            (torch.ones_like(largest) if weight is None else weight.to(largest.dtype)[label]).where(is_here, zero)])
        total, of_label, share = summed_over(terms, over)
        ctx.save_for_backward(logits, label, is_here, largest, total, share)
        ctx.classes = classes
        loss = (share * (total.log() - of_label)).where(counts, zero)
        return loss.to(logits.dtype), share.to(logits.dtype)

    @staticmethod
    def backward(ctx, gradient, _):
        logits, label, is_here, largest, total, share = ctx.saved_tensors
        scale = (gradient.to(share.dtype) * share)[:, None]
        made = (logits.to(share.dtype) - largest[:, None]).exp_().mul_(scale / total[:, None])
        if ctx.classes is not None and ctx.classes.padding():
            made.masked_fill_(ctx.classes.here < 0, 0)
        made.scatter_add_(1, label[:, None], -scale * is_here[:, None])
        return made.to(logits.dtype), None, None, None, None, None


class CrossEntropyOfRows(torch.autograd.Function):
    """F.cross_entropy of logits [n, c] and labels, by its kernels. Its backward makes one tensor as large as the logits, where autograd's
    makes two: the gradient of log_softmax's result becomes that of the logits in place.
    """

    @staticmethod
    def forward(ctx, logits, target, weight, reduction, ignore_index):
        logarithms = F.log_softmax(logits, 1)
        ctx.settings = ["none", "mean", "sum"].index(reduction), ignore_index
        loss, total = torch.ops.aten.nll_loss_forward(logarithms, target, weight, *ctx.settings)
        ctx.save_for_backward(logarithms, target, weight, total)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        logarithms, target, weight, total = ctx.saved_tensors
        made = torch.ops.aten.nll_loss_backward(gradient, logarithms, target, weight, *ctx.settings, total)
        torch.ops.aten._log_softmax_backward_data.out(made, logarithms, 1, logarithms.dtype, out=made)
        return made, None, None, None, None


def whole_cross_entropy(logits, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    """F.cross_entropy, in less memory where that can be."""
    casts = torch.is_autocast_enabled(logits.device.type)
    if casts or logits.dim() != 2 or target.is_floating_point() or label_smoothing != 0 or torch.compiler.is_compiling():
        return F.cross_entropy(logits, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
    return CrossEntropyOfRows.apply(logits, target, weight, reduction, ignore_index)


def cross_entropy(logits, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0, class_axes=(),
                  position_axes=(), classes=None, summed=False):
    """Cross entropy of this rank's logits [n, c, ..].

    class_axes     mesh axes that cut the classes (logits [n, c] with labels, not smoothed); `classes`: which are here
    position_axes  those that cut the labels: a loss that is reduced is an addend of each of their ranks, and a mean is
                   over the labels of them all
    summed         the mean itself is wanted, on each rank, and not this rank's addend
    """
    if class_axes:
        loss, share = ShardedCrossEntropy.apply(logits, target, weight, ignore_index, class_axes, classes)
        if reduction == "none":
            return loss
        if summed:
            return mean_over(loss.sum(), share.detach().sum(), position_axes)
        return loss.sum() / summed_over(share.sum(), position_axes) if reduction == "mean" else loss.sum()
    sums = reduction == "mean" and position_axes
    if sums and target.is_floating_point():  # probabilities: every position counts
        count = logits.new_tensor(logits.numel() // logits.shape[min(1, logits.dim() - 1)])
    elif sums:
        count = labels_weight(target, weight, ignore_index, logits.dtype)
    total = sum_begun(count, position_axes) if sums and not summed else None
    loss = whole_cross_entropy(logits, target, weight, "sum" if sums else reduction, ignore_index, label_smoothing)
    if summed:
        return mean_over(loss, count, position_axes)
    return loss / total() if sums else loss


def labels_weight(target, weight, ignore_index, dtype):
    """How many labels are not ignored, or the sum of their weights."""
    counts = target != ignore_index
    return counts.sum().to(dtype) if weight is None else weight.to(dtype)[target.where(counts, 0)].where(counts, 0).sum()
