import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from sharding import kept, same_numbers


def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False,
                                 queries=None, rows=None, training=True, stream=""):
    """Attention of this rank's queries; keys and values have all positions.

    queries  which positions are here, for the causal mask, where they are cut
    rows     which rows of all queries [.., l] are here, for dropout, which draws from `stream` (see `dropout`)
    """
    if training and dropout_p > 0:
        if torch.is_autocast_enabled(q.device.type):
            q, k, v = (x.to(torch.get_autocast_dtype(q.device.type)) for x in (q, k, v))
        scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        return DroppedAttention.apply(q, k, v, attn_mask, Weights(dropout_p, is_causal, scale, enable_gqa, queries, rows, stream))
    if is_causal and (queries is not None or attn_mask is not None):
        allowed = causal(q, k, queries)
        if attn_mask is None:
            attn_mask = allowed
        elif attn_mask.dtype == torch.bool:
            attn_mask = attn_mask & allowed
        else:
            attn_mask = attn_mask.masked_fill(~allowed, -math.inf)
        is_causal = False
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        attn_mask = attn_mask.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)


def causal(q, k, queries):
    """Which keys [l, s] each query may see."""
    here = torch.arange(q.shape[-2], device=q.device) if queries is None else queries.here
    return torch.arange(k.shape[-2], device=q.device) <= here[:, None]


@dataclass
class Weights:
    """How queries weigh keys, some of which dropout leaves out (the arguments of scaled_dot_product_attention)."""
    dropout_p: float
    is_causal: bool
    scale: float
    enable_gqa: bool
    queries: object
    rows: object
    stream: str

    def heads(self, q, x):
        """Keys or values, one for each head of the queries."""
        return x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) if self.enable_gqa else x

    def of(self, q, k, mask, row):
        """The weights of the keys, and what dropout makes of each: 0, or 1 / (1 - p)."""
        scores = q @ k.transpose(-2, -1) * self.scale
        if self.is_causal:
            scores = scores.masked_fill(~causal(q, k, self.queries), -math.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.to(scores.dtype)
        forbidden = scores.amax(-1, keepdim=True) == -math.inf  # where no key is allowed the result is zero
        weights = scores.masked_fill(forbidden, 0).softmax(-1).masked_fill(forbidden, 0)
        element = row[..., None] * k.shape[-2] + torch.arange(k.shape[-2], device=q.device)
        return weights, kept(self.stream, element, self.dropout_p).to(weights.dtype) / (1 - self.dropout_p)

    def entries(self, q, k, v, mask):
        """The operands of each entry of the batch: what is made for the scores is there for one of them at a time."""
        row = torch.arange(q[..., 0].numel(), device=q.device) if self.rows is None else self.rows.here
        row = row.view(q.shape[:-1])
        masks = None if mask is None else mask.expand(*q.shape[:-1], k.shape[-2])
        if q.dim() < 4:
            return [(q, k, v, masks, row)]
        return [(q[i], k[i], v[i], None if mask is None else masks[i], row[i]) for i in range(q.shape[0])]


class DroppedAttention(torch.autograd.Function):
    """Attention that drops weights. Its backward takes operands and result, and computes the weights again, as fused kernels do."""

    @staticmethod
    def forward(ctx, q, k, v, mask, weights):
        ctx.weights, ctx.same_numbers = weights, same_numbers()
        with torch.autocast(q.device.type, enabled=False):
            results = []
            for qi, ki, vi, mi, row in weights.entries(q, k, v, mask):
                p, drop = weights.of(qi, weights.heads(qi, ki), mi, row)
                results.append((p * drop) @ weights.heads(qi, vi))
            # Heads lie side by side in memory, as fused kernels leave them.
            result = results[0] if q.dim() < 4 else torch.stack([x.transpose(-3, -2) for x in results]).transpose(-3, -2)
        ctx.save_for_backward(q, k, v, mask, result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, mask, result = ctx.saved_tensors
        weights = ctx.weights
        gradients = []
        with torch.autocast(q.device.type, enabled=False), ctx.same_numbers:
            along = (gradient * result).sum(-1, keepdim=True)
            for (qi, ki, vi, mi, row), g, ai in zip(weights.entries(q, k, v, mask), *([x] if q.dim() < 4 else x for x in (gradient, along))):
                keys, values = weights.heads(qi, ki), weights.heads(qi, vi)
                p, drop = weights.of(qi, keys, mi, row)
                of_p = g @ values.transpose(-2, -1) * drop
                of_scores = p * (of_p - ai)
                scaled = of_scores * weights.scale
                gradients.append((scaled @ keys, of_heads(scaled.transpose(-2, -1) @ qi, ki), of_heads((p * drop).transpose(-2, -1) @ g, vi),
                                  of_scores if ctx.needs_input_grad[3] else None))
        found = [x[0] if x[0] is None or q.dim() < 4 else torch.stack(x) for x in zip(*gradients)]
        return *found[:3], None if found[3] is None else found[3].sum_to_size(mask.shape).to(mask.dtype), None


def of_heads(gradient, x):
    """The gradient of keys or values x, of one for each head of the queries."""
    return gradient if gradient.shape == x.shape else gradient.unflatten(-3, (x.shape[-3], -1)).sum(-3)
