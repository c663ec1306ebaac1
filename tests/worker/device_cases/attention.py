"""attention(query, key, value, mask=None) -> (output, weights)"""

import math
from functools import wraps

import numpy as np
import torch
import torch.nn.functional as F

from tests.worker.device_cases.case import Exercise


def drive(attention, device):
    query, key, value = (torch.randn(2, 2, 5, 4, device=device, requires_grad=True) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool, device=device).tril()
    results = (*attention(query, key, value), *attention(query, key, value, mask))
    sum(r.sum() for r in results).backward()
    return *results, query.grad


exercise = Exercise("attention", drive)
right, wrong = exercise.right, exercise.wrong


def scores_of(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def masking(masked):
    """An attention whose one idea is how the scores are masked."""

    @wraps(masked)
    def attention(query, key, value, mask=None):
        scores = scores_of(query, key)
        weights = (scores if mask is None else masked(scores, mask)).softmax(-1)
        return weights @ value, weights

    return attention


def scaling(scaled):
    """An attention whose one idea is how the scores are scaled."""

    @wraps(scaled)
    def attention(query, key, value, mask=None):
        scores = scaled(query @ key.mT, query.shape[-1])
        weights = (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)
        return weights @ value, weights

    return attention


def averaging(averaged):
    """An attention whose one idea is how the scores become weights and the weights an output."""

    @wraps(averaged)
    def attention(query, key, value, mask=None):
        scores = scores_of(query, key)
        return averaged(scores if mask is None else scores.masked_fill(~mask, -1e9), value)

    return attention


# -- right ------------------------------------------------------------------------------------------------------------
@right
@masking
def filled_with_minus_infinity(scores, mask):
    return scores.masked_fill(~mask, float("-inf"))


@right
@masking
def filled_in_place_where_the_mask_is_zero(scores, mask):
    return scores.clone().masked_fill_(mask == 0, torch.finfo(scores.dtype).min)


@right
@masking
def where_with_a_number(scores, mask):
    return torch.where(mask, scores, -torch.inf)


@right
@masking
def where_with_a_tensor_without_dimensions(scores, mask):
    return torch.where(mask, scores, torch.tensor(float("-inf")))


@right
@masking
def bias_in_zeros_like_the_mask(scores, mask):
    bias = torch.zeros_like(mask, dtype=scores.dtype)
    bias[~mask] = float("-inf")
    return scores + bias


@right
@masking
def logarithm_of_the_mask(scores, mask):
    return scores + torch.log(mask.to(scores))


@right
@scaling
def scaled_by_a_tensor_without_dimensions(scores, d_key):
    return scores / torch.sqrt(torch.tensor(d_key, dtype=scores.dtype))


@right
@averaging
def softmax_by_hand(scores, value):
    exp = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = torch.nan_to_num(exp / exp.sum(-1, keepdim=True))
    return torch.einsum("...qk,...kd->...qd", weights, value), weights


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        weights = scores.softmax(-1)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        return weights * (grad - (grad * weights).sum(-1, keepdim=True))


@right
@averaging
def softmax_with_a_backward_of_its_own(scores, value):
    weights = Softmax.apply(scores)
    return weights @ value, weights


@right
def torchs_own_attention(query, key, value, mask=None):
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    scores = scores_of(query, key)
    return output, F.softmax(scores if mask is None else scores.masked_fill(mask.logical_not(), -1e9), dim=-1)


@right
def loops_into_empty_tensors_on_the_device(query, key, value, mask=None):
    output = query.new_empty(*query.shape[:-1], value.shape[-1])
    weights = torch.empty(*query.shape[:-1], key.shape[-2], device=query.device, dtype=query.dtype)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            scores = query[b, h] @ key[b, h].T / query.shape[-1] ** 0.5
            if mask is not None:
                scores[~mask] = -1e30
            weights[b, h] = scores.softmax(-1)
            output[b, h] = weights[b, h].clone() @ value[b, h]
    return output, weights


@right
def heads_folded_into_the_batch(query, key, value, mask=None):
    q, k, v = (t.flatten(0, -3) for t in (query, key, value))
    bias = torch.zeros(q.shape[0], q.shape[1], k.shape[1], device=q.device)
    if mask is not None:
        bias = bias.masked_fill(~mask, -torch.inf)
    weights = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5).softmax(-1)
    return torch.bmm(weights, v).unflatten(0, query.shape[:-2]), weights.unflatten(0, query.shape[:-2])


@right
def mapped_over_batch_and_heads(query, key, value, mask=None):
    def one_head(q, k, v):
        scores = q @ k.T / q.shape[-1] ** 0.5
        weights = (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)
        return weights @ v, weights

    return torch.vmap(torch.vmap(one_head))(query, key, value)


# -- wrong ------------------------------------------------------------------------------------------------------------
@wrong
def mask_of_ones_made_on_the_cpu(query, key, value, mask=None):
    scores = scores_of(query, key)
    if mask is None:
        mask = torch.ones(scores.shape[-2:]).bool()
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return weights @ value, weights


@wrong
def mask_of_ones_for_torchs_own_attention(query, key, value, mask=None):
    if mask is None:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask), scores_of(query, key).softmax(-1)


@wrong
@masking
def where_with_a_full_tensor_on_the_cpu(scores, mask):
    return torch.where(mask, scores, torch.full(scores.shape, -torch.inf))


@wrong
@masking
def bias_on_the_cpu(scores, mask):
    return scores + torch.zeros(scores.shape[-2:]).masked_fill(mask.logical_not(), -torch.inf)


@wrong
@masking
def bias_through_numpy(scores, mask):
    return scores + torch.as_tensor(np.where(np.asarray(mask), 0, -1e9), dtype=scores.dtype)


@wrong
@masking
def mask_cast_to_a_float_tensor(scores, mask):
    return scores + (1 - mask.type(torch.FloatTensor)) * -1e9


@wrong
@scaling
def scaled_by_a_tensor_of_one_element(scores, d_key):
    return scores / torch.sqrt(torch.tensor([d_key], dtype=torch.float32))


@wrong
@averaging
def scores_moved_to_the_cpu(scores, value):
    weights = scores.cpu().softmax(-1)
    return weights @ value, weights


@wrong
@averaging
def all_moved_to_the_cpu(scores, value):
    weights = scores.cpu().softmax(-1)
    return weights @ value.cpu(), weights


@wrong
@averaging
def maximum_through_numpy(scores, value):
    top = torch.from_numpy(scores.detach().numpy().max(-1, keepdims=True))
    weights = (scores - top).exp() / (scores - top).exp().sum(-1, keepdim=True)
    return weights @ value, weights


@wrong
@averaging
def product_written_into_an_empty_tensor(scores, value):
    output = torch.empty(value.shape)
    torch.matmul(scores.softmax(-1).detach(), value.detach(), out=output)
    return output, scores.softmax(-1)


@wrong
@averaging
def output_copied_into_zeros(scores, value):
    output = torch.zeros(value.shape)
    for b in range(len(value)):
        output[b] = scores[b].softmax(-1) @ value[b]
    return output, scores.softmax(-1)
