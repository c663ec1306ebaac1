import math
from collections.abc import Callable
import torch
from torch import Tensor


def dot_product_self_attention(x):
    scores = torch.einsum("nd,md->nm", x, x)
    weights = (scores - scores.amax(dim=1, keepdim=True)).exp()
    weights = weights / weights.sum(dim=1, keepdim=True)
    return torch.einsum("nm,md->nd", weights, x), weights


def is_attention_matrix(weights):
    if not torch.is_tensor(weights) or not torch.is_floating_point(weights) or weights.ndim < 2:
        return False
    sums = weights.sum(-1)
    return weights.min().item() >= 0 and torch.allclose(sums, torch.ones_like(sums), rtol=0, atol=1e-5)


def soft_lookup(query, keys, values, temperature):
    return values.T @ torch.nn.functional.softmax(torch.mv(keys, query / temperature), dim=0)


def scores_shared(x, u):
    return x @ u @ u.T @ x.T


def scores_separate(x, w_query, w_key):
    return x @ (w_query @ w_key.transpose(0, 1)) @ x.transpose(0, 1)


def dot_variance(d_key, n, generator):
    query = torch.randn((n, d_key), generator=generator, dtype=torch.float64)
    key = torch.randn((n, d_key), generator=generator, dtype=torch.float64)
    variance = float(torch.var(torch.einsum("nd,nd->n", query, key)))
    return variance, variance / d_key


def softmax_jacobian(logits):
    a = torch.softmax(logits, dim=0)
    return a[:, None] * (torch.eye(len(a), dtype=a.dtype, device=a.device) - a[None, :])


def attention(query, key, value, mask=None):
    scores = (query / key.size(-1) ** 0.5) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
        dead = ~mask.any(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(dead, 0.0), dim=-1).masked_fill(dead, 0.0)
    else:
        weights = scores.softmax(-1)
    return weights @ value, weights


def equivariance_gap(f, x, order):
    before, after = f(torch.index_select(x, -2, order)), torch.index_select(f(x), -2, order)
    return float(torch.amax(torch.abs(before - after)))


def linearity_probe(f, x):
    difference = f(x + x) - f(x) - f(x)
    return max(difference.max().item(), -difference.min().item())


def attention_as_matrix(weights, w_value):
    return torch.kron(weights, w_value.T.contiguous())


def attention_macs(n, d_model):
    def product(a, b, c):
        return a * b * c

    projections = sum(product(n, d_model, d_model) for _ in range(4))
    scores = product(n, d_model, n) + product(n, n, d_model)
    return projections, scores, product(n, d_model, 4 * d_model) + product(n, 4 * d_model, d_model)


def score_entries(n):
    return torch.empty(n, n, device="meta").numel()
