"""Other right solutions of the unit "masks", all of which must get full marks.

A cell stands for the reference solution with this cell below it.
"""

# ruff: noqa: F811, F821


# %% accepts: causal_mask
# title: Positions compared with positions
def causal_mask(n, device=None):
    place = torch.arange(n, device=device)
    return place[None, :] <= place[:, None]


# %% accepts: causal_mask
# title: The opposite of a triangle above the diagonal
def causal_mask(n, device=None):
    return ~torch.triu(torch.ones((n, n), device=device, dtype=torch.bool), diagonal=1)


# %% accepts: causal_mask
# title: Row by row
def causal_mask(n, device=None):
    mask = torch.zeros(n, n, dtype=torch.bool, device=device)
    for query in range(n):
        mask[query, : query + 1] = True
    return mask


# %% accepts: to_additive
# title: torch.where
def to_additive(mask, dtype=torch.float32):
    nothing = torch.zeros((), dtype=dtype, device=mask.device)
    return torch.where(mask, nothing, nothing - math.inf)


# %% accepts: to_additive
# title: The logarithm of ones and zeros
def to_additive(mask, dtype=torch.float32):
    return mask.to(dtype).log()


# %% accepts: to_additive
# title: An assignment by index
def to_additive(mask, dtype=torch.float32):
    result = torch.zeros_like(mask, dtype=dtype)
    result[~mask] = float("-inf")
    return result


# %% accepts: to_blocked
# title: Compared with False
def to_blocked(mask):
    return mask == False  # noqa: E712


# %% accepts: to_blocked
# title: The function of torch
def to_blocked(mask):
    return torch.logical_not(mask)


# %% accepts: leaks
# title: Three draws, the largest difference of all
def leaks(f, x, t):
    before = f(x)[..., :t, :]
    worst = 0.0
    for _ in range(3):
        after = f(torch.cat([x[..., :t, :], 5 * torch.randn_like(x[..., t:, :])], dim=-2))[..., :t, :]
        worst = max(worst, (after - before).abs().max().item())
    return worst > 0


# %% accepts: leaks
# title: The tokens are moved, not drawn
def leaks(f, x, t):
    moved = x.detach().clone()
    moved[..., t:, :] += 1 + torch.rand_like(moved[..., t:, :])
    return bool((f(moved) != f(x))[..., :t, :].any())


# %% accepts: leaks
# title: Gradients are not at hand, so one token after the other
def leaks(f, x, t):
    before = f(x.clone())
    for s in range(t, x.shape[-2]):
        other = x.clone()
        other[..., s, :] = torch.randn(other[..., s, :].shape, dtype=x.dtype)
        if not torch.equal(f(other)[..., :t, :], before[..., :t, :]):
            return True
    return False


# %% accepts: diagnose_mask
# title: From the weights of random tokens
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


# %% accepts: diagnose_mask
# title: From which outputs move, and the sums of the weights
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


# %% accepts: padding_mask
# title: Sentence by sentence
def padding_mask(lengths, n):
    mask = torch.zeros(len(lengths), 1, 1, n, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, 0, 0, :length] = True
    return mask


# %% accepts: padding_mask
# title: View and broadcasting
def padding_mask(lengths, n):
    place = torch.arange(n, device=lengths.device).view(1, 1, 1, n)
    return lengths.view(-1, 1, 1, 1) > place


# %% accepts: combine_masks
# title: The product of bools
def combine_masks(causal, padding):
    return causal[None, None] * padding


# %% accepts: combine_masks
# title: logical_and of what is expanded
def combine_masks(causal, padding):
    batch, n = padding.shape[0], causal.shape[-1]
    return torch.logical_and(causal.expand(batch, 1, n, n), padding.expand(batch, 1, n, n))


# %% accepts: safe_attention
# title: -inf, except in rows with no allowed key
def safe_attention(query, key, value, mask):
    alive = mask.any(dim=-1, keepdim=True)
    scores = torch.einsum("...nd,...md->...nm", query, key) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask & alive, -math.inf).softmax(-1) * alive
    return torch.einsum("...nm,...mv->...nv", weights, value), weights


# %% accepts: safe_attention
# title: The softmax written out, with a sum that is never zero
def safe_attention(query, key, value, mask):
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    lowest = torch.finfo(scores.dtype).min
    top = scores.masked_fill(~mask, lowest).amax(-1, keepdim=True)
    shares = torch.where(mask, scores - top, lowest).exp() * mask
    total = shares.sum(-1, keepdim=True)
    weights = shares / torch.where(total == 0, torch.ones_like(total), total)
    return weights @ value, weights


# %% accepts: safe_attention
# title: float64 inside and cast back
def safe_attention(query, key, value, mask):
    scores = query.double() @ key.double().mT * query.shape[-1] ** -0.5
    weights = scores.masked_fill(~mask, -1e300).softmax(-1).masked_fill(~mask, 0.0)
    return (weights @ value.double()).to(value.dtype), weights.to(query.dtype)


# %% accepts: visibility
# title: if, elif, else
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


# %% accepts: shift_targets
# title: narrow
def shift_targets(ids):
    n = ids.shape[1] - 1
    return ids.narrow(1, 0, n), ids.narrow(1, 1, n).contiguous()


# %% accepts: shift_targets
# title: roll, and the last place cut off
def shift_targets(ids):
    return ids[..., :-1].clone(), ids.roll(-1, dims=1)[..., :-1]


# %% accepts: next_token_loss
# title: The logarithms of the probabilities of the targets, gathered
def next_token_loss(model, ids):
    log_probs = model(ids[:, :-1]).log_softmax(-1)
    return -log_probs.gather(-1, ids[:, 1:, None]).mean()


# %% accepts: next_token_loss
# title: The classes moved to where the loss of torch wants them
def next_token_loss(model, ids):
    logits = model(ids[:, :-1])
    return torch.nn.CrossEntropyLoss()(logits.transpose(1, 2), ids[:, 1:])
