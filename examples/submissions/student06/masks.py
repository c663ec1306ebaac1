import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


# 1. The arrow of time
def causal_mask(n: int, device: torch.device | str | None = None) -> Tensor:
    """Who may look at whom when nobody may look ahead: query n may attend to the keys 0 to n.

    n:       the number of tokens
    device:  where the mask is made; None means torch's default
    returns  (n, n), bool, True = may attend

    >>> causal_mask(3)
    tensor([[ True, False, False],
            [ True,  True, False],
            [ True,  True,  True]])
    """
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


# 2. Three dialects
def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The mask as a tensor to add to the scores: 0 where attention is allowed, -inf where it is not.

    mask:    any shape, bool, True = may attend; it is left as it is
    dtype:   the floating-point type of the result, that of the scores
    returns  the shape of the mask, on its device

    >>> to_additive(torch.tensor([True, False]))
    tensor([0., -inf])
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def to_blocked(mask: Tensor) -> Tensor:
    """The mask in the dialect of nn.MultiheadAttention, where True means: may not attend.

    mask:    any shape, bool, True = may attend; it is left as it is
    returns  the shape of the mask, bool, True = may not

    >>> to_blocked(torch.tensor([True, False]))
    tensor([False,  True])
    """
    return mask


# 3. Catching a leak
def leaks(f: Callable[[Tensor], Tensor], x: Tensor, t: int) -> bool:
    """Whether an output before t changes, by however little, when all tokens from t on are replaced by noise.

    f:       a layer, from (N, D) to (N, E), or from (B, N, D) to (B, N, E); it is called with tensors of x's shape, ten
             times at most
    x:       (N, D) or (B, N, D), floats; it is left as it is
    t:       the first token that is replaced, 0 < t < N; the outputs 0 to t-1 are watched
    returns  a Python bool

    >>> x = torch.tensor([[1.0], [2.0], [4.0]])
    >>> leaks(lambda x: x.cumsum(-2), x, 2), leaks(lambda x: x - x.mean(-2, keepdim=True), x, 2)
    (False, True)
    """
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :])


# 4. A catalogue of mistakes
def diagnose_mask(f: Callable[[Tensor], tuple[Tensor, Tensor]]) -> str:
    """Name what is wrong with the causal mask of a self-attention, from its behaviour alone.

    f:       takes tokens (N, D), floats, for any N and D; returns the output (N, D) and the weights (N, N) that made it
    returns  "ok", "self_blocked", "off_by_one", "post_softmax" or "unmasked"

    >>> def looks_everywhere(x):
    ...     weights = torch.softmax(x @ x.mT, dim=-1)
    ...     return weights @ x, weights
    >>> diagnose_mask(looks_everywhere)
    'unmasked'
    """
    _, weights = f(torch.zeros(4, 4))
    seen = weights > 0
    if seen[0, 2]:
        return "unmasked"
    if seen[0, 1]:
        return "off_by_one"
    return "post_softmax" if weights[0, 0] < 0.9 else "ok"


# 5. Sentences of unequal length
def padding_mask(lengths: Tensor, n: int) -> Tensor:
    """Which keys of each sentence are real: the first lengths[b] of n.

    lengths:  (B,), integers from 0 to n
    n:        the length that all sentences were filled up to
    returns   (B, 1, 1, n), bool, True = real, so it may be attended to; on the device of lengths

    >>> padding_mask(torch.tensor([3, 1]), 4)[:, 0, 0]
    tensor([[ True,  True,  True, False],
            [ True, False, False, False]])
    """
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    return real[:, None, None]


def combine_masks(causal: Tensor, padding: Tensor) -> Tensor:
    """Allow a key if both masks allow it.

    causal:   (n, n), bool, True = may attend
    padding:  (B, 1, 1, n), bool, True = may attend; both are left as they are
    returns   (B, 1, n, n), bool, True = may attend

    >>> combine_masks(torch.ones(2, 2, dtype=torch.bool).tril(), torch.tensor([[[[True, False]]]]))
    tensor([[[[ True, False],
              [ True, False]]]])
    """
    return causal & padding


# 6. Nobody to look at
def safe_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention, softmax(query keyᵀ / sqrt(Dk)) value, in which a query without keys takes nothing.

    query:   (..., N, Dk)
    key:     (..., M, Dk)
    value:   (..., M, Dv)
    mask:    bool, broadcastable to (..., N, M), True = may attend
    returns  output (..., N, Dv) and weights (..., N, M); both are zero for a query with no allowed key, and their
             gradients are finite; a NaN in another query stays a NaN

    >>> mask = torch.tensor([[True, False], [False, False]])
    >>> safe_attention(torch.ones(2, 4), torch.ones(2, 4), torch.tensor([[5.0], [7.0]]), mask)[0]
    tensor([[5.],
            [0.]])
    """
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


# 7. Three families
def visibility(kind: str, n_source: int, n_target: int) -> dict[str, Tensor]:
    """The masks of a family of Transformers, by their names.

    kind:      "encoder", "decoder" or "encoder-decoder"
    n_source:  tokens of the text that is read; a decoder alone has none, and ignores it
    n_target:  tokens of the text that is written; an encoder alone has none, and ignores it
    returns    "encoder": (n_source, n_source), "decoder": (n_target, n_target), "cross": (n_target, n_source), those of
               them that the family has; bool, True = may attend
    raises     ValueError for any other kind

    >>> {name: tuple(mask.shape) for name, mask in visibility("encoder-decoder", 3, 4).items()}
    {'encoder': (3, 3), 'decoder': (4, 4), 'cross': (4, 3)}
    """
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(f"there is no family {kind!r}; there is {', '.join(families)}")
    return families[kind]


# 8. One pass, many lessons
def shift_targets(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Cut sequences into what the model reads and what it should say next.

    ids:     (B, N + 1), integers
    returns  inputs (B, N) and targets (B, N); the target at a place is the token that follows the input there

    >>> shift_targets(torch.tensor([[2, 0, 1]]))
    (tensor([[2, 0]]), tensor([[0, 1]]))
    """
    return ids[:, :-1], ids[:, 1:]


def next_token_loss(model: Callable[[Tensor], Tensor], ids: Tensor) -> Tensor:
    """The mean cross-entropy of a model's guesses for the next token, at all places of all sequences.

    model:   from ids (B, N) to logits (B, N, V), causal; it is called once
    ids:     (B, N + 1), integers from 0 to V - 1; they are left as they are
    returns  a scalar tensor, from which gradients flow back into the model

    >>> next_token_loss(lambda ids: torch.zeros(*ids.shape, 5), torch.tensor([[2, 0, 1]]))  # ln 5
    tensor(1.6094)
    """
    inputs, targets = shift_targets(ids)
    logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
