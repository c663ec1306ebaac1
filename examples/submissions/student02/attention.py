import math
from collections.abc import Callable
import torch
from torch import Tensor


def dot_product_self_attention(x):
    rows = [torch.softmax(torch.stack([token @ other for other in x]), dim=0) for token in x]
    outputs = [sum(w * other for w, other in zip(row, x)) for row in rows]
    return torch.stack(outputs), torch.stack(rows)


def is_attention_matrix(weights):
    if not isinstance(weights, torch.Tensor) or weights.dtype not in (torch.float16, torch.float32, torch.float64):
        return False
    if weights.dim() < 2:
        return False
    for row in weights.reshape(-1, weights.shape[-1]).tolist():
        if any(not w >= 0 for w in row) or abs(math.fsum(row) - 1) > 1e-5:
            return False
    return True


def soft_lookup(query, keys, values, temperature):
    scores = (keys * query).sum(1) / temperature
    shares = torch.exp(scores - scores.max())
    return (shares[:, None] * values).sum(0) / shares.sum()


def scores_shared(x, u):
    return scores_separate(x, u, u)


def scores_separate(x, w_query, w_key):
    return torch.stack([torch.stack([(a @ w_query) @ (b @ w_key) for b in x]) for a in x])


def dot_variance(d_key, n, generator):
    pairs = torch.empty(2, n, d_key).normal_(generator=generator)
    dots = pairs.prod(0).sum(-1)
    return dots.var(unbiased=False), (dots * d_key**-0.5).var(unbiased=False)


def softmax_jacobian(logits):
    a = logits.softmax(0)
    jacobian = logits.new_zeros(len(a), len(a))
    for i in range(len(a)):
        for j in range(len(a)):
            jacobian[i, j] = a[i] * (1 - a[i]) if i == j else -a[i] * a[j]
    return jacobian


def attention(query, key, value, mask=None):
    scores = torch.einsum("...nd,...md->...nm", query, key) / math.sqrt(key.shape[-1])
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    scores = torch.where(mask, scores, -1e30)
    weights = torch.softmax(scores, dim=-1) * mask
    return torch.einsum("...nm,...mv->...nv", weights, value), weights


def equivariance_gap(f, x, order):
    shuffle = torch.eye(len(order), dtype=x.dtype)[order]
    return torch.linalg.vector_norm(f(shuffle @ x) - shuffle @ f(x), ord=float("inf")).item()


def linearity_probe(f, x):
    with torch.no_grad():
        return torch.max(torch.abs(2 * f(x.clone()) - f(x.clone() * 2)))


def attention_as_matrix(weights, w_value):
    return torch.cat([torch.cat([a * w_value.T for a in row], dim=1) for row in weights], dim=0)


def attention_macs(n, d_model):
    square = n * d_model * d_model
    return [4 * square, 2 * n * n * d_model, 8 * square]


def score_entries(n):
    return torch.empty(n, n, device="meta").numel()
