import math
from collections.abc import Callable
import torch
from torch import Tensor
from torch.nn import functional as F


def causal_mask(n, device=None):
    return torch.ones(n, n, dtype=torch.bool).tril()


def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


def to_blocked(mask):
    return mask.logical_not_()


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
    return (torch.arange(n) < lengths[:, None])[:, None, None, :]


def combine_masks(causal, padding):
    return causal & padding


def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(f"there is no family {kind!r}; there is {', '.join(families)}")
    return families[kind]


def shift_targets(ids):
    return ids[:, :-1], ids[:, 1:]


def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
