import math
from collections.abc import Callable
import torch
from torch import Tensor
from torch.nn import functional as F


def causal_mask(n, device=None):
    return ~torch.triu(torch.ones((n, n), device=device, dtype=torch.bool), diagonal=1)


def to_additive(mask, dtype=torch.float32):
    return mask.to(dtype).log()


def to_blocked(mask):
    return torch.logical_not(mask)


def leaks(f, x, t):
    moved = x.detach().clone()
    moved[..., t:, :] += 1 + torch.rand_like(moved[..., t:, :])
    return bool((f(moved) != f(x))[..., :t, :].any())


def diagnose_mask(f):
    x = torch.zeros(4, 4)
    output, weights = f(x)
    if output[0].isnan().any() or weights[1, 1] == 0:
        return "self_blocked"
    if (weights.sum(-1) - 1).abs().max() > 1e-3:
        return "post_softmax"

    def moves(token):
        other = x.clone()
        other[token] = 3.0
        return bool((f(other)[0][0] != output[0]).any())

    if moves(3):
        return "unmasked"
    return "off_by_one" if moves(1) else "ok"


def padding_mask(lengths, n):
    place = torch.arange(n, device=lengths.device).view(1, 1, 1, n)
    return lengths.view(-1, 1, 1, 1) > place


def combine_masks(causal, padding):
    batch, n = padding.shape[0], causal.shape[-1]
    return torch.logical_and(causal.expand(batch, 1, n, n), padding.expand(batch, 1, n, n))


def safe_attention(query, key, value, mask):
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    lowest = torch.finfo(scores.dtype).min
    top = scores.masked_fill(~mask, lowest).amax(-1, keepdim=True)
    shares = torch.where(mask, scores - top, lowest).exp() * mask
    total = shares.sum(-1, keepdim=True)
    weights = shares / torch.where(total == 0, torch.ones_like(total), total)
    return weights @ value, weights


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
    return ids[..., :-1].clone(), ids.roll(-1, dims=1)[..., :-1]


def next_token_loss(model, ids):
    logits = model(ids[:, :-1])
    return torch.nn.CrossEntropyLoss()(logits.transpose(1, 2), ids[:, 1:])


step = 0
while step < 10:
    loss = next_token_loss(lambda ids: torch.zeros(*ids.shape, 5), torch.randint(0, 5, (2, 4)))
