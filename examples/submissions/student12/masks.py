from attention import attention
import math
from collections.abc import Callable
import torch
from torch import Tensor
from torch.nn import functional as F


def causal_mask(n, device=None):
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def to_blocked(mask):
    return ~mask


def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :])


def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 2]:
        return "unmasked"
    if seen[0, 1]:
        return "off_by_one"
    return "ok" if weights[0, 0] > 0.9 else "post_softmax"


def padding_mask(lengths, n):
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    return real[:, None, None]


def combine_masks(causal, padding):
    return causal & padding


def safe_attention(query, key, value, mask):
    return attention(query, key, value, mask)


def visibility(kind, n_source, n_target):
    raise NotImplementedError("visibility: replace this line with your code")


def shift_targets(ids):
    raise NotImplementedError("shift_targets: replace this line with your code")


def next_token_loss(model, ids):
    raise NotImplementedError("next_token_loss: replace this line with your code")
