import math

import torch
import torch.nn.functional as F

from sharding import mean_over, summed_over


def nll_loss(x, target, weight=None, reduction="mean", ignore_index=-100, class_axes=(), position_axes=(),
             classes=None, summed=False):
    """The negative of each label's number among this rank's x [n, c, ..].

    classes        which classes are here, where they are cut: the loss is an addend of each rank that has some
    class_axes     mesh axes that cut them, and with them the weight
    position_axes  those that cut the labels: a loss that is reduced is an addend, and a mean is over the labels of all
    summed         the mean itself is wanted, on each rank, and not this rank's addend
    """
    if classes is None and (reduction != "mean" or not position_axes):
        return F.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=reduction)
    dim = min(1, x.dim() - 1)
    whole = x.shape[dim] if classes is None else math.prod(classes.atoms)
    is_label = (target == ignore_index) | ((target >= 0) & (target < whole))
    torch._assert_async(is_label.all(), "a label is outside of the classes")
    label = target if classes is None else classes.local(target)
    is_here = (target != ignore_index) & (label >= 0)
    label = label.where(is_here, 0)
    loss = -x.gather(dim, label.unsqueeze(dim)).squeeze(dim)
    loss = (loss if weight is None else loss * weight[label]).where(is_here, 0)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    over = (*position_axes, *(class_axes if weight is not None else ()))
    count = labels_count(target, weight, ignore_index, classes, x.dtype)
    return mean_over(loss.sum(), count, over) if summed else loss.sum() / summed_over(count, over)


def labels_count(target, weight, ignore_index, classes, dtype):
    """How many labels are not ignored, or the sum of their weights, of those classes that are here."""
    counts = target != ignore_index
    if weight is None:
        return counts.sum().to(dtype)
    label = target if classes is None else classes.local(target)
    is_here = counts & (label >= 0)
    return weight.to(dtype)[label.where(is_here, 0)].where(is_here, 0).sum()
