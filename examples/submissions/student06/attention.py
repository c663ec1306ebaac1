import math
from collections.abc import Callable

import torch
from torch import Tensor


# 1. Tokens that look at each other
def dot_product_self_attention(x: Tensor) -> tuple[Tensor, Tensor]:
    """Average the tokens, each with its own weights: a softmax of dot products.

    x:       (N, D), one token in each row
    returns  output (N, D) and weights (N, N); row n of the weights belongs to output n

    >>> output, weights = dot_product_self_attention(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> weights[1]
    tensor([0.1554, 0.4223, 0.4223])
    """
    scores = x @ x.mT
    weights = torch.softmax(scores, dim=-1)
    return weights @ x, weights


# 2. What makes it an average
def is_attention_matrix(weights: object) -> bool:
    """Whether these are attention weights: floats, none negative, and each row sums to one up to 1e-5.

    weights:  (..., N, M); anything that is no tensor of floats with two dimensions or more gives False

    >>> is_attention_matrix(torch.tensor([[0.5, 0.5], [0.0, 1.0]])), is_attention_matrix(torch.eye(3) / 2)
    (True, False)
    """
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    sums = weights.sum(dim=-1)
    return bool((weights >= 0).all() and ((sums - 1).abs() <= 1e-05).all())


# 3. A dictionary with soft edges
def soft_lookup(query: Tensor, keys: Tensor, values: Tensor, temperature: float) -> Tensor:
    """The values, averaged with the weights softmax(keys · query / temperature).

    query:        (Dk,)
    keys:         (M, Dk)
    values:       (M, Dv)
    temperature:  above 0; towards 0 only the best key counts, towards infinity all count the same
    returns       (Dv,)

    >>> soft_lookup(torch.tensor([0.0, 1.0]), torch.eye(2), torch.tensor([[5.0], [7.0]]), temperature=0.001)
    tensor([7.])
    """
    weights = torch.softmax(keys @ query / temperature, dim=-1)
    return weights @ values


# 4. To ask and to be asked
def scores_shared(x: Tensor, u: Tensor) -> Tensor:
    """The scores when queries and keys are the same: (x u)(x u)ᵀ.

    x:       (N, D)
    u:       (D, Dk)
    returns  (N, N), symmetric

    >>> scores_shared(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0], [2.0]]))
    tensor([[1., 2.],
            [2., 4.]])
    """
    seen = x @ u
    return seen @ seen.mT


def scores_separate(x: Tensor, w_query: Tensor, w_key: Tensor) -> Tensor:
    """The scores when each role has a matrix of its own: (x w_query)(x w_key)ᵀ.

    x:        (N, D)
    w_query:  (D, Dk)
    w_key:    (D, Dk)
    returns   (N, N); row n holds what token n, as a query, finds in each key

    >>> w_key = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> scores_separate(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.eye(2), w_key)
    tensor([[0., 0.],
            [1., 0.]])
    """
    query, key = (x @ w_query, x @ w_key)
    return query @ key.mT


# 5. Dot products grow with the width
def dot_variance(d_key: int, n: int, generator: torch.Generator) -> tuple[float, float]:
    """Measure the variance of dot products of random vectors, raw and scaled.

    d_key:      entries of each vector
    n:          number of pairs (at least 2)
    generator:  all draws come from it: queries (n, d_key) first, then keys (n, d_key), standard normal
    returns     the sample variance of the n dot products, and of the same dot products over sqrt(d_key)

    >>> raw, scaled = dot_variance(16, 20_000, torch.Generator().manual_seed(1))
    >>> round(raw), round(scaled)
    (16, 1)
    """
    query = torch.randn(n, d_key, generator=generator)
    key = torch.randn(n, d_key, generator=generator)
    dots = (query * key).sum(dim=-1)
    return dots.var().item(), (dots / math.sqrt(d_key)).var().item()


# 6. A softmax that no longer listens
def softmax_jacobian(logits: Tensor) -> Tensor:
    """The derivatives of softmax(logits): entry (i, j) tells how weight i changes with logit j.

    logits:  (n,), of any size: 1e4 must not overflow
    returns  (n, n), symmetric

    >>> softmax_jacobian(torch.zeros(2))
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])
    """
    weights = torch.softmax(logits, dim=-1)
    return weights.diag() - weights.outer(weights)


# 7. Scaled dot-product attention
def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention: average the values with the weights softmax(query keyᵀ / sqrt(Dk)).

    query:   (..., N, Dk)
    key:     (..., M, Dk)
    value:   (..., M, Dv)
    mask:    bool, broadcastable to (..., N, M), True = may attend; None allows everything
    returns  output (..., N, Dv) and weights (..., N, M); both are zero for a query with no allowed key

    >>> query, key = torch.zeros(1, 4), torch.randn(2, 4)
    >>> attention(query, key, value=torch.tensor([[10.0], [20.0]]))
    (tensor([[15.]]), tensor([[0.5000, 0.5000]]))
    """
    scores = query @ key.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


# 8. Attention does not know the order
def equivariance_gap(f: Callable[[Tensor], Tensor], x: Tensor, order: Tensor) -> float:
    """How far f is from permutation equivariance: the largest absolute entry of f(x[order]) - f(x)[order].

    f:       a layer, from (N, D) to (N, E), or from (B, N, D) to (B, N, E)
    x:       (N, D) or (B, N, D); it is left as it is
    order:   (N,), a permutation of 0 ... N-1; it is applied to the tokens
    returns  a Python float

    >>> equivariance_gap(lambda x: x.cumsum(-2), torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 1]))
    4.0
    """
    return (f(x[order]) - f(x)[order]).abs().max().item()


# 9. Is attention linear?
def linearity_probe(f: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """How far f is from doubling its output when its input doubles: the largest absolute entry of f(2x) - 2 f(x).

    f:       a layer; it is called with tensors of x's shape
    x:       any shape; it is left as it is
    returns  a Python float, 0 for a linear layer

    >>> linearity_probe(lambda x: 3 * x + 1, torch.zeros(2, 2))
    1.0
    """
    return (f(2 * x) - 2 * f(x)).abs().max().item()


# 10. The matrix behind it
def attention_as_matrix(weights: Tensor, w_value: Tensor) -> Tensor:
    """The one large matrix that does to x.flatten() what frozen attention does to x: weights @ x @ w_value, flattened.

    weights:  (N, N), taken as fixed
    w_value:  (D, Dv)
    returns   (N·Dv, N·D); its block (n, m), of shape (Dv, D), leads from token m to output n

    >>> attention_as_matrix(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[1.0], [2.0]]))
    tensor([[1.0000, 2.0000, 0.0000, 0.0000],
            [0.5000, 1.0000, 0.5000, 1.0000]])
    """
    blocks = torch.einsum("nm,de->nemd", weights, w_value)
    return blocks.flatten(2, 3).flatten(0, 1)


# 11. What it costs
def attention_macs(n: int, d_model: int) -> tuple[int, int, int]:
    """The multiply-adds of one Transformer layer: (projections, attention, MLP).

    n:        tokens
    d_model:  features of a token; the MLP is 4 · d_model wide inside

    >>> attention_macs(64, 64)
    (1048576, 524288, 2097152)
    """
    projections = 4 * n * d_model**2
    mixing = n**2 * d_model  # the scores
    return projections, mixing, 8 * n * d_model**2


def score_entries(n: int) -> int:
    """The entries of one head's score matrix for n tokens.

    >>> score_entries(197)
    38809
    """
    return n**2
