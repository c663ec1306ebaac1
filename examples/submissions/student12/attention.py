import math
from collections.abc import Callable
import torch
from torch import Tensor


def dot_product_self_attention(x):
    scores = x @ x.mT
    weights = torch.softmax(scores, dim=-1)
    return weights @ x, weights


def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    sums = weights.sum(dim=-1)
    return bool((weights >= 0).all() and ((sums - 1).abs() <= 1e-05).all())


def soft_lookup(query, keys, values, temperature):
    weights = torch.softmax(keys @ query / temperature, dim=-1)
    return weights @ values


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
    raise NotImplementedError("attention: replace this line with your code")


def equivariance_gap(f, x, order):
    raise NotImplementedError("equivariance_gap: replace this line with your code")


def linearity_probe(f, x):
    raise NotImplementedError("linearity_probe: replace this line with your code")


def attention_as_matrix(weights, w_value):
    raise NotImplementedError("attention_as_matrix: replace this line with your code")


def attention_macs(n, d_model):
    raise NotImplementedError("attention_macs: replace this line with your code")


def score_entries(n):
    raise NotImplementedError("score_entries: replace this line with your code")


output, weights = attention(torch.eye(2), torch.eye(2), torch.eye(2))
assert weights.sum() == 3
