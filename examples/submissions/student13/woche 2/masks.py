import math
from collections.abc import Callable
import torch
from torch import Tensor
from torch.nn import functional as F

def causal_mask(n, device=None):
	mask = torch.zeros(n, n, dtype=torch.bool, device=device)
	for query in range(n):
		mask[query, : query + 1] = True
	return mask

def to_additive(mask, dtype=torch.float32):
	result = torch.zeros_like(mask, dtype=dtype)
	result[~mask] = float("-inf")
	return result

def to_blocked(mask):
	return mask == False  # noqa: E712

def leaks(f, x, t):
	before = f(x.clone())
	for s in range(t, x.shape[-2]):
		other = x.clone()
		other[..., s, :] = torch.randn(other[..., s, :].shape, dtype=x.dtype)
		if not torch.equal(f(other)[..., :t, :], before[..., :t, :]):
			return True
	return False

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

def padding_mask(lengths, n):
	mask = torch.zeros(len(lengths), 1, 1, n, dtype=torch.bool, device=lengths.device)
	for b, length in enumerate(lengths.tolist()):
		mask[b, 0, 0, :length] = True
	return mask

def combine_masks(causal, padding):
	return causal[None, None] * padding

def safe_attention(query, key, value, mask):
	scores = query.double() @ key.double().mT * query.shape[-1] ** -0.5
	weights = scores.masked_fill(~mask, -1e300).softmax(-1).masked_fill(~mask, 0.0)
	return (weights @ value.double()).to(value.dtype), weights.to(query.dtype)

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

def shift_targets(ids):
	n = ids.shape[1] - 1
	return ids.narrow(1, 0, n), ids.narrow(1, 1, n).contiguous()

def next_token_loss(model, ids):
	log_probs = model(ids[:, :-1]).log_softmax(-1)
	return -log_probs.gather(-1, ids[:, 1:, None]).mean()
