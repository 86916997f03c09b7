import torch
import torch.nn.functional as F

from cases import MESHES, case, close, cut_if, draw, leaf, positions_of
from prelude.layout import Layout, whole_of
from prelude.mesh import axes
from sharding import cross_entropy, nll_loss


@case(on=MESHES)
def test_cross_entropy_over_cut_classes():
    n, c = 16, 10
    for reduction in ("mean", "sum", "none"):
        for weighted in (False, True):
            for both in (False, True):
                logits, target = (draw(n, c) * 3).requires_grad_(), torch.randint(c, (n,))
                target[torch.rand(n) < 0.3] = -100
                weight = draw(c).abs() if weighted else None
                loss = F.cross_entropy(logits, target, weight, reduction=reduction)
                g = draw(*loss.shape)
                loss.backward(g)
                over = (0,) if len(axes()) == 1 else (1,)
                cuts = (1,) if len(axes()) == 1 else (0 if both else None, 1)
                layout = Layout((n, c), cuts, None, (1,))
                of_weight = Layout((c,), tuple(0 if place == 1 else None for place in cuts), None, (0,))
                rows = Layout((n,), tuple(0 if place == 0 else None for place in cuts))
                position_axes = tuple(axis for axis, place in enumerate(cuts) if place == 0)
                here = leaf(layout, logits)
                made = cross_entropy(here, rows.cut(target), cut_if(of_weight, weight), reduction,
                                     class_axes=over, position_axes=position_axes, classes=positions_of(layout, 1, 2))
                made.backward(rows.cut(g) if reduction == "none" else g)
                scalar = Layout((), tuple("sum" if axis in position_axes else None for axis in range(len(axes()))))
                close(whole_of(made.detach(), rows if reduction == "none" else scalar), loss.detach(), reduction)
                close(here.grad, layout.cut(logits.grad), f"gradient, {reduction}")
                if reduction == "mean" and position_axes:
                    here = leaf(layout, logits)
                    made = cross_entropy(here, rows.cut(target), cut_if(of_weight, weight), class_axes=over, position_axes=position_axes,
                                         classes=positions_of(layout, 1, 2), summed=True)
                    made.backward(g)
                    close(made.detach(), loss.detach(), "the mean of all")
                    close(here.grad, layout.cut(logits.grad), "gradient, the mean of all")


@case(on=MESHES)
def test_cross_entropy_over_cut_positions():
    for shape in ((8, 5), (8, 5, 3)):
        for kind in ("labels", "weights", "smoothed", "smoothed and weights", "probabilities"):
            logits = draw(*shape).requires_grad_()
            cuts = (0,) * len(axes())
            rows = Layout((8,) + shape[2:], cuts)
            layout = Layout(shape, cuts)
            if kind == "probabilities":
                target, rows = draw(*shape).softmax(1), layout
            else:
                target = torch.randint(5, (8,) + shape[2:])
                target[0] = 3
                target.view(-1)[5] = 3 if kind == "smoothed" else -100
            weight = draw(5).abs() if "weights" in kind else None
            smoothing = 0.1 if "smoothed" in kind else 0.0
            for reduction in ("mean", "sum"):
                loss = F.cross_entropy(logits, target, weight, reduction=reduction, label_smoothing=smoothing)
                gradient, = torch.autograd.grad(loss, logits)
                here = leaf(layout, logits)
                made = cross_entropy(here, rows.cut(target), weight, reduction, label_smoothing=smoothing,
                                     position_axes=tuple(range(len(axes()))))
                made.backward()
                close(whole_of(made.detach(), Layout((), ("sum",) * len(axes()))), loss.detach(), f"{kind} {reduction}")
                close(here.grad, layout.cut(gradient), f"gradient, {kind} {reduction}")
            here = leaf(layout, logits)
            mean = F.cross_entropy(logits, target, weight, label_smoothing=smoothing)
            made = cross_entropy(here, rows.cut(target), weight, label_smoothing=smoothing, position_axes=tuple(range(len(axes()))),
                                 summed=True)
            made.backward()
            close(made.detach(), mean.detach(), f"{kind}, the mean of all")
            close(here.grad, layout.cut(torch.autograd.grad(mean, logits)[0]), f"gradient, {kind}, the mean of all")


@case(on=MESHES)
def test_cross_entropy_refuses_a_label_outside():
    layout = Layout((4, 10), (None,) * (len(axes()) - 1) + (1,), None, (1,))
    try:
        cross_entropy(layout.cut(draw(4, 10)), torch.tensor([1, 2, 3, 10]), class_axes=(len(axes()) - 1,),
                      classes=positions_of(layout, 1, 2))
    except RuntimeError as error:
        assert "outside of the classes" in str(error)
    else:
        raise AssertionError("a label outside of the classes is refused")


@case(on=MESHES)
def test_nll_loss():
    for shape in ((8, 10), (8, 10, 4)):
        for reduction in ("mean", "sum", "none"):
            for weighted in (False, True):
                x, target = draw(*shape).requires_grad_(), torch.randint(10, (8,) + shape[2:])
                target.view(-1)[::3] = -100
                weight = draw(10).abs() if weighted else None
                loss = F.nll_loss(x, target, weight, reduction=reduction)
                g = draw(*loss.shape)
                loss.backward(g)
                for cuts in {(2, 2): [(0, 1), (1, 0), (1, 1), (0, 0), (None, 1)], (4,): [(0,), (1,)]}[axes()]:
                    layout = Layout(shape, cuts, None, (1,))
                    rows = Layout((8,) + shape[2:], tuple(0 if at == 0 else None for at in cuts))
                    of_weight = Layout((10,), tuple(0 if at == 1 else None for at in cuts), None, (0,))
                    classes = [axis for axis, at in enumerate(cuts) if at == 1]
                    places = [axis for axis, at in enumerate(cuts) if at == 0]
                    here = leaf(layout, x)
                    made = nll_loss(here, rows.cut(target), cut_if(of_weight, weight), reduction, class_axes=classes,
                                    position_axes=places, classes=positions_of(layout, 1, 2) if classes else None)
                    made.backward(rows.cut(g) if reduction == "none" else g)
                    sums = tuple("sum" if axis in classes or axis in places and reduction != "none" else rows.axes[axis]
                                 for axis in range(len(axes())))
                    found = whole_of(made.detach(), Layout(tuple(loss.shape), sums))
                    close(found, loss.detach(), f"{cuts} {reduction}")
                    close(here.grad, layout.cut(x.grad), f"gradient, {cuts} {reduction}")
                    if reduction == "mean" and not classes:
                        here = leaf(layout, x)
                        made = nll_loss(here, rows.cut(target), weight, position_axes=places, summed=True)
                        made.backward(g)
                        close(made.detach(), loss.detach(), f"{cuts}, the mean of all")
                        close(here.grad, layout.cut(x.grad), f"gradient, {cuts}, the mean of all")
