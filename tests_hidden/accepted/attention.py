"""Other right solutions of the unit "attention", all of which must get full marks.

A cell stands for the reference solution with this cell below it.
"""

# ruff: noqa: B905, F811, F821


# %% accepts: dot_product_self_attention
# title: einsum, and a softmax by hand
def dot_product_self_attention(x):
    scores = torch.einsum("nd,md->nm", x, x)
    weights = (scores - scores.amax(dim=1, keepdim=True)).exp()
    weights = weights / weights.sum(dim=1, keepdim=True)
    return torch.einsum("nm,md->nd", weights, x), weights


# %% accepts: dot_product_self_attention
# title: A loop over the tokens
def dot_product_self_attention(x):
    rows = [torch.softmax(torch.stack([token @ other for other in x]), dim=0) for token in x]
    outputs = [sum(w * other for w, other in zip(row, x)) for row in rows]
    return torch.stack(outputs), torch.stack(rows)


# %% accepts: dot_product_self_attention
# title: The softmax over the first axis of a symmetric matrix, transposed
def dot_product_self_attention(x):
    weights = torch.softmax(torch.mm(x, x.t()), dim=0).t()
    return weights.matmul(x), weights


# %% accepts: dot_product_self_attention
# title: The attention of step 7, with its scale undone
def dot_product_self_attention(x):
    return attention(x * math.sqrt(x.shape[-1]), x, x)


# %% accepts: dot_product_self_attention
# title: The ready-made function, applied to an identity for the weights
def dot_product_self_attention(x):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    eye = torch.eye(len(x), dtype=x.dtype, device=x.device)
    q, k = x[None], x[None]
    return sdpa(q, k, x[None], scale=1.0)[0], sdpa(q, k, eye[None], scale=1.0)[0]


# %% accepts: is_attention_matrix
# title: allclose with ones
def is_attention_matrix(weights):
    if not torch.is_tensor(weights) or not torch.is_floating_point(weights) or weights.ndim < 2:
        return False
    sums = weights.sum(-1)
    return weights.min().item() >= 0 and torch.allclose(sums, torch.ones_like(sums), rtol=0, atol=1e-5)


# %% accepts: is_attention_matrix
# title: One row after another, in Python floats
def is_attention_matrix(weights):
    if not isinstance(weights, torch.Tensor) or weights.dtype not in (torch.float16, torch.float32, torch.float64):
        return False
    if weights.dim() < 2:
        return False
    for row in weights.reshape(-1, weights.shape[-1]).tolist():
        if any(not w >= 0 for w in row) or abs(math.fsum(row) - 1) > 1e-5:
            return False
    return True


# %% accepts: is_attention_matrix
# title: The answer is a tensor of one bool
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return torch.tensor(False)
    return torch.all(weights >= 0) & torch.all((weights.sum(-1) - 1).abs() <= 1e-5)


# %% accepts: is_attention_matrix
# title: A try around everything
def is_attention_matrix(weights):
    try:
        assert weights.dtype.is_floating_point and weights.dim() > 1 and not torch.isnan(weights).any()
        return bool(((weights >= -1e-7).all()) and torch.all(abs(weights.sum(-1) - 1) < 1e-5))
    except (AssertionError, AttributeError):
        return False


# %% accepts: soft_lookup
# title: The temperature divides the query
def soft_lookup(query, keys, values, temperature):
    return values.T @ torch.nn.functional.softmax(torch.mv(keys, query / temperature), dim=0)


# %% accepts: soft_lookup
# title: A softmax by hand, with the values as a weighted sum
def soft_lookup(query, keys, values, temperature):
    scores = (keys * query).sum(1) / temperature
    shares = torch.exp(scores - scores.max())
    return (shares[:, None] * values).sum(0) / shares.sum()


# %% accepts: soft_lookup
# title: The attention of step 7 with one query
def soft_lookup(query, keys, values, temperature):
    query = query[None] * (math.sqrt(len(query)) / temperature)
    return attention(query, keys, values)[0][0]


# %% accepts: scores_shared
# title: One chain of products
def scores_shared(x, u):
    return x @ u @ u.T @ x.T


# %% accepts: scores_shared
# title: The separate scores with the same matrix
def scores_shared(x, u):
    return scores_separate(x, u, u)


# %% accepts: scores_shared
# title: einsum over everything
def scores_shared(x, u):
    return torch.einsum("nd,dk,ek,me->nm", x, u, u, x)


# %% accepts: scores_separate
# title: The two matrices first
def scores_separate(x, w_query, w_key):
    return x @ (w_query @ w_key.transpose(0, 1)) @ x.transpose(0, 1)


# %% accepts: scores_separate
# title: A loop over queries and keys
def scores_separate(x, w_query, w_key):
    return torch.stack([torch.stack([(a @ w_query) @ (b @ w_key) for b in x]) for a in x])


# %% accepts: scores_separate
# title: torch's linear
def scores_separate(x, w_query, w_key):
    linear = torch.nn.functional.linear
    return linear(linear(x, w_query.T), linear(x, w_key.T))


# %% accepts: dot_variance
# title: float64, einsum, and the scale after the variance
def dot_variance(d_key, n, generator):
    query = torch.randn((n, d_key), generator=generator, dtype=torch.float64)
    key = torch.randn((n, d_key), generator=generator, dtype=torch.float64)
    variance = float(torch.var(torch.einsum("nd,nd->n", query, key)))
    return variance, variance / d_key


# %% accepts: dot_variance
# title: All in one draw, and the population variance as a tensor
def dot_variance(d_key, n, generator):
    pairs = torch.empty(2, n, d_key).normal_(generator=generator)
    dots = pairs.prod(0).sum(-1)
    return dots.var(unbiased=False), (dots * d_key**-0.5).var(unbiased=False)


# %% accepts: dot_variance
# title: numpy, fed from the generator
def dot_variance(d_key, n, generator):
    import numpy as np

    query, key = (torch.randn(n, d_key, generator=generator).numpy() for _ in range(2))
    dots = (query * key).sum(1)
    return np.var(dots, ddof=1), np.var(dots / np.sqrt(d_key), ddof=1)


# %% accepts: softmax_jacobian
# title: The Kronecker delta
def softmax_jacobian(logits):
    a = torch.softmax(logits, dim=0)
    return a[:, None] * (torch.eye(len(a), dtype=a.dtype, device=a.device) - a[None, :])


# %% accepts: softmax_jacobian
# title: Two loops that fill a matrix
def softmax_jacobian(logits):
    a = logits.softmax(0)
    jacobian = logits.new_zeros(len(a), len(a))
    for i in range(len(a)):
        for j in range(len(a)):
            jacobian[i, j] = a[i] * (1 - a[i]) if i == j else -a[i] * a[j]
    return jacobian


# %% accepts: softmax_jacobian
# title: autograd
def softmax_jacobian(logits):
    return torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), logits)


# %% accepts: softmax_jacobian
# title: jacrev
def softmax_jacobian(logits):
    return torch.func.jacrev(lambda x: torch.softmax(x, dim=-1))(logits)


# %% accepts: attention
# title: The query is divided first, -inf, and NaN repaired before it can do harm
def attention(query, key, value, mask=None):
    scores = (query / key.size(-1) ** 0.5) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
        dead = ~mask.any(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(dead, 0.0), dim=-1).masked_fill(dead, 0.0)
    else:
        weights = scores.softmax(-1)
    return weights @ value, weights


# %% accepts: attention
# title: einsum, torch.where with a very negative number, and a product with the mask at the end
def attention(query, key, value, mask=None):
    scores = torch.einsum("...nd,...md->...nm", query, key) / math.sqrt(key.shape[-1])
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    scores = torch.where(mask, scores, -1e30)
    weights = torch.softmax(scores, dim=-1) * mask
    return torch.einsum("...nm,...mv->...nv", weights, value), weights


# %% accepts: attention
# title: A softmax by hand over the allowed keys
def attention(query, key, value, mask=None):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    allowed = torch.ones_like(scores) if mask is None else mask.to(scores.dtype).expand_as(scores)
    top = scores.detach().masked_fill(allowed == 0, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)
    weights = torch.exp((scores - top) * allowed) * allowed
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / torch.where(total == 0, torch.ones_like(total), total)
    return torch.matmul(weights, value), weights


# %% accepts: attention
# title: -inf in the scores, and nan_to_num after the softmax (masked_fill stops the gradient)
def attention(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return torch.matmul(weights, value), weights


# %% accepts: attention
# title: An additive mask of large negative numbers, and a repair
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, -1)
    else:
        scores = scores + (1 - mask.to(scores.dtype)) * -1e20
        weights = torch.softmax(scores, -1) * mask
    return weights @ value, weights


# %% accepts: attention
# title: A loop over queries, each with its allowed keys alone
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    rows = []
    for row, allowed in zip(scores.reshape(-1, scores.shape[-1]), mask.reshape(-1, scores.shape[-1])):
        rows.append(torch.zeros_like(row).masked_scatter(allowed, torch.softmax(row[allowed], dim=0)))
    weights = torch.stack(rows).reshape(scores.shape) if rows else scores
    return weights @ value, weights


# %% accepts: attention
# title: The mask after the softmax, renormalised
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        return torch.softmax(scores, -1) @ value, torch.softmax(scores, -1)
    top = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    weights = (scores - top).masked_fill(~mask, 0).exp().masked_fill(~mask, 0)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(0.5)  # the largest weight is exp(0) = 1
    return weights @ value, weights


# %% accepts: equivariance_gap
# title: index_select, and the largest entry over all dimensions
def equivariance_gap(f, x, order):
    before, after = f(torch.index_select(x, -2, order)), torch.index_select(f(x), -2, order)
    return float(torch.amax(torch.abs(before - after)))


# %% accepts: equivariance_gap
# title: A permutation matrix
def equivariance_gap(f, x, order):
    shuffle = torch.eye(len(order), dtype=x.dtype)[order]
    return torch.linalg.vector_norm(f(shuffle @ x) - shuffle @ f(x), ord=float("inf")).item()


# %% accepts: equivariance_gap
# title: The result is shuffled back, and the gap is a tensor
def equivariance_gap(f, x, order):
    back = torch.argsort(order)
    return (f(x[..., order, :])[..., back, :] - f(x)).abs().max()


# %% accepts: linearity_probe
# title: x + x, and the gap of both signs
def linearity_probe(f, x):
    difference = f(x + x) - f(x) - f(x)
    return max(difference.max().item(), -difference.min().item())


# %% accepts: linearity_probe
# title: The result is a tensor
def linearity_probe(f, x):
    with torch.no_grad():
        return torch.max(torch.abs(2 * f(x.clone()) - f(x.clone() * 2)))


# %% accepts: attention_as_matrix
# title: The Kronecker product
def attention_as_matrix(weights, w_value):
    return torch.kron(weights, w_value.T.contiguous())


# %% accepts: attention_as_matrix
# title: A loop over the blocks
def attention_as_matrix(weights, w_value):
    return torch.cat([torch.cat([a * w_value.T for a in row], dim=1) for row in weights], dim=0)


# %% accepts: attention_as_matrix
# title: The images of all unit vectors
def attention_as_matrix(weights, w_value):
    n, d = len(weights), len(w_value)
    units = torch.eye(n * d, dtype=weights.dtype, device=weights.device).reshape(n * d, n, d)
    return (weights @ units @ w_value).reshape(n * d, -1).T


# %% accepts: attention_macs
# title: One product after another
def attention_macs(n, d_model):
    def product(a, b, c):
        return a * b * c

    projections = sum(product(n, d_model, d_model) for _ in range(4))
    scores = product(n, d_model, n) + product(n, n, d_model)
    return projections, scores, product(n, d_model, 4 * d_model) + product(n, 4 * d_model, d_model)


# %% accepts: attention_macs
# title: A list
def attention_macs(n, d_model):
    square = n * d_model * d_model
    return [4 * square, 2 * n * n * d_model, 8 * square]


# %% accepts: score_entries
# title: numel of a matrix that takes no memory
def score_entries(n):
    return torch.empty(n, n, device="meta").numel()
