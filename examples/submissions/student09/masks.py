import math
from collections.abc import Callable
import torch
from torch import Tensor
from torch.nn import functional as F


def causal_mask(n, device=None):
    place = torch.arange(n, device=device)
    return place[None, :] <= place[:, None]


def to_additive(mask, dtype=torch.float32):
    nothing = torch.zeros((), dtype=dtype, device=mask.device)
    return torch.where(mask, nothing, nothing - math.inf)


def to_blocked(mask):
    return to_blocked(mask)


def leaks(f, x, t):
    before = f(x)[..., :t, :]
    worst = 0.0
    for _ in range(3):
        after = f(torch.cat([x[..., :t, :], 5 * torch.randn_like(x[..., t:, :])], dim=-2))[..., :t, :]
        worst = max(worst, (after - before).abs().max().item())
    return worst > 0


def diagnose_mask(f):
    _, weights = f(torch.randn(5, 3, dtype=torch.float64))
    if weights.isnan().any() or (weights.diagonal()[1:] == 0).all():
        return "self_blocked"
    above = weights.triu(1)
    if (above.triu(2) > 0).any():
        return "unmasked"
    if (above > 0).any():
        return "off_by_one"
    return "ok" if torch.allclose(weights.sum(-1), torch.ones(5, dtype=torch.float64)) else "post_softmax"


def padding_mask(lengths, n):
    mask = torch.zeros(len(lengths), 1, 1, n, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, 0, 0, :length] = True
    return mask


def combine_masks(causal, padding):
    return causal[None, None] * padding


def safe_attention(query, key, value, mask):
    alive = mask.any(dim=-1, keepdim=True)
    scores = torch.einsum("...nd,...md->...nm", query, key) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask & alive, -math.inf).softmax(-1) * alive
    return torch.einsum("...nm,...mv->...nv", weights, value), weights


def visibility(kind, n_source, n_target):
    everything = torch.ones(n_source, n_source).bool()
    past = torch.arange(n_target)[:, None] >= torch.arange(n_target)
    if kind == "encoder":
        return {"encoder": everything}
    elif kind == "decoder":
        return {"decoder": past}
    elif kind == "encoder-decoder":
        return {"encoder": everything, "decoder": past, "cross": torch.full((n_target, n_source), True)}
    else:
        raise ValueError("no such family")


def shift_targets(ids):
    n = ids.shape[1] - 1
    return ids.narrow(1, 0, n), ids.narrow(1, 1, n).contiguous()


def next_token_loss(model, ids):
    log_probs = model(ids[:, :-1]).log_softmax(-1)
    return -log_probs.gather(-1, ids[:, 1:, None]).mean()
