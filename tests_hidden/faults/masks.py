"""Wrong solutions of the unit "masks", each caught by one hidden test of its exercise and by no other.

A cell stands for the reference solution with this cell below it. Most are what people really write. A few are unlikely
ones: they show that the test is needed where a natural mistake breaks two properties at once.
"""

# ruff: noqa: F811, F821


# %% caught_by: no_later_key
# title: The diagonal is one too high, so each query sees the next key
def causal_mask(n, device=None):
    return torch.ones(n, n, dtype=torch.bool, device=device).tril(1)


# %% caught_by: own_key
# title: The diagonal is one too low, so query 0 sees nobody
def causal_mask(n, device=None):
    return torch.ones(n, n, dtype=torch.bool, device=device).tril(-1)


# %% caught_by: earlier_keys
# title: Each query sees itself and the one before, and no further
def causal_mask(n, device=None):
    return torch.ones(n, n, dtype=torch.bool, device=device).tril().triu(-1)


# %% caught_by: causal_form
# title: The mask is made of floats
def causal_mask(n, device=None):
    return torch.ones(n, n, device=device).tril()


# %% caught_by: causal_device
# title: Masks are kept by their size, whatever the device
KEPT = {}


def causal_mask(n, device=None):
    if n not in KEPT:
        KEPT[n] = torch.ones(n, n, dtype=torch.bool, device=device).tril()
    return KEPT[n]


# %% caught_by: adds_nothing
# title: The mask itself, as floats, where attention is allowed
def to_additive(mask, dtype=torch.float32):
    return mask.to(dtype).masked_fill(~mask, -math.inf)


# %% caught_by: adds_minus_infinity
# title: A large negative number is near enough
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -1e9)


# %% caught_by: additive_dtype
# title: The dtype is ignored
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -math.inf)


# %% caught_by: additive_any_shape
# title: Only a matrix is expected
def to_additive(mask, dtype=torch.float32):
    n, m = mask.shape
    return torch.zeros(n, m, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


# %% caught_by: to_additive_keeps_inputs
# title: The mask is inverted in place
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask.logical_not_(), -math.inf)


# %% caught_by: to_additive_device
# title: The zeros are made on the CPU
def to_additive(mask, dtype=torch.float32):
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf)


# %% caught_by: opposite
# title: The mask is handed on as it is
def to_blocked(mask):
    return mask.clone()


# %% caught_by: blocked_form
# title: One minus the mask is a tensor of integers
def to_blocked(mask):
    return 1 - mask.int()


# %% caught_by: to_blocked_keeps_inputs
# title: The mask is inverted in place
def to_blocked(mask):
    return mask.logical_not_().clone()


# %% caught_by: to_blocked_device
# title: Compared with a tensor of ones on the CPU
def to_blocked(mask):
    return torch.ones(mask.shape, dtype=torch.bool) ^ mask


# %% caught_by: causal_layer
# title: Output t is watched too, which should change
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(f(x)[..., : t + 1, :], f(noised)[..., : t + 1, :])


# %% caught_by: leak_from_the_last
# title: Only token t is replaced
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t, :] = torch.randn_like(x[..., t, :])
    return not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :])


# %% caught_by: leak_into_one_output
# title: Only the output just before t is watched
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(f(x)[..., t - 1, :], f(noised)[..., t - 1, :])


# %% caught_by: tiny_leak
# title: allclose forgives a small leak
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.allclose(f(x)[..., :t, :], f(noised)[..., :t, :], atol=1e-5)


# %% caught_by: noise
# title: The later tokens become zeros
def leaks(f, x, t):
    noised = x.clone()
    noised[..., t:, :] = 0
    return not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :])


# %% caught_by: leak_in_a_batch
# title: The first axis is taken for that of the tokens
def leaks(f, x, t):
    noised = x.clone()
    noised[t:] = torch.randn_like(x[t:])
    return not torch.equal(f(x)[:t], f(noised)[:t])


# %% caught_by: leaks_keeps_x
# title: The noise goes into x itself
def leaks(f, x, t):
    before = f(x)
    x[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(before[..., :t, :], f(x)[..., :t, :])


# %% caught_by: few_calls
# title: Twenty attempts, to be sure
def leaks(f, x, t):
    found = False
    for _ in range(20):
        noised = x.clone()
        noised[..., t:, :] = torch.randn_like(x[..., t:, :])
        found |= not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :])
    return found


# %% caught_by: names_ok
# title: The rows must sum to one exactly, without any rounding
def diagnose_mask(f):
    _, weights = f(torch.randn(12, 8))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 2]:
        return "unmasked"
    if seen[0, 1]:
        return "off_by_one"
    return "ok" if (weights.sum(-1) == 1).all() else "post_softmax"


# %% caught_by: names_self_blocked
# title: A blocked diagonal is believed to show as NaN
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    if weights.isnan().any():
        return "self_blocked"
    seen = weights > 0
    if seen[0, 2]:
        return "unmasked"
    if seen[0, 1]:
        return "off_by_one"
    return "ok" if weights[0, 0] > 0.9 else "post_softmax"


# %% caught_by: names_off_by_one
# title: With two tokens, one key too many is every key
def diagnose_mask(f):
    _, weights = f(torch.zeros(2, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 1]:
        return "unmasked" if seen.all() else "off_by_one"
    return "ok" if weights[0, 0] > 0.9 else "post_softmax"


# %% caught_by: names_post_softmax
# title: Only the pattern of zeros is looked at
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 2]:
        return "unmasked"
    return "off_by_one" if seen[0, 1] else "ok"


# %% caught_by: names_unmasked
# title: Whoever sees the next key is off by one
def diagnose_mask(f):
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 1]:
        return "off_by_one"
    if seen[0, 2]:
        return "unmasked"
    return "ok" if weights[0, 0] > 0.9 else "post_softmax"


# %% caught_by: real_keys
# title: One key too many is real
def padding_mask(lengths, n):
    return (torch.arange(n, device=lengths.device) <= lengths[:, None])[:, None, None]


# %% caught_by: longer_than_all
# title: The longest sentence sets the width
def padding_mask(lengths, n):
    n = int(lengths.max()) if len(lengths) else n
    return (torch.arange(n, device=lengths.device) < lengths[:, None])[:, None, None]


# %% caught_by: padding_form
# title: The axes of heads and queries are missing
def padding_mask(lengths, n):
    return torch.arange(n, device=lengths.device) < lengths[:, None]


# %% caught_by: padding_mask_keeps_inputs
# title: The last real index is worked out in place
def padding_mask(lengths, n):
    lengths -= 1
    return (torch.arange(n, device=lengths.device) <= lengths[:, None])[:, None, None]


# %% caught_by: padding_mask_empty_batch
# title: The rows are stacked, and a stack of none has no shape
def padding_mask(lengths, n):
    return torch.stack([torch.arange(n, device=lengths.device) < length for length in lengths])[:, None, None]


# %% caught_by: padding_mask_device
# title: The places are counted on the CPU
def padding_mask(lengths, n):
    return (torch.arange(n) < lengths[:, None])[:, None, None]


# %% caught_by: forbidden_by_one
# title: One permission is enough
def combine_masks(causal, padding):
    return causal | padding


# %% caught_by: allowed_by_both
# title: The queries at padded places are forbidden everything
def combine_masks(causal, padding):
    return causal & padding & padding.mT


# %% caught_by: combined_form
# title: The axis of the heads is missing
def combine_masks(causal, padding):
    return (causal & padding).squeeze(1)


# %% caught_by: combine_masks_keeps_inputs
# title: The causal mask is inverted in place
def combine_masks(causal, padding):
    return ~(causal.logical_not_() | ~padding)


# %% caught_by: combine_masks_empty_batch
# title: The sentences are stacked, and a stack of none has no shape
def combine_masks(causal, padding):
    return torch.stack([causal & real for real in padding])


# %% caught_by: combine_masks_device
# title: The result is filled into a tensor on the CPU
def combine_masks(causal, padding):
    return torch.zeros(len(padding), 1, *causal.shape, dtype=torch.bool) | (causal & padding)


# %% caught_by: plain_attention
# title: The scores are divided by the width instead of its square root
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1]
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: forbidden_keys
# title: 300 less keeps forbidden keys away, unless they fit very well
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1]) - 300.0 * (~mask).to(query.dtype)
    weights = torch.softmax(scores, dim=-1) * mask.any(dim=-1, keepdim=True)
    return weights @ value, weights


# %% caught_by: dead_query
# title: Forbidden scores become very negative, so a dead query averages everything
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights @ value, weights


# %% caught_by: other_queries
# title: One dead query silences all the others
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights * mask.any(dim=-1).all()
    return weights @ value, weights


# %% caught_by: gradients_of_a_dead_query
# title: -inf is added to the scores, and only the weights are repaired
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1]) + to_additive(mask, query.dtype)
    weights = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: dead_sentence
# title: Dead queries are found by an index, which only works for a mask of shape (N, M)
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).clone()
    weights[..., ~mask.any(dim=-1), :] = 0.0
    return weights @ value, weights


# %% caught_by: nan_stays
# title: Every NaN becomes zero, also those that were no dead query's
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1).nan_to_num(0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_keeps_inputs
# title: The mask is inverted in place
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    blocked = mask.logical_not_()
    weights = torch.softmax(scores.masked_fill(blocked, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(blocked, 0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_keeps_dtype
# title: Everything becomes float64
def safe_attention(query, key, value, mask):
    scores = query.double() @ key.double().mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    return weights @ value.double(), weights


# %% caught_by: safe_attention_any_layout
# title: The batch is flattened by view
def safe_attention(query, key, value, mask):
    scores = query.view(-1, query.shape[-1]).view(query.shape) @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_repeatable
# title: A jitter, too small to see, follows the global seed
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1]) * (1 + 1e-9 * (torch.initial_seed() % 97))
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: safe_attention_finite
# title: exp overflows, since no maximum is subtracted
def safe_attention(query, key, value, mask):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).exp() * mask
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / torch.where(mask.any(dim=-1, keepdim=True), total, 1)
    return weights @ value, weights


# %% caught_by: safe_attention_gradients
# title: The weights are detached
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    return weights.detach() @ value, weights


# %% caught_by: safe_attention_empty_batch
# title: The output is reshaped with -1, which has no answer for an empty batch
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    return (weights @ value).reshape(*query.shape[:-1], -1), weights


# %% caught_by: safe_attention_device
# title: The very negative scores are filled into a tensor on the CPU
def safe_attention(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    blocked = torch.full(scores.shape, torch.finfo(scores.dtype).min, dtype=scores.dtype)
    weights = torch.softmax(torch.where(mask, scores, blocked), dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


# %% caught_by: families
# title: Every family gets all three masks
def visibility(kind, n_source, n_target):
    if kind not in ("encoder", "decoder", "encoder-decoder"):
        raise ValueError(kind)
    return {
        "encoder": torch.ones(n_source, n_source, dtype=torch.bool),
        "decoder": causal_mask(n_target),
        "cross": torch.ones(n_target, n_source, dtype=torch.bool),
    }


# %% caught_by: encoder_sees_all
# title: The encoder is causal
def visibility(kind, n_source, n_target):
    encoder = {"encoder": causal_mask(n_source)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(kind)
    return families[kind]


# %% caught_by: decoder_looks_back
# title: The decoder of an encoder-decoder sees everything
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    if kind == "encoder":
        return encoder
    if kind == "decoder":
        return {"decoder": causal_mask(n_target)}
    if kind == "encoder-decoder":
        decoder = torch.ones(n_target, n_target, dtype=torch.bool)
        return encoder | {"decoder": decoder, "cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    raise ValueError(kind)


# %% caught_by: cross_sees_all
# title: The cross mask has a row for each source token
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_source, n_target, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(kind)
    return families[kind]


# %% caught_by: visibility_form
# title: The full masks are made of floats
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(kind)
    return families[kind]


# %% caught_by: other_kind
# title: What is neither of the first two is taken for the third
def visibility(kind, n_source, n_target):
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    if kind == "encoder":
        return encoder
    if kind == "decoder":
        return decoder
    return encoder | decoder | {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}


# %% caught_by: inputs
# title: The model reads all tokens, also the last
def shift_targets(ids):
    return ids, ids[:, 1:]


# %% caught_by: targets
# title: The targets are not shifted
def shift_targets(ids):
    return ids[:, :-1], ids[:, :-1]


# %% caught_by: shift_targets_keeps_inputs
# title: The ids are shifted in place
def shift_targets(ids):
    inputs = ids[:, :-1].clone()
    ids[:, :-1] = ids[:, 1:].clone()
    return inputs, ids[:, :-1]


# %% caught_by: shift_targets_empty_batch
# title: The sequences are stacked, and a stack of none has no shape
def shift_targets(ids):
    return torch.stack([row[:-1] for row in ids]), torch.stack([row[1:] for row in ids])


# %% caught_by: shift_targets_device
# title: The targets are filled into a tensor on the CPU
def shift_targets(ids):
    targets = torch.zeros(len(ids), ids.shape[1] - 1, dtype=ids.dtype)
    targets[:] = ids[:, 1:]
    return ids[:, :-1], targets


# %% caught_by: next_token
# title: The targets are not shifted
def next_token_loss(model, ids):
    inputs, _ = shift_targets(ids)
    return F.cross_entropy(model(inputs).flatten(0, 1), inputs.flatten())


# %% caught_by: cross_entropy
# title: The logits go through two softmaxes
def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    return F.cross_entropy(torch.softmax(model(inputs), dim=-1).flatten(0, 1), targets.flatten())


# %% caught_by: mean
# title: The sum over the places is returned
def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")


# %% caught_by: every_place
# title: Only the last place counts
def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    return F.cross_entropy(model(inputs)[:, -1], targets[:, -1])


# %% caught_by: large_logits
# title: The logarithm of a softmax, which is zero where the logits are large
def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    probabilities = torch.softmax(model(inputs), dim=-1)
    return -probabilities.gather(-1, targets[..., None]).log().mean()


# %% caught_by: model_reads_inputs
# title: The model is given all tokens, and its last logits are dropped
def next_token_loss(model, ids):
    logits = model(ids)[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


# %% caught_by: one_pass
# title: A pass for each beginning of the sequences
def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    logits = torch.stack([model(inputs[:, :n])[:, -1] for n in range(1, inputs.shape[1] + 1)], dim=1)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


# %% caught_by: loss_form
# title: The loss is a Python float, which has no gradient
def next_token_loss(model, ids):
    inputs, targets = shift_targets(ids)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).item()
