import math
from collections.abc import Callable
import torch
from torch import Tensor


def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.T, dim=0)
    return weights @ x, weights


def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    sums = weights.sum(dim=-1)
    return bool((weights >= 0).all() and ((sums - 1).abs() <= 1e-05).all())


def soft_lookup(query, keys, values, temperature):
    return torch.softmax(temperature * keys @ query, dim=0) @ values


def scores_shared(x, u):
    seen = x @ u
    return seen @ seen.mT


def scores_separate(x, w_query, w_key):
    query, key = (x @ w_query, x @ w_key)
    return query @ key.mT


def dot_variance(d_key, n, generator):
    query = torch.randn(n, d_key, generator=generator)
    key = torch.randn(n, d_key, generator=generator)
    dots = (query * key).sum(dim=-1)
    return dots.var().item(), (dots / math.sqrt(d_key)).var().item()


def softmax_jacobian(logits):
    weights = torch.softmax(logits, dim=-1)
    return weights.diag() - weights.outer(weights)


def attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-2)
    return weights @ value, weights


def equivariance_gap(f, x, order):
    shuffled_first = f(x[..., order, :])
    shuffled_last = f(x)[..., order, :]
    return (shuffled_first - shuffled_last).abs().max().item()


def linearity_probe(f, x):
    return (f(2 * x) - 2 * f(x)).abs().max().item()


def attention_as_matrix(weights, w_value):
    blocks = torch.einsum("nm,de->nemd", weights, w_value)
    return blocks.flatten(2, 3).flatten(0, 1)


def attention_macs(n, d_model):
    return 4 * n * d_model**2, 2 * n**2 * d_model, 8 * n * d_model**2


def score_entries(n):
    return n**2
