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
    batch, n, d_model = x.shape
    if d_model % n_heads:
        raise ValueError("n_heads must divide d_model")
    return x.reshape(batch, n_heads, n, d_model // n_heads)


def merge_heads(x):
    batch, n_heads, n, d_head = x.shape
    return x.reshape(batch, n, n_heads * d_head)


def head_dim(d_model, n_heads):
    if d_model % n_heads:
        raise ValueError(f"{d_model} features cannot be split into {n_heads} heads of equal width")
    return d_model // n_heads


def mha_params(d_model, bias=False):
    return 4 * (d_model**2 + bias * d_model)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        head_dim(d_model, n_heads)
        self.n_heads = n_heads
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key = split_heads(self.w_key(source), self.n_heads)
        value = split_heads(self.w_value(source), self.n_heads)
        output, _ = attention(query, key, value, mask)
        return self.w_out(merge_heads(output))


class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        head_dim(d_model, n_heads)
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        output, _ = attention(query, key, value, causal)
        return self.w_out(merge_heads(output))


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
    n_heads = len(weights)
    columns, rows = (w_value.chunk(n_heads, dim=1), w_out.chunk(n_heads, dim=0))
    return sum((a @ x @ w_v @ w_o for a, w_v, w_o in zip(weights, columns, rows, strict=True)))


def ablate_head(weights, x, w_value, w_out, head):
    kept = weights.clone()
    kept[head] = 0.0
    return sum_over_heads(kept, x, w_value, w_out)
