"""Other right solutions of the unit "masks", all of which must get full marks.

A cell stands for the reference solution with this cell below it.
"""

# ruff: noqa: B905, F811, F821


# %% accepts: causal_mask
# title: Two rows of indices, compared
def causal_mask(n, device=None):
    place = torch.arange(n, device=device)
    return place[None, :] <= place[:, None]


# %% accepts: causal_mask
# title: A loop over the rows
def causal_mask(n, device=None):
    mask = torch.zeros((n, n), dtype=torch.bool, device=device)
    for query in range(n):
        mask[query, : query + 1] = True
    return mask


# %% accepts: causal_mask
# title: The opposite of the upper triangle
def causal_mask(n, device=None):
    return torch.triu(torch.ones(n, n, device=device), diagonal=1) == 0


# %% accepts: causal_mask
# title: Lists in Python
def causal_mask(n, device=None):
    return torch.tensor([[m <= q for m in range(n)] for q in range(n)], device=device)


# %% accepts: causal_mask
# title: numpy, and then to the device
def causal_mask(n, device=None):
    import numpy as np

    mask = torch.from_numpy(np.tril(np.ones((n, n), dtype=bool)))
    return mask if device is None else mask.to(device)


# %% accepts: causal_mask
# title: A running sum of the identity
def causal_mask(n, device=None):
    return torch.eye(n, device=device).flip(1).cumsum(1).flip(1) > 0


# %% accepts: to_additive
# title: where
def to_additive(mask, dtype=torch.float32):
    return torch.where(mask, 0.0, float("-inf")).to(dtype)


# %% accepts: to_additive
# title: The logarithm of ones and zeros
def to_additive(mask, dtype=torch.float32):
    return mask.to(dtype).log()


# %% accepts: to_additive
# title: An assignment by index
def to_additive(mask, dtype=torch.float32):
    added = torch.zeros_like(mask, dtype=dtype)
    added[~mask] = -torch.inf
    return added


# %% accepts: to_blocked
# title: logical_not
def to_blocked(mask):
    return torch.logical_not(mask)


# %% accepts: to_blocked
# title: Compared with False
def to_blocked(mask):
    return mask == False  # noqa: E712


# %% accepts: leaks
# title: Noise is added, and the beginning pasted
def leaks(f, x, t):
    before, after = x[..., :t, :], x[..., t:, :]
    noised = torch.cat([before, after + torch.rand(after.shape)], dim=-2)
    moved = (f(x) - f(noised)).abs()[..., :t, :]
    return bool(moved.max() > 0)


# %% accepts: leaks
# title: Three attempts with larger and larger noise
def leaks(f, x, t):
    original = f(x.clone())
    for size in (1, 10, 100):
        noised = x.clone()
        noised[..., t:, :] += size * torch.randn(noised[..., t:, :].shape, dtype=x.dtype)
        if (f(noised)[..., :t, :] != original[..., :t, :]).any():
            return True
    return False


# %% accepts: leaks
# title: narrow and copy_, and the answer is a tensor
def leaks(f, x, t):
    with torch.no_grad():
        noised = x.detach().clone()
        noised.narrow(-2, t, x.shape[-2] - t).normal_()
        return torch.any(f(noised).narrow(-2, 0, t) != f(x).narrow(-2, 0, t))


# %% accepts: leaks
# title: torch.where with a column of later places, and a generator of its own
def leaks(f, x, t):
    later = torch.arange(x.shape[-2])[:, None] >= t
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=x.dtype)
    one, other = f(x), f(torch.where(later, noise, x))
    return not all(bool((one[..., n, :] == other[..., n, :]).all()) for n in range(t))


# %% accepts: leaks
# title: Noise for all tokens, of which the later ones are used
def leaks(f, x, t):
    noised = torch.cat([x[..., :t, :], torch.randn_like(x)[..., t:, :]], dim=-2)
    return bool((f(x)[..., :t, :] != f(noised)[..., :t, :]).any())


# %% accepts: diagnose_mask
# title: Random tokens, patterns compared with those of the catalogue, sums up to rounding
def diagnose_mask(f):
    n = 6
    _, weights = f(torch.randn(n, 8))
    later = weights.nan_to_num(0.0)[1:] != 0
    full = torch.ones(n, n, dtype=torch.bool)
    for name, diagonal in (("self_blocked", -1), ("off_by_one", 1), ("unmasked", n)):
        if torch.equal(later, full.tril(diagonal)[1:]):
            return name
    return "ok" if torch.allclose(weights.sum(-1), torch.ones(n), atol=1e-4) else "post_softmax"


# %% accepts: diagnose_mask
# title: From the outputs that move when a later token moves, and the sums of the weights
def diagnose_mask(f):
    x = torch.randn(5, 8, dtype=torch.float64)
    output, weights = f(x)

    def moves(later):
        noised = x.clone()
        noised[later] = torch.randn(8, dtype=torch.float64)
        return bool(((f(noised)[0] - output)[1].abs() > 1e-9).any())  # query 1, up to rounding

    if weights[1, 1] == 0:
        return "self_blocked"
    if not moves(4):
        return "off_by_one" if moves(2) else "ok"
    return "post_softmax" if weights[1].sum() < 0.999 else "unmasked"


# %% accepts: diagnose_mask
# title: Counting the keys of a query in the middle
def diagnose_mask(f):
    _, weights = f(torch.ones(7, 3))
    row = weights[3].tolist()
    keys = sum(weight > 1e-6 for weight in row)
    if keys == 4:
        return "ok" if abs(sum(row) - 1) < 1e-3 else "post_softmax"
    return {3: "self_blocked", 5: "off_by_one", 7: "unmasked"}[keys]


# %% accepts: padding_mask
# title: A loop over the sentences
def padding_mask(lengths, n):
    mask = torch.zeros(len(lengths), 1, 1, n, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, ..., :length] = True
    return mask


# %% accepts: padding_mask
# title: The places that are left
def padding_mask(lengths, n):
    places = torch.arange(n, device=lengths.device).expand(lengths.shape[0], n)
    return ~(places >= lengths.unsqueeze(1)).unsqueeze(1).unsqueeze(1)


# %% accepts: padding_mask
# title: A running sum of ones
def padding_mask(lengths, n):
    counts = torch.ones(len(lengths), n, device=lengths.device).cumsum(1)
    return (counts <= lengths[:, None]).reshape(len(lengths), 1, 1, n)


# %% accepts: padding_mask
# title: Rows of a triangle
def padding_mask(lengths, n):
    rows = torch.ones(n + 1, n, dtype=torch.bool, device=lengths.device).tril(-1)
    return rows[lengths][:, None, None, :]


# %% accepts: combine_masks
# title: logical_and of expanded masks
def combine_masks(causal, padding):
    n = causal.shape[-1]
    return torch.logical_and(causal.expand(len(padding), 1, n, n), padding.expand(-1, 1, n, n))


# %% accepts: combine_masks
# title: A product of bools
def combine_masks(causal, padding):
    return causal[None, None] * padding


# %% accepts: combine_masks
# title: De Morgan
def combine_masks(causal, padding):
    return ~(~padding | ~causal)


# %% accepts: safe_attention
# title: -inf, and the rows of dead queries opened before the softmax
def safe_attention(query, key, value, mask):
    scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)
    dead = ~mask.any(-1, keepdim=True)
    scores = scores.masked_fill(~mask, float("-inf")).masked_fill(dead, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(dead, 0.0)
    return weights @ value, weights


# %% accepts: safe_attention
# title: einsum, a large negative number, and a product with the mask
def safe_attention(query, key, value, mask):
    scores = torch.einsum("...nd,...md->...nm", query, key) / query.shape[-1] ** 0.5
    weights = torch.where(mask, scores, -1e9).softmax(-1) * mask
    return torch.einsum("...nm,...mv->...nv", weights, value), weights


# %% accepts: safe_attention
# title: A softmax by hand over the allowed keys, in float64 inside
def safe_attention(query, key, value, mask):
    scores = (query.double() @ key.double().mT) * query.shape[-1] ** -0.5
    top = scores.detach().masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    shares = (scores - top).masked_fill(~mask, 0.0).exp() * mask
    total = shares.sum(-1, keepdim=True)
    weights = (shares / torch.where(total == 0, 1.0, total)).to(query.dtype)
    return weights @ value, weights


# %% accepts: safe_attention
# title: The ready-made function, applied to an identity for the weights
def safe_attention(query, key, value, mask):
    eye = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device).expand(*key.shape[:-2], -1, -1)
    weights = F.scaled_dot_product_attention(query, key, eye, mask)
    weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return weights @ value, weights


# %% accepts: safe_attention
# title: -inf by masked_fill, which keeps NaN out of the gradient, and dead queries repaired
def safe_attention(query, key, value, mask):
    scores = torch.matmul(query, key.mT) / math.sqrt(key.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
    weights = torch.where(mask.any(-1, keepdim=True), weights, torch.zeros_like(weights))
    return weights @ value, weights


# %% accepts: visibility
# title: A match of three cases
def visibility(kind, n_source, n_target):
    def full(n, m):
        return torch.full((n, m), True)

    if kind == "encoder":
        return {"encoder": full(n_source, n_source)}
    if kind == "decoder":
        return {"decoder": full(n_target, n_target).tril()}
    if kind == "encoder-decoder":
        both = visibility("encoder", n_source, n_target) | visibility("decoder", n_source, n_target)
        return {"cross": full(n_target, n_source), **both}
    raise ValueError("unknown kind: " + kind)


# %% accepts: visibility
# title: Names split at the hyphen, and comparisons of indices
def visibility(kind, n_source, n_target):
    if kind not in {"encoder", "decoder", "encoder-decoder"}:
        raise ValueError(kind)
    masks = {}
    for part in kind.split("-"):
        if part == "encoder":
            masks[part] = torch.zeros(n_source, n_source) == 0
        else:
            masks[part] = torch.arange(n_target)[:, None] >= torch.arange(n_target)
    if len(masks) == 2:
        masks["cross"] = torch.ones(n_target, n_source).bool()
    return masks


# %% accepts: shift_targets
# title: narrow, and copies
def shift_targets(ids):
    n = ids.shape[1] - 1
    return ids.narrow(1, 0, n).clone(), ids.narrow(1, 1, n).clone()


# %% accepts: shift_targets
# title: A roll, in a list
def shift_targets(ids):
    return [ids[..., :-1], torch.roll(ids, -1, dims=1)[..., :-1]]


# %% accepts: next_token_loss
# title: The classes moved to the second axis
def next_token_loss(model, ids):
    logits = model(ids[:, :-1])
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:])


# %% accepts: next_token_loss
# title: log_softmax and gather
def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    log_probabilities = torch.log_softmax(model(inputs), dim=-1)
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).mean()


# %% accepts: next_token_loss
# title: logsumexp minus the target's logit, place by place, with a one-hot vector
def next_token_loss(model, ids):
    inputs, targets = ids[:, :-1], ids[:, 1:]
    logits = model(inputs)
    chosen = (logits * F.one_hot(targets, logits.shape[-1])).sum(-1)
    return (torch.logsumexp(logits, -1) - chosen).sum() / targets.numel()


# %% accepts: next_token_loss
# title: nn.CrossEntropyLoss, one sequence after another
def next_token_loss(model, ids):
    loss = torch.nn.CrossEntropyLoss()
    logits = model(ids[:, :-1].contiguous())
    return torch.stack([loss(guess, row[1:]) for guess, row in zip(logits, ids)]).mean()
