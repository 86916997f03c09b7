"""What would go wrong on shards without a word, refused by a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.utils import clip_grad
from torch.optim.optimizer import register_optimizer_step_pre_hook

_installed = False


def install() -> None:
    """From now on, PyTorch's gradient clipping and optimizers refuse shards that they would treat as whole. Once is enough."""
    global _installed
    if _installed:
        return
    _installed = True
    clip = clip_grad._clip_grads_with_norm_

    # clip_grad_norm_ calls it by its name in the module, so an import of clip_grad_norm_ from before is seen too.
    def clip_grads(parameters: torch.Tensor | Iterable[torch.Tensor], *args: Any, **kwargs: Any) -> None:
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if any(is_cut(parameter) for parameter in parameters):
            raise ValueError("torch.nn.utils.clip_grad_norm_ takes the norm of this rank's shards for that of the gradients; call "
                             "model.clip_grad_norm_(max_norm) of the sharded model")
        clip(parameters, *args, **kwargs)

    clip_grad._clip_grads_with_norm_ = clip_grads
    register_optimizer_step_pre_hook(_check_optimizer)


def is_cut(parameter: Any) -> bool:
    """Whether it is a rank's part of a parameter."""
    sharding = getattr(parameter, "sharding", None)
    return sharding is not None and tuple(parameter.shape) != tuple(sharding.shape)


def _check_optimizer(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Raises ValueError for an optimizer that computes an element's step of more than that element, if it has shards."""
    if "meshwright_by_elements" not in optimizer.__dict__:
        optimizer.__dict__["meshwright_by_elements"] = not any(
            is_cut(parameter) for group in optimizer.param_groups for parameter in group["params"]) or _by_elements(optimizer)
    if not optimizer.__dict__["meshwright_by_elements"]:
        raise ValueError(f"{type(optimizer).__name__} looks at whole matrices or norms of them, and a rank has shards: its steps would be "
                         "others than on one device; take an optimizer that treats each element by itself, such as AdamW, or a plan "
                         "without shards (ZeRO 0, data parallel)")


def _by_elements(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the same kind of optimizer, with the same settings, makes the same steps of a matrix and of its two halves."""
    kind = type(optimizer)
    generator = torch.Generator().manual_seed(0)
    whole = torch.randn(4, 6, generator=generator, device="cpu")
    gradients = [torch.randn(4, 6, generator=generator, device="cpu") * scale for scale in (1.0, 3.0, 0.2)]

    def stepped(cut: slice) -> torch.Tensor:
        parameter = torch.nn.Parameter(whole[:, cut].clone())
        probe = kind([parameter], **_settings(optimizer))
        for gradient in gradients:
            parameter.grad = gradient[:, cut].clone()
            probe.step()
        return parameter.detach()

    try:
        return torch.allclose(stepped(slice(0, 6)), torch.cat([stepped(slice(0, 3)), stepped(slice(3, 6))], 1), rtol=1e-6, atol=1e-7)
    except Exception:  # it can't be made like this: known by name, or taken for one of the many that go by elements
        return not any(name in kind.__name__.lower() for name in ("adafactor", "muon", "shampoo", "soap", "lamb", "lars", "lbfgs", "galore"))


def _settings(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What the constructor takes of the optimizer's settings."""
    import inspect

    takes = inspect.signature(type(optimizer).__init__).parameters
    return {key: value for key, value in optimizer.defaults.items() if key in takes}
