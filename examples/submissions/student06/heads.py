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


# 1. Cut and paste
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cut the features of every token into heads: head h gets the columns from h·d to (h+1)·d, where d = D / n_heads.

    x:        (B, N, D)
    n_heads:  the number of heads H
    returns   (B, H, N, d)
    raises    ValueError if n_heads does not divide D

    >>> split_heads(torch.tensor([[[0, 1, 2, 3], [4, 5, 6, 7]]]), 2)
    tensor([[[[0, 1],
              [4, 5]],
    <BLANKLINE>
             [[2, 3],
              [6, 7]]]])
    """
    d_model = x.shape[-1]
    if d_model % n_heads:
        raise ValueError(f"{d_model} features cannot be split into {n_heads} heads of equal width")
    return x.unflatten(-1, (n_heads, d_model // n_heads)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads of every token side by side again: what split_heads did, undone.

    x:       (B, H, N, d)
    returns  (B, N, H·d)

    >>> merge_heads(torch.tensor([[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]))
    tensor([[[0, 1, 2, 3],
             [4, 5, 6, 7]]])
    """
    return x.transpose(1, 2).flatten(2)


# 2. What the heads cost
def head_dim(d_model: int, n_heads: int) -> int:
    """The width of one head, an int.

    raises  ValueError if n_heads does not divide d_model

    >>> head_dim(64, 4)
    16
    """
    if d_model % n_heads:
        raise ValueError(f"{d_model} features cannot be split into {n_heads} heads of equal width")
    return d_model // n_heads


def mha_params(d_model: int, bias: bool = False) -> int:
    """The number of parameters of multi-head attention: four nn.Linear(d_model, d_model), with a bias each or without.

    >>> mha_params(16), mha_params(16, bias=True)
    (1024, 1088)
    """
    return 4 * d_model**2 + (3 * d_model if bias else 0)


# 3. Multi-head attention
class MultiHeadAttention(nn.Module):
    """Attention in n_heads heads at once, between the tokens of x or from x to a context.

    Parameters are either w_query, w_key, w_value, w_out or w_qkv, w_out: nn.Linear each, with a bias if `bias`.

    d_model:  features of a token
    n_heads:  the number of heads H; ValueError if it does not divide d_model

    >>> layer = MultiHeadAttention(d_model=16, n_heads=4)
    >>> layer(torch.randn(2, 7, 16), context=torch.randn(2, 5, 16)).shape
    torch.Size([2, 7, 16])
    """

    def __init__(self, d_model: int, n_heads: int, bias: bool = False) -> None:
        super().__init__()
        self.d_head = head_dim(d_model, n_heads)
        self.n_heads = n_heads
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Let every token of x attend to the context.

        x:        (B, N, D), the queries' source
        context:  (B, M, D), the source of keys and values; None means x
        mask:     bool, broadcastable to (B, H, N, M), True = may attend; None allows everything
        returns   (B, N, D)
        """
        context = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key = split_heads(self.w_key(context), self.n_heads)
        value = split_heads(self.w_value(context), self.n_heads)
        scores = query @ key.mT / math.sqrt(self.d_head)
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        return self.w_out(merge_heads(torch.softmax(scores, dim=-1) @ value))


# 4. Three products in one
class FusedCausalAttention(nn.Module):
    """Causal self-attention with one product for queries, keys and values.

    Parameters: w_qkv, nn.Linear(d_model, 3·d_model), its rows in the order query, key, value; w_out,
    nn.Linear(d_model, d_model); both with a bias if `bias`.

    d_model:  features of a token
    n_heads:  the number of heads; ValueError if it does not divide d_model

    >>> sum(p.numel() for p in FusedCausalAttention(64, 4, bias=True).parameters())
    16640
    """

    def __init__(self, d_model: int, n_heads: int, bias: bool = False) -> None:
        super().__init__()
        head_dim(d_model, n_heads)
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Let every token attend to itself and to the tokens before it.

        x:       (B, N, D), for any N
        returns  (B, N, D)
        """
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        output, _ = attention(query, key, value, causal)
        return self.w_out(merge_heads(output))


# 5. From one sentence to another
class CrossAttention(nn.Module):
    """Multi-head attention from a target to a source, which also tells its weights.

    Parameters as in MultiHeadAttention: w_query, w_key, w_value, w_out or w_qkv, w_out.

    d_model:  features of a token
    n_heads:  the number of heads H; ValueError if it does not divide d_model

    >>> output, weights = CrossAttention(16, 4)(torch.randn(2, 3, 16), torch.randn(2, 5, 16))
    >>> output.shape, weights.shape
    (torch.Size([2, 3, 16]), torch.Size([2, 4, 3, 5]))
    """

    def __init__(self, d_model: int, n_heads: int, bias: bool = False) -> None:
        super().__init__()
        head_dim(d_model, n_heads)
        self.n_heads = n_heads
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Let every token of the target attend to the source.

        x:        (B, Nt, D), the target
        context:  (B, Ns, D), the source
        mask:     bool, broadcastable to (B, H, Nt, Ns), True = may attend; None allows everything
        returns   output (B, Nt, D) and weights (B, H, Nt, Ns)
        """
        query = split_heads(self.w_query(x), self.n_heads)
        key = split_heads(self.w_key(context), self.n_heads)
        value = split_heads(self.w_value(context), self.n_heads)
        output, weights = attention(query, key, value, mask)
        return self.w_out(merge_heads(output)), weights


# 6. Is it the same as PyTorch's?
def copy_into_torch(module: MultiHeadAttention) -> nn.MultiheadAttention:
    """PyTorch's own multi-head attention with the weights of yours: batch first, the same outputs, the same weights.

    module:  your MultiHeadAttention, with biases or without; it is left as it is
    returns  an nn.MultiheadAttention with parameters of its own

    >>> mine, x = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    >>> output, _ = copy_into_torch(mine)(x, x, x)
    >>> torch.allclose(output, mine(x), atol=1e-6)
    True
    """
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


# 7. A sum over heads
def sum_over_heads(weights: Tensor, x: Tensor, w_value: Tensor, w_out: Tensor) -> Tensor:
    """Multi-head attention with given weights, as a sum of one term for each head.

    weights:  (H, N, M), the attention weights of each head
    x:        (M, D)
    w_value:  (D, D), used as x w_value; head h owns the columns from h·d to (h+1)·d
    w_out:    (D, D), used from the right as well; head h owns the rows from h·d to (h+1)·d
    returns   (N, D)

    >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]]])
    >>> x, w_out = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 1.0], [0.0, 2.0]])
    >>> sum_over_heads(weights, x, torch.eye(2), w_out)
    tensor([[1., 9.],
            [2., 6.]])
    """
    n_heads = len(weights)
    columns, rows = (w_value.chunk(n_heads, dim=1), w_out.chunk(n_heads, dim=0))
    return sum((a @ x @ w_v @ w_o for a, w_v, w_o in zip(weights, columns, rows, strict=True)))


def ablate_head(weights: Tensor, x: Tensor, w_value: Tensor, w_out: Tensor, head: int) -> Tensor:
    """The same sum without the term of one head.

    weights, x, w_value, w_out:  as in sum_over_heads; they are left as they are
    head:     which term to leave out, from 0 to H - 1
    returns   (N, D)

    >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]]])
    >>> x, w_out = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 1.0], [0.0, 2.0]])
    >>> ablate_head(weights, x, torch.eye(2), w_out, head=1)
    tensor([[1., 1.],
            [2., 2.]])
    """
    kept = weights.clone()
    kept[head] = 0.0
    return sum_over_heads(kept, x, w_value, w_out)
