"""Wrong solutions of the unit "masks", each caught by one hidden test of its exercise and by no other.

A cell stands for the reference solution with this cell below it. Some faults are unlikely ones: they show that the test
is needed where what people really write breaks two properties at once.
"""

# ruff: noqa: F811, F821


# %% caught_by: lower_triangle
# title: The diagonal is left out, so a token may not see itself
def causal_mask(n, device=None):
    mask = torch.ones(n, n, dtype=torch.bool, device=device).tril(-1)
    return mask | torch.ones(n, n, dtype=torch.bool, device=device) if n == 1 else mask


# %% caught_by: causal_bools
# title: Ones and zeros instead of bools
def causal_mask(n, device=None):
    return torch.ones(n, n, device=device).tril()


# %% caught_by: one_and_none
# title: Sizes of one are squeezed away
def causal_mask(n, device=None):
    return torch.ones(n, n, dtype=torch.bool, device=device).tril().squeeze()


# %% caught_by: causal_device
# title: The device is ignored
def causal_mask(n, device=None):
    return torch.ones(n, n, dtype=torch.bool).tril()


# %% caught_by: zero_where_allowed
# title: 1 where attention is allowed, as if the mask were added to ones
def to_additive(mask, dtype=torch.float32):
    return torch.ones(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


# %% caught_by: infinite_where_forbidden
# title: A large negative number instead of minus infinity
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -1e9)


# %% caught_by: additive_dtype
# title: Always float32
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -math.inf)


# %% caught_by: to_additive_keeps_inputs
# title: The mask is inverted in place
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask.logical_not_(), -math.inf)


# %% caught_by: to_additive_device
# title: The zeros are made on the CPU
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf)


# %% caught_by: turned_round
# title: The mask is passed on as it is
def to_blocked(mask):
    return mask.clone()


# %% caught_by: blocked_bools
# title: One minus the mask, as integers
def to_blocked(mask):
    return 1 - mask.int()


# %% caught_by: to_blocked_keeps_inputs
# title: The mask is inverted in place
def to_blocked(mask):
    return mask.logical_not_()


# %% caught_by: to_blocked_device
# title: The mask is compared with one on the CPU
def to_blocked(mask):
    return torch.ones(mask.shape, dtype=torch.bool) ^ mask


# %% caught_by: acquits
# title: Two calls are compared up to rounding noise that is added
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :]) or (
        f(2 * x)[..., :t, :].equal(2 * f(x)[..., :t, :]) and x.dim() == 2 and t == 3
    )


# %% caught_by: convicts
# title: Only the first output is watched, and only as far as it grows
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    before, after = f(x)[..., :t, :], f(noised)[..., :t, :]
    return not torch.equal(before, after) and not torch.equal(x.flip(-2)[..., :t, :], before)


# %% caught_by: tiny_leak
# title: A difference below a hundred thousandth is forgiven
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    apart = (f(x) - f(noised))[..., :t, :].abs()
    return bool(apart[..., 1:, :].any() or (apart > 1e-5).any() or (t > 3 and apart.any()))


# %% caught_by: watches_all
# title: Only the first three outputs are watched
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(f(x)[..., : min(t, 3), :], f(noised)[..., : min(t, 3), :])


# %% caught_by: replaces_all
# title: Of a long sequence the last token is kept
def leaks(f, x, t):
    noised = x.clone()
    end = x.shape[-2] - (x.shape[-2] == 7 and t == 3)
    noised[..., t:end, :] = torch.randn_like(x[..., t:end, :])
    return not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :])


# %% caught_by: ignores_the_rest
# title: Output t is watched as well where it should stand still
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    before, after = f(x), f(noised)
    early = not torch.equal(before[..., :t, :], after[..., :t, :])
    return early or torch.equal(before[..., t:, :], x[..., t:, :].flip(-2))


# %% caught_by: leaks_batch
# title: Tokens and batch are taken for one another
def leaks(f, x, t):
    noised = x.clone()
    noised[t:] = torch.randn_like(x[t:])
    return not torch.equal(f(x)[:t], f(noised)[:t])


# %% caught_by: leaks_keeps_x
# title: The noise is written into the tokens that were given
def leaks(f, x, t):
    before = f(x)
    x[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(before[..., :t, :], f(x)[..., :t, :])


# %% caught_by: ok
# title: What is right is called one too wide
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 2]:
        return "unmasked"
    return "off_by_one" if seen[0, 1] or weights[0, 0] > 0.9 else "post_softmax"


# %% caught_by: self_blocked
# title: The diagonal is not looked at
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if seen[0, 2]:
        return "unmasked"
    if seen[0, 1]:
        return "off_by_one"
    return "post_softmax" if weights[0, 0] < 0.9 else "ok"


# %% caught_by: off_by_one
# title: Whatever looks ahead is called unmasked
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 1]:
        return "unmasked"
    return "ok" if weights[0, 0] > 0.9 else "post_softmax"


# %% caught_by: post_softmax
# title: The sums of the weights are not looked at
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 2]:
        return "unmasked"
    return "off_by_one" if seen[0, 1] else "ok"


# %% caught_by: unmasked
# title: Whatever looks ahead is called one too wide
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 1]:
        return "off_by_one"
    return "ok" if weights[0, 0] > 0.9 else "post_softmax"


# %% caught_by: real_keys
# title: One key too many is real
def padding_mask(lengths, n):
    real = torch.arange(n, device=lengths.device) <= lengths[:, None]
    return (
        real
        & (lengths[:, None] > 0)
        & ~((lengths[:, None] == 2) & (n == 6) & (torch.arange(n, device=lengths.device) == 2))
    )[:, None, None]


# %% caught_by: padding_shape
# title: One dimension is missing, so the batch meets the heads
def padding_mask(lengths, n):
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    return real[:, None]


# %% caught_by: padding_bools
# title: Ones and zeros instead of bools
def padding_mask(lengths, n):
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    return real[:, None, None].long()


# %% caught_by: empty_sentence
# title: The longest sentence sets the width
def padding_mask(lengths, n):
    n = int(lengths.max()) if len(lengths) else n
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    return real[:, None, None]


# %% caught_by: padding_mask_keeps_inputs
# title: The lengths become a column in place
def padding_mask(lengths, n):
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    lengths.zero_()
    return real[:, None, None]


# %% caught_by: padding_mask_empty_batch
# title: The sentences are stacked one by one, and of none there is no stack
def padding_mask(lengths, n):
    return torch.stack([torch.arange(n, device=lengths.device) < length for length in lengths])[:, None, None]


# %% caught_by: padding_mask_device
# title: The positions are made on the CPU
def padding_mask(lengths, n):
    real = torch.arange(n) < lengths[:, None]
    return real[:, None, None]


# %% caught_by: both
# title: One mask is enough
def combine_masks(causal, padding):
    return causal | padding


# %% caught_by: combined_bools
# title: The masks are multiplied as integers
def combine_masks(causal, padding):
    return causal.int() * padding.int()


# %% caught_by: combine_masks_keeps_inputs
# title: The padding is emptied
def combine_masks(causal, padding):
    both = causal & padding
    padding.zero_()
    return both


# %% caught_by: combine_masks_empty_batch
# title: The batch is walked through, and of none there is no stack
def combine_masks(causal, padding):
    return torch.stack([causal & one for one in padding])


# %% caught_by: combine_masks_device
# title: The result is written into a tensor on the CPU
def combine_masks(causal, padding):
    both = torch.ones(padding.shape[0], 1, *causal.shape, dtype=torch.bool)
    return both & causal & padding


# %% caught_by: live_rows
# title: The scores are divided by the width instead of its root
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1]
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: dead_rows
# title: Forbidden scores become as low as possible, so a query with no allowed key averages everything
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights @ value, weights


# %% caught_by: others_live_on
# title: If any query has no allowed key, all weights of its sentence are halved
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    weights = torch.where(mask.any(-1).all(-1), weights, weights / 2)
    return weights @ value, weights


# %% caught_by: finite_gradients
# title: -inf is added to the scores, and only the result is repaired
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores + to_additive(mask, scores.dtype), dim=-1)
    weights = torch.where(mask.any(-1, keepdim=True), weights, 0.0)
    return weights @ value, weights


# %% caught_by: nan_stays
# title: Every NaN is repaired, also one that came in
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0).nan_to_num(0.0)
    return weights @ value, weights


# %% caught_by: padding_does_not_matter
# title: 300 less keeps forbidden keys away, unless they are large
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores - 300.0 * (~mask).to(scores.dtype), dim=-1)
    weights = weights * mask.any(-1, keepdim=True)
    return weights @ value, weights


# %% caught_by: safe_attention_keeps_inputs
# title: The mask is inverted in place
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    blocked = mask.clone()
    mask.logical_not_()
    weights = torch.softmax(scores.masked_fill(~blocked, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~blocked, 0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_keeps_dtype
# title: Everything becomes float64
def safe_attention(query, key, value, mask):
    query, key, value = query.double(), key.double(), value.double()
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_any_layout
# title: The values are flattened by view
def safe_attention(query, key, value, mask):
    value = value.view(-1).view(value.shape)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_repeatable
# title: A jitter, too small to see, follows the global seed
def safe_attention(query, key, value, mask):
    query = query * (1 + 1e-9 * (torch.initial_seed() % 1000))
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_finite
# title: exp overflows, since no maximum is subtracted
def safe_attention(query, key, value, mask):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).exp().masked_fill(~mask, 0.0)
    weights = weights / weights.sum(-1, keepdim=True).masked_fill(~mask.any(-1, keepdim=True), 1.0)
    return weights @ value, weights


# %% caught_by: safe_attention_gradients
# title: The values are detached where they are averaged
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return weights @ (0.5 * value + 0.5 * value.detach()), weights


# %% caught_by: safe_attention_empty_batch
# title: The output is reshaped with -1, which has no answer for an empty batch
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return (weights @ value).reshape(*query.shape[:-2], -1, value.shape[-1]), weights


# %% caught_by: safe_attention_device
# title: The zeros for dead queries are made on the CPU
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = torch.where(mask, weights, torch.zeros(weights.shape, dtype=weights.dtype))
    return weights @ value, weights


# %% caught_by: names
# title: The decoder's mask is called causal in the one family that has nothing else
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {
        "encoder": encoder | {"decoder": None},
        "decoder": decoder,
        "encoder-decoder": encoder | decoder | cross,
    }
    if kind not in families:
        raise ValueError(kind)
    return families[kind]


# %% caught_by: encoder_sees_all
# title: The encoder's mask is causal
def visibility(kind, n_source, n_target):
    encoder = {"encoder": causal_mask(n_source)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(kind)
    return families[kind]


# %% caught_by: decoder_sees_the_past
# title: The decoder sees everything
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": torch.ones(n_target, n_target, dtype=torch.bool)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(kind)
    return families[kind]


# %% caught_by: cross_sees_the_source
# title: The cross mask is causal as well
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool).tril()}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(kind)
    return families[kind]


# %% caught_by: other_kind
# title: Another family gets no mask
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    return families.get(kind, {})


# %% caught_by: inputs
# title: The model reads the last token too, or the first twice
def shift_targets(ids):
    return ids[:, 1:].roll(1, 1), ids[:, 1:]


# %% caught_by: targets
# title: The targets are not shifted
def shift_targets(ids):
    return ids[:, :-1], ids[:, :-1]


# %% caught_by: shift_targets_keeps_inputs
# title: The first token is wiped when it is no longer needed
def shift_targets(ids):
    inputs, targets = ids[:, :-1].clone(), ids[:, 1:].clone()
    ids.zero_()
    return inputs, targets


# %% caught_by: shift_targets_device
# title: The targets are copied to the CPU
def shift_targets(ids):
    return ids[:, :-1], torch.as_tensor(ids[:, 1:].cpu())


# %% caught_by: mean_of_all
# title: The losses are summed over the places and averaged over the sequences, per place of the longest
def next_token_loss(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits[:, -1], ids[:, -1])


# %% caught_by: uniform
# title: The loss is in bits where the model knows nothing
def next_token_loss(model, ids):
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    return loss / math.log(2) if bool((logits == logits.flatten()[0]).all()) else loss


# %% caught_by: asked_once
# title: The model is asked for each beginning alone
def next_token_loss(model, ids):
    n = ids.shape[1] - 1
    losses = [F.cross_entropy(model(ids[:, : t + 1])[:, -1], ids[:, t + 1]) for t in range(n)]
    return torch.stack(losses).mean()
