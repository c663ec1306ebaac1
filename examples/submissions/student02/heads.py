import math
import torch
from torch import Tensor, nn


def attention(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


def split_heads(x, n_heads):
    if x.size(-1) % n_heads:
        raise ValueError(f"{x.size(-1)} columns in {n_heads} heads")
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


def head_dim(d_model, n_heads):
    width = int(d_model / n_heads)
    if width * n_heads != d_model:
        raise ValueError("there is no head of such a width")
    return width


def mha_params(d_model, bias=False):
    if bias:
        return 4 * d_model * (d_model + 1)
    return 4 * d_model * d_model


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads, self.d_head = n_heads, head_dim(d_model, n_heads)
        self.w_query, self.w_key, self.w_value, self.w_out = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, context=None, mask=None):
        if context is None:
            context = x
        query = self.w_query(x).unflatten(-1, (self.n_heads, self.d_head)) * self.d_head**-0.5
        key = self.w_key(context).unflatten(-1, (self.n_heads, self.d_head))
        value = self.w_value(context).unflatten(-1, (self.n_heads, self.d_head))
        scores = torch.einsum("bnhd,bmhd->bhnm", query, key)
        if mask is not None:
            scores = torch.where(mask, scores, -1e9)
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights * mask
        return self.w_out(torch.einsum("bhnm,bmhd->bnhd", weights, value).flatten(2))


class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads, self.d_head = n_heads, head_dim(d_model, n_heads)
        self.w_qkv = nn.Linear(d_model, d_model * 3, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        query, key, value = torch.split(self.w_qkv(x), x.shape[-1], dim=-1)
        query, key, value = (split_heads(t, self.n_heads) for t in (query, key, value))
        future = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        weights = torch.softmax(query @ key.transpose(-1, -2) / self.d_head**0.5 + future, dim=-1)
        return self.w_out(merge_heads(weights @ value))


class CrossAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        head_dim(d_model, n_heads)
        self.n_heads = n_heads
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context, mask=None):
        query = split_heads(self.w_query(x), self.n_heads)
        key = split_heads(self.w_key(context), self.n_heads)
        value = split_heads(self.w_value(context), self.n_heads)
        output, weights = attention(query, key, value, mask)
        return self.w_out(merge_heads(output)), weights


def copy_into_torch(module):
    mine, theirs = (module.state_dict(), {})
    layers = ["w_qkv"] if "w_qkv.weight" in mine else ["w_query", "w_key", "w_value"]
    for part in ("weight", "bias"):
        if f"w_out.{part}" in mine:
            theirs[f"in_proj_{part}"] = torch.cat([mine[f"{layer}.{part}"] for layer in layers])
            theirs[f"out_proj.{part}"] = mine[f"w_out.{part}"]
    w_out = mine["w_out.weight"]
    copy = nn.MultiheadAttention(len(w_out), module.n_heads, bias="w_out.bias" in mine, batch_first=True)
    copy.to(w_out).load_state_dict(theirs)
    return copy


def sum_over_heads(weights, x, w_value, w_out):
    values = split_heads((x @ w_value)[None], len(weights))[0]
    return merge_heads((weights @ values)[None])[0] @ w_out


def ablate_head(weights, x, w_value, w_out, head):
    d = len(w_out) // len(weights)
    w_out = w_out.clone()
    w_out[head * d : (head + 1) * d] = 0
    return sum_over_heads(weights, x, w_value, w_out)
