"""Unit masks: complete these. The lesson is in README.md; `hw check masks` says how far you are."""

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
    raise NotImplementedError("causal_mask: replace this line with your code")


# 2. Three dialects
def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The mask as a tensor to add to the scores: 0 where attention is allowed, -inf where it is not.

    mask:    any shape, bool, True = may attend; it is left as it is
    dtype:   the floating-point type of the result, that of the scores
    returns  the shape of the mask, on its device

    >>> to_additive(torch.tensor([True, False]))
    tensor([0., -inf])
    """
    raise NotImplementedError("to_additive: replace this line with your code")


def to_blocked(mask: Tensor) -> Tensor:
    """The mask in the dialect of nn.MultiheadAttention, where True means: may not attend.

    mask:    any shape, bool, True = may attend; it is left as it is
    returns  the shape of the mask, bool, True = may not

    >>> to_blocked(torch.tensor([True, False]))
    tensor([False,  True])
    """
    raise NotImplementedError("to_blocked: replace this line with your code")


# 3. Catching a leak
def leaks(f: Callable[[Tensor], Tensor], x: Tensor, t: int) -> bool:
    """Whether an output before t changes, by however little, when all tokens from t on are replaced by noise.

    f:       a layer with finite outputs, from (N, D) to (N, E), or from (B, N, D) to (B, N, E); it is called with
             tensors of x's shape, ten times at most
    x:       (N, D) or (B, N, D), floats; it is left as it is
    t:       the first token that is replaced, 0 < t < N; the outputs 0 to t-1 are watched
    returns  a Python bool

    >>> x = torch.tensor([[1.0], [2.0], [4.0]])
    >>> leaks(lambda x: x.cumsum(-2), x, 2), leaks(lambda x: x - x.mean(-2, keepdim=True), x, 2)
    (False, True)
    """
    raise NotImplementedError("leaks: replace this line with your code")


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
    raise NotImplementedError("diagnose_mask: replace this line with your code")


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
    raise NotImplementedError("padding_mask: replace this line with your code")


def combine_masks(causal: Tensor, padding: Tensor) -> Tensor:
    """Allow a key if both masks allow it.

    causal:   (n, n), bool, True = may attend
    padding:  (B, 1, 1, n), bool, True = may attend; both are left as they are
    returns   (B, 1, n, n), bool, True = may attend

    >>> combine_masks(torch.ones(2, 2, dtype=torch.bool).tril(), torch.tensor([[[[True, False]]]]))
    tensor([[[[ True, False],
              [ True, False]]]])
    """
    raise NotImplementedError("combine_masks: replace this line with your code")


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
    raise NotImplementedError("safe_attention: replace this line with your code")


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
    raise NotImplementedError("visibility: replace this line with your code")


# 8. One pass, many lessons
def shift_targets(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Cut sequences into what the model reads and what it should say next.

    ids:     (B, N + 1), integers
    returns  inputs (B, N) and targets (B, N); the target at a place is the token that follows the input there

    >>> shift_targets(torch.tensor([[2, 0, 1]]))
    (tensor([[2, 0]]), tensor([[0, 1]]))
    """
    raise NotImplementedError("shift_targets: replace this line with your code")


def next_token_loss(model: Callable[[Tensor], Tensor], ids: Tensor) -> Tensor:
    """The mean cross-entropy of a model's guesses for the next token, at all places of all sequences.

    model:   from ids (B, N) to logits (B, N, V), causal; it is called once
    ids:     (B, N + 1), integers from 0 to V - 1; they are left as they are
    returns  a scalar tensor, from which gradients flow back into the model

    >>> next_token_loss(lambda ids: torch.zeros(*ids.shape, 5), torch.tensor([[2, 0, 1]]))  # ln 5
    tensor(1.6094)
    """
    raise NotImplementedError("next_token_loss: replace this line with your code")
