import math

import torch
import torch.nn.functional as F

from sharding import kept


def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False,
                                 queries=None, rows=None, training=True, stream=""):
    """Attention of this rank's queries; keys and values have all positions.

    queries  which positions are here, for the causal mask, where they are cut
    rows     which rows of all queries [.., l] are here, for dropout, which draws from `stream` (see `dropout`)
    """
    dropout_p = dropout_p if training else 0.0
    if is_causal and (queries is not None or dropout_p > 0 or attn_mask is not None):
        here = torch.arange(q.shape[-2], device=q.device) if queries is None else queries.here
        allowed = torch.arange(k.shape[-2], device=q.device) <= here[:, None]
        if attn_mask is None:
            attn_mask = allowed
        elif attn_mask.dtype == torch.bool:
            attn_mask = attn_mask & allowed
        else:
            attn_mask = attn_mask.masked_fill(~allowed, -math.inf)
        is_causal = False
    if dropout_p == 0:
        return F.scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) if enable_gqa else x for x in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    row = torch.arange(scores[..., 0].numel(), device=q.device) if rows is None else rows.here
    element = row[:, None] * k.shape[-2] + torch.arange(k.shape[-2], device=q.device)
    keeps = kept(stream, element.view(scores.shape), dropout_p)
    forbidden = scores.amax(-1, keepdim=True) == -math.inf  # where no key is allowed the result is zero
    weights = scores.masked_fill(forbidden, 0).softmax(-1).masked_fill(forbidden | ~keeps, 0)
    return (weights / (1 - dropout_p)) @ v
