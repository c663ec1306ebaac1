"""Unit heads: complete these. The lesson is in README.md; `hw check heads` says how far you are."""

import math

import torch
from torch import Tensor, nn


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
    raise NotImplementedError("split_heads: replace this line with your code")


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads of every token side by side again: what split_heads did, undone.

    x:       (B, H, N, d)
    returns  (B, N, H·d)

    >>> merge_heads(torch.tensor([[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]))
    tensor([[[0, 1, 2, 3],
             [4, 5, 6, 7]]])
    """
    raise NotImplementedError("merge_heads: replace this line with your code")


# 2. What the heads cost
def head_dim(d_model: int, n_heads: int) -> int:
    """The width of one head, an int.

    raises  ValueError if n_heads does not divide d_model

    >>> head_dim(64, 4)
    16
    """
    raise NotImplementedError("head_dim: replace this line with your code")


def mha_params(d_model: int, bias: bool = False) -> int:
    """The number of parameters of multi-head attention: four nn.Linear(d_model, d_model), with a bias each or without.

    >>> mha_params(16), mha_params(16, bias=True)
    (1024, 1088)
    """
    raise NotImplementedError("mha_params: replace this line with your code")


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
        raise NotImplementedError("MultiHeadAttention.__init__: replace this line with your code")

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Let every token of x attend to the context.

        x:        (B, N, D), the queries' source
        context:  (B, M, D), the source of keys and values; None means x
        mask:     bool, broadcastable to (B, H, N, M), True = may attend; None allows everything
        returns   (B, N, D)
        """
        raise NotImplementedError("MultiHeadAttention.forward: replace this line with your code")


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
        raise NotImplementedError("FusedCausalAttention.__init__: replace this line with your code")

    def forward(self, x: Tensor) -> Tensor:
        """Let every token attend to itself and to the tokens before it.

        x:       (B, N, D), for any N
        returns  (B, N, D)
        """
        raise NotImplementedError("FusedCausalAttention.forward: replace this line with your code")


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
        raise NotImplementedError("CrossAttention.__init__: replace this line with your code")

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Let every token of the target attend to the source.

        x:        (B, Nt, D), the target
        context:  (B, Ns, D), the source
        mask:     bool, broadcastable to (B, H, Nt, Ns), True = may attend; None allows everything
        returns   output (B, Nt, D) and weights (B, H, Nt, Ns)
        """
        raise NotImplementedError("CrossAttention.forward: replace this line with your code")


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
    raise NotImplementedError("copy_into_torch: replace this line with your code")


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
    raise NotImplementedError("sum_over_heads: replace this line with your code")


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
    raise NotImplementedError("ablate_head: replace this line with your code")
