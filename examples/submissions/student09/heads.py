import einops
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
    if x.shape[-1] % n_heads:
        raise ValueError("indivisible")
    return einops.rearrange(x, "... n (h d) -> ... h n d", h=n_heads)


def merge_heads(x):
    batch, heads, tokens, width = x.shape
    return x.transpose(1, 2).contiguous().view(batch, tokens, heads * width)


def head_dim(d_model, n_heads):
    width, rest = divmod(d_model, n_heads)
    if rest:
        raise ValueError("n_heads must divide d_model")
    return width


def mha_parms(d_model, bias=False):
    layers = [nn.Linear(d_model, d_model, bias=bias, device="meta") for _ in range(4)]
    return sum(p.numel() for layer in layers for p in layer.parameters())


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("n_heads must divide d_model")
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        query, _, _ = self.w_qkv(x).chunk(3, dim=-1)
        _, key, value = self.w_qkv(context).chunk(3, dim=-1)
        query, key, value = (split_heads(t, self.n_heads) for t in (query, key, value))
        return self.w_out(merge_heads(nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)))


class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError("n_heads must divide d_model")
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        batch, tokens, d_model = x.shape
        qkv = self.w_qkv(x).view(batch, tokens, 3, self.n_heads, d_model // self.n_heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        output = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.w_out(output.transpose(1, 2).reshape(batch, tokens, d_model))


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
    h, d_model = weights.shape[0], x.shape[-1]
    w_v, w_o = w_value.reshape(d_model, h, -1), w_out.reshape(h, -1, d_model)
    return torch.einsum("hnm,mc,chd,hdo->no", weights, x, w_v, w_o)


def ablate_head(weights, x, w_value, w_out, head):
    d = w_value.shape[1] // len(weights)
    columns, rows = w_value[:, head * d : (head + 1) * d], w_out[head * d : (head + 1) * d]
    return sum_over_heads(weights, x, w_value, w_out) - weights[head] @ x @ columns @ rows
