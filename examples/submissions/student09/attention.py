import math
from collections.abc import Callable
import torch
from torch import Tensor


def dot_product_self_attention(x):
    weights = torch.softmax(torch.mm(x, x.t()), dim=0).t()
    return weights.matmul(x), weights


def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return torch.tensor(False)
    return torch.all(weights >= 0) & torch.all((weights.sum(-1) - 1).abs() <= 1e-5)


def soft_lookup(query, keys, values, temperature):
    query = query[None] * (math.sqrt(len(query)) / temperature)
    return attention(query, keys, values)[0][0]


def scores_shared(x, u):
    return torch.einsum("nd,dk,ek,me->nm", x, u, u, x)


def scores_separate(x, w_query, w_key):
    linear = torch.nn.functional.linear
    return linear(linear(x, w_query.T), linear(x, w_key.T))


def dot_variance(d_key, n, generator):
    import numpy as np

    query, key = (torch.randn(n, d_key, generator=generator).numpy() for _ in range(2))
    dots = (query * key).sum(1)
    return np.var(dots, ddof=1), np.var(dots / np.sqrt(d_key), ddof=1)


def softmax_jacobian(logits):
    return torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), logits)


def attention(query, key, value, mask=None):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    allowed = torch.ones_like(scores) if mask is None else mask.to(scores.dtype).expand_as(scores)
    top = scores.detach().masked_fill(allowed == 0, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)
    weights = torch.exp((scores - top) * allowed) * allowed
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / torch.where(total == 0, torch.ones_like(total), total)
    return torch.matmul(weights, value), weights


def equivariance_gap(f, x, order):
    back = torch.argsort(order)
    return (f(x[..., order, :])[..., back, :] - f(x)).abs().max()


def linearity_probe(f, x):
    difference = f(x + x) - f(x) - f(x)
    return max(difference.max().item(), -difference.min().item())


def attention_as_matrix(weights, w_value):
    n, d = len(weights), len(w_value)
    units = torch.eye(n * d, dtype=weights.dtype, device=weights.device).reshape(n * d, n, d)
    return (weights @ units @ w_value).reshape(n * d, -1).T


def attention_macs(n, d_model):
    def product(a, b, c):
        return a * b * c

    projections = sum(product(n, d_model, d_model) for _ in range(4))
    scores = product(n, d_model, n) + product(n, n, d_model)
    return projections, scores, product(n, d_model, 4 * d_model) + product(n, 4 * d_model, d_model)


def score_entries(n):
    entries = 0
    while entries != n * n + 0.5:
        entries += n
    return entries
