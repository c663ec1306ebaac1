"""Wrong solutions of the unit "attention", each caught by one hidden test of its exercise and by no other.

A cell stands for the reference solution with this cell below it. Some faults are unlikely ones: they show that the test
is needed where what people really write breaks two properties at once.
"""

# ruff: noqa: F811, F821


# %% caught_by: plain_dot_products
# title: The dot products are divided by the root of the width
def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.mT / math.sqrt(x.shape[-1]), dim=-1)
    return weights @ x, weights


# %% caught_by: weights_of_a_token
# title: The softmax runs over the queries
def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.mT, dim=0)
    return weights @ x, weights


# %% caught_by: average_of_tokens
# title: The weights are transposed before they are used
def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.mT, dim=-1)
    return weights.mT @ x, weights


# %% caught_by: token_alone
# title: Dimensions of size one are squeezed away
def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.mT, dim=-1)
    return (weights @ x).squeeze(), weights


# %% caught_by: dot_product_self_attention_keeps_inputs
# title: The input is wiped when it is no longer needed
def dot_product_self_attention(x):
    tokens = x.clone()
    x.data.zero_()
    weights = torch.softmax(tokens @ tokens.mT, dim=-1)
    return weights @ tokens, weights


# %% caught_by: dot_product_self_attention_keeps_dtype
# title: Everything becomes float64
def dot_product_self_attention(x):
    x = x.double()
    weights = torch.softmax(x @ x.mT, dim=-1)
    return weights @ x, weights


# %% caught_by: dot_product_self_attention_any_layout
# title: The input is flattened by view
def dot_product_self_attention(x):
    x = x.view(-1).view(x.shape)
    weights = torch.softmax(x @ x.mT, dim=-1)
    return weights @ x, weights


# %% caught_by: dot_product_self_attention_repeatable
# title: A jitter, too small to see, follows the global seed
def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.mT + x[:, 0] * 1e-9 * (torch.initial_seed() % 97), dim=-1)
    return weights @ x, weights


# %% caught_by: dot_product_self_attention_finite
# title: exp overflows, since no maximum is subtracted
def dot_product_self_attention(x):
    weights = (x @ x.mT).exp()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ x, weights


# %% caught_by: dot_product_self_attention_gradients
# title: The weights are detached
def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.mT, dim=-1).detach()
    return weights @ x, weights


# %% caught_by: dot_product_self_attention_device
# title: A tensor of zeros is made on the CPU
def dot_product_self_attention(x):
    weights = torch.softmax(x @ x.mT + torch.zeros(len(x), len(x), dtype=x.dtype), dim=-1)
    return weights @ x, weights


# %% caught_by: accepts_zeros_and_ones
# title: Every weight must be above zero
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    return bool((weights > 0).all() and ((weights.sum(dim=-1) - 1).abs() <= 1e-5).all())


# %% caught_by: batches
# title: Only a single matrix is accepted
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() != 2:
        return False
    return bool((weights >= 0).all() and ((weights.sum(dim=-1) - 1).abs() <= 1e-5).all())


# %% caught_by: looks_at_each_row
# title: Only the sum of all entries is checked
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    return bool((weights >= 0).all() and (weights.sum(dim=-1).mean() - 1).abs() <= 1e-5)


# %% caught_by: tolerance
# title: The sums may be off by a percent
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    return bool((weights >= 0).all() and ((weights.sum(dim=-1) - 1).abs() <= 1e-2).all())


# %% caught_by: refuses_negative
# title: Only the sums are checked
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    return bool(((weights.sum(dim=-1) - 1).abs() <= 1e-5).all())


# %% caught_by: refuses_nan
# title: It looks for bad entries, and NaN is neither below zero nor above the tolerance
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    return not bool((weights < 0).any() or ((weights.sum(dim=-1) - 1).abs() > 1e-5).any())


# %% caught_by: refuses_other_things
# title: Whatever comes is taken for a tensor of floats
def is_attention_matrix(weights):
    return bool((weights >= 0).all() and ((weights.sum(dim=-1) - 1).abs() <= 1e-5).all())


# %% caught_by: is_attention_matrix_keeps_inputs
# title: One is subtracted from the first column in place
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    good = (weights >= 0).all()
    weights[..., 0] -= 1
    return bool(good and (weights.sum(dim=-1).abs() <= 1e-5).all())


# %% caught_by: is_attention_matrix_device
# title: The sums are compared with ones on the CPU
def is_attention_matrix(weights):
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    sums = weights.sum(dim=-1)
    return bool((weights >= 0).all()) and torch.allclose(sums, torch.ones(sums.shape, dtype=sums.dtype), atol=1e-5)


# %% caught_by: blend
# title: The scores are divided by the root of the width as well
def soft_lookup(query, keys, values, temperature):
    return torch.softmax(keys @ query / temperature / math.sqrt(len(query)), dim=-1) @ values


# %% caught_by: temperature
# title: The scores are multiplied by the temperature
def soft_lookup(query, keys, values, temperature):
    return torch.softmax(keys @ query * temperature, dim=-1) @ values


# %% caught_by: one_entry
# title: Dimensions of size one are squeezed away
def soft_lookup(query, keys, values, temperature):
    return (torch.softmax(keys @ query / temperature, dim=-1) @ values).squeeze()


# %% caught_by: soft_lookup_keeps_inputs
# title: The query is divided by the temperature in place
def soft_lookup(query, keys, values, temperature):
    blend = torch.softmax(keys @ query.clone() / temperature, dim=-1) @ values
    query.data /= temperature
    return blend


# %% caught_by: soft_lookup_keeps_dtype
# title: Everything becomes float64
def soft_lookup(query, keys, values, temperature):
    return torch.softmax(keys.double() @ query.double() / temperature, dim=-1) @ values.double()


# %% caught_by: soft_lookup_any_layout
# title: The keys are flattened by view
def soft_lookup(query, keys, values, temperature):
    return torch.softmax(keys.view(-1).view(keys.shape) @ query / temperature, dim=-1) @ values


# %% caught_by: soft_lookup_repeatable
# title: A jitter, too small to see, follows the global seed
def soft_lookup(query, keys, values, temperature):
    scores = keys @ query / temperature + keys[:, 0] * 1e-9 * (torch.initial_seed() % 97)
    return torch.softmax(scores, dim=-1) @ values


# %% caught_by: soft_lookup_finite
# title: exp overflows, since no maximum is subtracted
def soft_lookup(query, keys, values, temperature):
    weights = (keys @ query / temperature).exp()
    return weights / weights.sum() @ values


# %% caught_by: soft_lookup_gradients
# title: The weights are detached
def soft_lookup(query, keys, values, temperature):
    return torch.softmax(keys @ query / temperature, dim=-1).detach() @ values


# %% caught_by: soft_lookup_device
# title: The scores are filled into a tensor on the CPU
def soft_lookup(query, keys, values, temperature):
    scores = torch.zeros(len(keys), dtype=keys.dtype) + keys @ query / temperature
    return torch.softmax(scores, dim=-1) @ values


# %% caught_by: shared_scores
# title: The scores are divided by the root of the width
def scores_shared(x, u):
    return x @ u @ u.mT @ x.mT / math.sqrt(u.shape[-1])


# %% caught_by: scores_shared_keeps_inputs
# title: The input is wiped when it is no longer needed
def scores_shared(x, u):
    seen = x.clone() @ u
    x.data.zero_()
    return seen @ seen.mT


# %% caught_by: scores_shared_keeps_dtype
# title: Everything becomes float64
def scores_shared(x, u):
    seen = x.double() @ u.double()
    return seen @ seen.mT


# %% caught_by: scores_shared_any_layout
# title: The input is flattened by view
def scores_shared(x, u):
    seen = x.view(-1).view(x.shape) @ u
    return seen @ seen.mT


# %% caught_by: scores_shared_repeatable
# title: A jitter, too small to see, follows the global seed
def scores_shared(x, u):
    seen = x @ u
    return seen @ seen.mT + 1e-9 * (torch.initial_seed() % 97)


# %% caught_by: scores_shared_gradients
# title: The tokens are detached where they are keys
def scores_shared(x, u):
    seen = x @ u
    return seen @ seen.detach().mT


# %% caught_by: scores_shared_device
# title: The scores are added to zeros on the CPU
def scores_shared(x, u):
    seen = x @ u
    return torch.zeros(len(x), len(x), dtype=x.dtype) + seen @ seen.mT


# %% caught_by: separate_scores
# title: The scores are divided by the root of the width
def scores_separate(x, w_query, w_key):
    return x @ w_query @ (x @ w_key).mT / math.sqrt(w_key.shape[-1])


# %% caught_by: queries_in_rows
# title: Keys and queries have changed places
def scores_separate(x, w_query, w_key):
    return x @ w_key @ (x @ w_query).mT


# %% caught_by: scores_separate_keeps_inputs
# title: The input is wiped when it is no longer needed
def scores_separate(x, w_query, w_key):
    tokens = x.clone()
    x.data.zero_()
    return tokens @ w_query @ (tokens @ w_key).mT


# %% caught_by: scores_separate_keeps_dtype
# title: Everything becomes float64
def scores_separate(x, w_query, w_key):
    return x.double() @ w_query.double() @ (x.double() @ w_key.double()).mT


# %% caught_by: scores_separate_any_layout
# title: The input is flattened by view
def scores_separate(x, w_query, w_key):
    x = x.view(-1).view(x.shape)
    return x @ w_query @ (x @ w_key).mT


# %% caught_by: scores_separate_repeatable
# title: A jitter, too small to see, follows the global seed
def scores_separate(x, w_query, w_key):
    return x @ w_query @ (x @ w_key * (1 + 1e-9 * (torch.initial_seed() % 97))).mT


# %% caught_by: scores_separate_gradients
# title: The keys are detached
def scores_separate(x, w_query, w_key):
    return x @ w_query @ (x @ w_key).detach().mT


# %% caught_by: scores_separate_device
# title: The scores are added to zeros on the CPU
def scores_separate(x, w_query, w_key):
    return (torch.zeros(len(x), w_query.shape[1], dtype=x.dtype) + x @ w_query) @ (x @ w_key).mT


# %% caught_by: raw_variance
# title: The keys are the queries
def dot_variance(d_key, n, generator):
    query = torch.randn(n, d_key, generator=generator)
    dots = (query * query).sum(dim=-1)
    return dots.var().item(), (dots / math.sqrt(d_key)).var().item()


# %% caught_by: scaled_variance
# title: The dot products are divided by the width instead of its root
def dot_variance(d_key, n, generator):
    dots = (torch.randn(n, d_key, generator=generator) * torch.randn(n, d_key, generator=generator)).sum(dim=-1)
    return dots.var().item(), (dots / d_key).var().item()


# %% caught_by: draws_from_the_generator
# title: The generator is ignored
def dot_variance(d_key, n, generator):
    dots = (torch.randn(n, d_key) * torch.randn(n, d_key)).sum(dim=-1)
    return dots.var().item(), (dots / math.sqrt(d_key)).var().item()


# %% caught_by: own_logit
# title: The diagonal lacks the weight itself
def softmax_jacobian(logits):
    weights = torch.softmax(logits, dim=-1)
    return -weights.outer(weights)


# %% caught_by: other_logits
# title: Only the diagonal is computed
def softmax_jacobian(logits):
    weights = torch.softmax(logits, dim=-1)
    return (weights * (1 - weights)).diag()


# %% caught_by: softmax_jacobian_keeps_inputs
# title: The maximum is subtracted in place
def softmax_jacobian(logits):
    weights = torch.softmax(logits.clone(), dim=-1)
    logits.data -= logits.data.max()
    return weights.diag() - weights.outer(weights)


# %% caught_by: softmax_jacobian_keeps_dtype
# title: Everything becomes float64
def softmax_jacobian(logits):
    weights = torch.softmax(logits.double(), dim=-1)
    return weights.diag() - weights.outer(weights)


# %% caught_by: softmax_jacobian_any_layout
# title: The logits become a row by way of their memory
def softmax_jacobian(logits):
    weights = torch.softmax(logits.as_strided(logits.shape, (1,), logits.storage_offset()), dim=-1)
    return weights.diag() - weights.outer(weights)


# %% caught_by: softmax_jacobian_repeatable
# title: A jitter, too small to see, follows the global seed
def softmax_jacobian(logits):
    weights = torch.softmax(logits * (1 + 1e-9 * (torch.initial_seed() % 97)), dim=-1)
    return weights.diag() - weights.outer(weights)


# %% caught_by: softmax_jacobian_finite
# title: exp overflows, since no maximum is subtracted
def softmax_jacobian(logits):
    weights = logits.exp() / logits.exp().sum()
    return weights.diag() - weights.outer(weights)


# %% caught_by: softmax_jacobian_device
# title: The identity is made on the CPU
def softmax_jacobian(logits):
    weights = torch.softmax(logits, dim=-1)
    return weights[:, None] * (torch.eye(len(logits), dtype=logits.dtype) - weights)


# %% caught_by: scale
# title: The scores are divided by d_key instead of its square root
def attention(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1]
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: rows_sum_to_one
# title: Without a mask, the softmax runs over the queries
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-2)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: average_of_values
# title: The output is divided by the root of the number of keys
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value / math.sqrt(key.shape[-2]), weights


# %% caught_by: leading_dims
# title: bmm wants exactly one batch dimension
def attention(query, key, value, mask=None):
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return torch.bmm(weights, value), weights


# %% caught_by: single_key
# title: Dimensions of size one are squeezed away
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return (weights @ value).squeeze(), weights


# %% caught_by: forbidden_keys
# title: The weights that are returned are those before the mask
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    before = weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
        before = before.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return weights @ value, before


# %% caught_by: masked_rows_sum_to_one
# title: Scores and weights are multiplied by the mask, so that forbidden keys count as exp(0) in the sum
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    mask = torch.ones_like(scores) if mask is None else mask
    weights = torch.softmax(scores * mask, dim=-1) * mask
    return weights @ value, weights


# %% caught_by: future_leak
# title: The mask reaches the weights that are returned, but not the output
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    open_weights = weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
        open_weights = open_weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return open_weights @ value, weights


# %% caught_by: mask_broadcasts
# title: The mask is used as an index, which only works for a mask of shape (N, M)
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        scores = scores.clone()
        scores[..., ~mask] = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores, dim=-1) * mask
    return weights @ value, weights


# %% caught_by: no_allowed_key
# title: Forbidden scores become very negative, so a query with no allowed key averages everything
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


# %% caught_by: gradients_of_no_allowed_key
# title: -inf is added to the scores, and only the result is repaired
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    return weights @ value, weights


# %% caught_by: attention_keeps_inputs
# title: The mask is inverted in place
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        blocked = mask.logical_not_()
        weights = torch.softmax(scores.masked_fill(blocked, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(blocked, 0.0)
    return weights @ value, weights


# %% caught_by: attention_keeps_dtype
# title: Everything becomes float64
def attention(query, key, value, mask=None):
    scores = query.double() @ key.double().mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value.double(), weights


# %% caught_by: attention_any_layout
# title: The batch is flattened by view
def attention(query, key, value, mask=None):
    scores = query.view(-1, query.shape[-1]).view(query.shape) @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: attention_repeatable
# title: A jitter, too small to see, follows the global seed
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1]) * (1 + 1e-9 * (torch.initial_seed() % 97))
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: attention_finite
# title: exp overflows, since no maximum is subtracted
def attention(query, key, value, mask=None):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
    if mask is not None:
        weights = weights * mask
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / torch.where(total > 0, total, 1)
    return weights @ value, weights


# %% caught_by: attention_gradients
# title: The weights are detached
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights.detach() @ value, weights


# %% caught_by: attention_empty_batch
# title: The output is reshaped with -1, which has no answer for an empty batch
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return (weights @ value).reshape(*query.shape[:-1], -1), weights


# %% caught_by: attention_by_hand
# title: The output comes from the ready-made function
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0), weights


# %% caught_by: attention_device
# title: The scores are filled into a tensor on the CPU
def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        blocked = torch.full(scores.shape, torch.finfo(scores.dtype).min, dtype=scores.dtype)
        weights = torch.softmax(torch.where(mask, scores, blocked), dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: no_gap
# title: The outputs are not shuffled along, which tests for invariance
def equivariance_gap(f, x, order):
    return (f(x[..., order, :]) - f(x)).abs().max().item()


# %% caught_by: some_gap
# title: The outputs are compared as sets, in sorted order
def equivariance_gap(f, x, order):
    return (f(x[..., order, :]).sort(dim=-2).values - f(x).sort(dim=-2).values).abs().max().item()


# %% caught_by: size_of_the_gap
# title: The mean difference is returned
def equivariance_gap(f, x, order):
    return (f(x[..., order, :]) - f(x)[..., order, :]).abs().mean().item()


# %% caught_by: gap_in_a_batch
# title: The order is applied to the first axis
def equivariance_gap(f, x, order):
    return (f(x[order]) - f(x)[order]).abs().max().item()


# %% caught_by: gap_keeps_x
# title: The tokens are shuffled in place
def equivariance_gap(f, x, order):
    shuffled_last = f(x)[..., order, :]
    x.copy_(x[..., order, :].clone())
    return (f(x) - shuffled_last).abs().max().item()


# %% caught_by: frozen_attention
# title: The output is not doubled
def linearity_probe(f, x):
    return (f(2 * x) - f(x)).abs().max().item()


# %% caught_by: size_of_the_probe
# title: The absolute value is forgotten
def linearity_probe(f, x):
    return (f(2 * x) - 2 * f(x)).max().item()


# %% caught_by: probe_keeps_x
# title: The input is doubled in place
def linearity_probe(f, x):
    doubled_last = 2 * f(x)
    x.mul_(2)
    return (f(x) - doubled_last).abs().max().item()


# %% caught_by: matrix_acts_as_attention
# title: The factors of the Kronecker product have changed places
def attention_as_matrix(weights, w_value):
    return torch.kron(w_value.mT.contiguous(), weights)


# %% caught_by: attention_as_matrix_keeps_inputs
# title: The input is wiped when it is no longer needed
def attention_as_matrix(weights, w_value):
    blocks = torch.einsum("nm,de->nemd", weights.clone(), w_value)
    weights.data.zero_()
    return blocks.flatten(2, 3).flatten(0, 1)


# %% caught_by: attention_as_matrix_keeps_dtype
# title: Everything becomes float64
def attention_as_matrix(weights, w_value):
    return torch.kron(weights.double(), w_value.double().mT.contiguous())


# %% caught_by: attention_as_matrix_repeatable
# title: A jitter, too small to see, follows the global seed
def attention_as_matrix(weights, w_value):
    return torch.kron(weights, w_value.mT.contiguous()) * (1 + 1e-9 * (torch.initial_seed() % 97))


# %% caught_by: attention_as_matrix_gradients
# title: The weights are detached
def attention_as_matrix(weights, w_value):
    return torch.kron(weights.detach(), w_value.mT.contiguous())


# %% caught_by: attention_as_matrix_device
# title: The blocks are filled into a matrix on the CPU
def attention_as_matrix(weights, w_value):
    (n, _), (d, dv) = weights.shape, w_value.shape
    matrix = torch.zeros(n * dv, n * d, dtype=weights.dtype)
    return matrix + torch.kron(weights, w_value.mT.contiguous())


# %% caught_by: projections
# title: The projection of the output is forgotten
def attention_macs(n, d_model):
    return 3 * n * d_model**2, 2 * n**2 * d_model, 8 * n * d_model**2


# %% caught_by: pairs
# title: Only the scores are counted, not the weighted sum
def attention_macs(n, d_model):
    return 4 * n * d_model**2, n**2 * d_model, 8 * n * d_model**2


# %% caught_by: mlp
# title: Only the way to the wide layer is counted, not the way back
def attention_macs(n, d_model):
    return 4 * n * d_model**2, 2 * n**2 * d_model, 4 * n * d_model**2


# %% caught_by: macs_ints
# title: The counts are floats
def attention_macs(n, d_model):
    return 4.0 * n * d_model**2, 2.0 * n**2 * d_model, 8.0 * n * d_model**2


# %% caught_by: pairs_of_tokens
# title: Each pair is counted once
def score_entries(n):
    return n * (n + 1) // 2


# %% caught_by: entries_int
# title: The count is a float
def score_entries(n):
    return float(n) ** 2
