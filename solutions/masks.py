# %% [markdown]
# # Masks: who may look at whom
#
# A language model learns by guessing the next word of a text. All the words of the text go into it at once. So the word
# that it has to guess is right there, one place further on, and attention looks everywhere. It would be a strange
# student who did not copy.
#
# A *mask* is a table of permissions: a row for each token that looks, a column for each token that is looked at. It is
# a very small thing, a tensor of bools. It is also where most Transformers go wrong, and they do it quietly: the shapes
# fit, nothing crashes, and the loss even looks *better* than it should.
#
# So in this unit you do two things in turn. You **build masks**, in eight small steps: the arrow of time, padding, the
# three families of models. And you **build instruments** that find a wrong mask from the outside, in code that you
# cannot read. The instruments will serve you for the rest of the course.
#
# **How to work.** Each step ends with a function or two for you to write. Replace the line that raises
# `NotImplementedError`, then ask `hw check masks`. The public tests are plain pytest; your marks come from further
# tests, of the same properties and of a few more.
#
# **Conventions.**
#
# | Letter | Means |
# |---|---|
# | $B$ | sequences in a batch |
# | $N$, $M$ | number of queries, the tokens that look; number of keys, the tokens that are looked at |
# | $D$ | features of a token |
# | $V$ | size of the vocabulary |
#
# - In a mask, **`True` means: may attend.** Everywhere, always.
# - Row $n$ of a mask belongs to query $n$, and column $m$ to key $m$.
# - Indices start at 0.

# %%
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

# %% [markdown]
# ## 1. The arrow of time
#
# A *causal* mask lets each token look at itself and back, never ahead:
#
# $$\text{mask}_{nm} = \text{True} \quad \text{exactly if} \quad m \le n$$
#
# ```
#               key  0   1   2   3            how many
#     query 0        ✓   ·   ·   ·               1
#     query 1        ✓   ✓   ·   ·               2
#     query 2        ✓   ✓   ✓   ·               3
#     query 3        ✓   ✓   ✓   ✓               4
# ```
#
# Read it row by row: query 1 may attend to the keys 0 and 1. With six tokens the rows have 1, 2, 3, 4, 5, 6 permissions,
# 21 in all, or $n (n + 1) / 2$. Without the mask each of the six would have 6.
#
# The mask of a short sentence is the upper left corner of the mask of a long one. That is what makes a causal model
# so pleasant: what it says about the first words does not change when more words come.
#
# Where does a mask live? On the device of the tensors that it will be used with. So the function takes a `device`, and
# `None` means torch's default, as in `torch.ones`. There is a device that every computer has, `"meta"`: its tensors
# have a shape and a dtype and no content. It is a good place to see whether you keep your word.
#
# - `triu` or `tril`? Say aloud which of the two keeps row 1 as it is drawn above.
# - Is a token allowed to look at itself? If not, what is left for query 0?
# - A table of ones and zeros looks the same when it is printed. What does `~` make of a float? And of an integer?


# %%
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
    ### BEGIN SOLUTION
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from masks import causal_mask

from autograder.properties import agrees, require


def test_the_causal_mask_of_the_drawing():
    drawing = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    require(agrees(causal_mask(4), torch.tensor(drawing, dtype=torch.bool)))


def test_the_rows_of_a_causal_mask_have_one_permission_more_each_time():
    assert causal_mask(6).sum(1).tolist() == [1, 2, 3, 4, 5, 6], "the numbers of permissions are not the handout's"


@pytest.mark.parametrize("n", [1, 3, 6])
def test_a_shorter_causal_mask_is_the_corner_of_a_longer_one(n):
    require(agrees(causal_mask(n), causal_mask(8)[:n, :n]))


def test_the_causal_mask_is_made_where_it_is_asked_for():
    assert causal_mask(4, device="meta").device.type == "meta", "the mask does not lie on the device asked for"


# %% [markdown]
# ## 2. Three dialects
#
# The world has not agreed on what a mask says. You will meet three dialects, all of them inside PyTorch alone:
#
# | Dialect | May attend | May not | Spoken by |
# |---|---|---|---|
# | allowed | `True` | `False` | this course; `F.scaled_dot_product_attention` |
# | blocked | `False` | `True` | `nn.MultiheadAttention`, `nn.TransformerEncoder` |
# | additive | `0.0` | `-inf` | `nn.Transformer.generate_square_subsequent_mask` |
#
# Nobody will warn you. The first two have the same shape and the same dtype, and the wrong one makes a model that sees
# *only* the future. The cure is a habit: speak one dialect inside your code, and translate at the border. So here are
# the two translators.
#
# The additive mask is *added* to the scores, before the softmax. For four tokens:
#
# ```
#                       allowed                          additive
#                    ✓   ·   ·   ·                0  -inf  -inf  -inf
#                    ✓   ✓   ·   ·       ─►       0    0   -inf  -inf
#                    ✓   ✓   ✓   ·                0    0     0   -inf
#                    ✓   ✓   ✓   ✓                0    0     0     0
# ```
#
# Why $-\infty$? Because $\exp(-\infty)$ is 0, exactly, and then the key takes no part in the sum either. Here are a
# query's scores for three keys, the third of which is forbidden, and what the softmax makes of them:
#
# | | goes into the softmax | weights |
# |---|---|---|
# | no mask | 1, 2, 3 | .090, .245, .665 |
# | add 0, 0, -inf | 1, 2, -inf | **.269, .731, 0** |
# | add 1, 1, 0 | 2, 3, 3 | .155, .422, .422 |
# | multiply by 1, 1, 0 | 1, 2, 0 | .245, .665, .090 |
#
# Only one of these is a mask. All of them run.
#
# - In the last row the forbidden score was wiped out. Why does the key still get 9 percent?
# - What is $0 \cdot \infty$ in floating point? Is a product of the mask and `-inf` a good idea?
# - Would $-10^9$ do as well as $-\infty$? It would, nearly always. Step 6 is about the rest.


# %%
def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The mask as a tensor to add to the scores: 0 where attention is allowed, -inf where it is not.

    mask:    any shape, bool, True = may attend; it is left as it is
    dtype:   the floating-point type of the result, that of the scores
    returns  the shape of the mask, on its device

    >>> to_additive(torch.tensor([True, False]))
    tensor([0., -inf])
    """
    ### BEGIN SOLUTION
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)
    ### END SOLUTION


# %%
def to_blocked(mask: Tensor) -> Tensor:
    """The mask in the dialect of nn.MultiheadAttention, where True means: may not attend.

    mask:    any shape, bool, True = may attend; it is left as it is
    returns  the shape of the mask, bool, True = may not

    >>> to_blocked(torch.tensor([True, False]))
    tensor([False,  True])
    """
    ### BEGIN SOLUTION
    return ~mask
    ### END SOLUTION


# %% tags=["public_test"]
import math

import torch
from masks import to_additive, to_blocked

from autograder.properties import agrees, require

LOOKING_BACK = torch.ones(4, 4, dtype=torch.bool).tril()


def test_the_additive_mask_is_the_one_that_pytorch_makes():
    theirs = torch.nn.Transformer.generate_square_subsequent_mask(4)
    assert torch.equal(to_additive(LOOKING_BACK), theirs), "PyTorch makes another mask of four tokens"


def test_adding_is_the_same_as_forbidding():
    scores = torch.randn(4, 4)
    forbidden = scores.masked_fill(LOOKING_BACK.logical_not(), -math.inf)
    require(agrees(torch.softmax(scores + to_additive(LOOKING_BACK), -1), torch.softmax(forbidden, -1)))


def test_the_additive_mask_has_the_dtype_that_is_asked_for():
    assert to_additive(LOOKING_BACK).dtype == torch.float32, "the default is float32"
    assert to_additive(LOOKING_BACK, torch.float64).dtype == torch.float64, "float64 was asked for"


def test_blocked_and_allowed_are_opposites():
    blocked = to_blocked(LOOKING_BACK)
    assert blocked.dtype == torch.bool, "the blocked mask is not bool"
    assert not (blocked & LOOKING_BACK).any(), "a key is both allowed and blocked"
    assert (blocked | LOOKING_BACK).all(), "a key is neither allowed nor blocked"


def test_pytorchs_module_understands_the_blocked_mask():
    module, x = torch.nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(1, 4, 8)
    _, weights = module(x, x, x, attn_mask=to_blocked(LOOKING_BACK))
    assert (weights[0].triu(1) == 0).all(), "with this mask, PyTorch's module looks ahead"


# %% [markdown]
# ## 3. Catching a leak
#
# Somebody hands you a layer and says that it is causal. You cannot read its code, or you can and it has two thousand
# lines. How would you know?
#
# Ask it. Causal means that an output depends on its own token and on earlier ones. So **change the future, and look
# whether the past moves**:
#
# ```
#                        t = 3
#       x         a   b   c │ d   e              f(x)         ▪   ▪   ▪ │ ▪   ▪
#       noised    a   b   c │ ?   ?              f(noised)    ▪   ▪   ▪ │ ?   ?
#                           │                                 └───┬───┘
#                 keep      │ replace                       did any of these change?
# ```
#
# By hand, with one feature. The tokens are 1, 2, 4, and from $t = 2$ on the noise is 7:
#
# | layer | of 1, 2, 4 | of 1, 2, 7 | before $t$ |
# |---|---|---|---|
# | running sum | 1, 3, 7 | 1, 3, 10 | 1, 3 and 1, 3: no leak |
# | distance to the mean | -1.333, -0.333, 1.667 | -2.333, -1.333, 3.667 | changed: a leak |
#
# If you do this for one token at a time, and write down how far each output moves, you get the *dependency matrix*. It
# is the picture that this course shows when something leaks:
#
# ```
#                     causal                      peeks at the last token
#                 changed token                        changed token
#                 0   1   2   3                        0   1   2   3
#      output 0   █   ·   ·   ·             output 0   █   ·   ·   ▒!
#      output 1   █   █   ·   ·             output 1   █   █   ·   ▒!
#      output 2   █   █   █   ·             output 2   █   █   █   ▒!
#      output 3   █   █   █   █             output 3   █   █   █   █
# ```
#
# For a yes or no you need less: two calls of the layer. Layers are expensive, so that is a good number. More than ten
# are too many.
#
# *Any* change counts, exactly. Both calls have the same shapes, so the computer does the same operations in the same
# order, and an output that depends on the same numbers comes out the same to the last bit. This holds for a stack of
# a hundred layers too: a causal map of a causal map is causal.
#
# Your tester will be run on layers that you have not seen, some of them causal, some not. Some leak a little, some
# only to a few outputs, some only from a few tokens.
#
# - `torch.allclose` forgives differences of $10^{-5}$ or so. Does a future that is scaled down to a millionth no longer
#   give the answer away?
# - Is it enough to change token $t$ alone?
# - You replace the later tokens by zeros, and they were zeros before. You add one to each feature, and the layer begins
#   by subtracting the mean. You shuffle them, and the layer takes their average. What did you learn in each case?
# - Output $t$ itself *should* change. Is it among those that you compare?
# - The tensor `x` belongs to somebody else. Does `y = x` make a copy?


# %%
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
    ### BEGIN SOLUTION
    noised = x.clone()
    noised[..., t:, :] = torch.randn_like(x[..., t:, :])
    return not torch.equal(f(x)[..., :t, :], f(noised)[..., :t, :])
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from masks import leaks


def running_sum(x):
    return x.cumsum(-2)


def distance_to_the_mean(x):
    return x - x.mean(-2, keepdim=True)


def copies_the_next(x):
    return x.roll(-1, -2)


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3)])
def test_a_running_sum_does_not_leak(shape):
    assert not leaks(running_sum, torch.randn(shape), 2), "a running sum looks back only, and was called a leak"


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3)])
@pytest.mark.parametrize("layer", [distance_to_the_mean, copies_the_next])
def test_a_layer_that_looks_ahead_leaks(layer, shape):
    assert leaks(layer, torch.randn(shape), 2), f"this layer was not caught: {layer.__name__.replace('_', ' ')}"


def test_catching_a_leak_leaves_x_as_it_is():
    x = torch.randn(5, 3)
    before = x.clone()
    leaks(running_sum, x, 2)
    assert torch.equal(x, before), "x was changed in place"


# %% [markdown]
# ## 4. A catalogue of mistakes
#
# A doctor knows a handful of common diseases by their symptoms. Here is the handful for causal masks. Each of them has
# been found in code that people published:
#
# | Diagnosis | What the code does |
# |---|---|
# | `"ok"` | query $n$ attends to the keys 0 to $n$, and its weights sum to one |
# | `"self_blocked"` | query $n$ attends to the keys 0 to $n - 1$ only |
# | `"off_by_one"` | query $n$ attends to the keys 0 to $n + 1$ |
# | `"post_softmax"` | the softmax runs over all keys; the weights of later keys are set to zero afterwards, and that is all |
# | `"unmasked"` | each query gives some weight to every key, with no mask or with one that forbids nothing |
#
# And here are the weights, for three tokens whose scores are all equal:
#
# ```
#        ok            self_blocked       off_by_one       post_softmax        unmasked
#    1   ·   ·           ?   ?   ?         ½   ½   ·         ⅓   ·   ·         ⅓   ⅓   ⅓
#    ½   ½   ·           1   ·   ·         ⅓   ⅓   ⅓         ⅓   ⅓   ·         ⅓   ⅓   ⅓
#    ⅓   ⅓   ⅓           ½   ½   ·         ⅓   ⅓   ⅓         ⅓   ⅓   ⅓         ⅓   ⅓   ⅓
# ```
#
# The question marks are honest. A query with no key left has no right answer, so what stands there depends on who
# wrote the code: NaN, zeros, or the same weight for every key, allowed or not.
#
# `"post_softmax"` is the subtle one. The forbidden weights *are* zero. But the later tokens were in the sum that the
# others were divided by, so they still have a say in how much each query takes, and the rows no longer sum to one.
# Somebody who divides the rows by their sums afterwards has repaired it: that is `"ok"`, and the numbers are those of
# any other right code, up to rounding.
#
# Write the doctor. It gets a patient: a function from tokens $(N, D)$ to a pair, the output $(N, D)$ and the weights
# $(N, N)$ that made it. **You choose the tokens**: how many, how wide, which values. You may call the patient as often
# as you like. It gives the same answer to the same tokens. You will meet each disease in several forms, written by
# different people.
#
# - What does `nan > 0` say? And `nan == 0`? May a row of NaN decide?
# - With two tokens, two of the five are the same. Which?
# - Is `.sum(-1) == 1` true for every softmax? And if the rows were divided by their sums, does your strict `leaks` of
#   step 3 still find that nothing moves, to the last bit?
# - Large scores make a softmax choose one key and forget the others, mask or no mask. Which tokens keep the scores
#   small, or all alike?


# %%
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
    ### BEGIN SOLUTION
    _, weights = f(torch.zeros(4, 4))  # equal scores: only the mask tells the keys apart
    seen = weights > 0  # (N, N); False where it is NaN
    if not seen.diagonal()[1:].any():
        return "self_blocked"
    if seen[0, 2]:
        return "unmasked"
    if seen[0, 1]:
        return "off_by_one"
    return "ok" if weights[0, 0] > 0.9 else "post_softmax"
    ### END SOLUTION


# %% tags=["public_test"]
import math

import pytest
import torch
from masks import diagnose_mask


def patient(before=None, after=None):
    """Self-attention with a mask before the softmax, or one after it; each is the diagonal of a tril, or None."""

    def attend(x):
        everyone = torch.ones(len(x), len(x), dtype=torch.bool)
        scores = x @ x.mT / math.sqrt(x.shape[-1])
        if before is not None:
            scores = scores.masked_fill(everyone.tril(before).logical_not(), -math.inf)
        weights = torch.softmax(scores, -1)
        if after is not None:
            weights = weights * everyone.tril(after)
        return weights @ x, weights

    return attend


@pytest.mark.parametrize(
    ("diagnosis", "f"),
    [
        ("ok", patient(before=0)),
        ("self_blocked", patient(before=-1)),
        ("off_by_one", patient(before=1)),
        ("post_softmax", patient(after=0)),
        ("unmasked", patient()),
    ],
)
def test_each_patient_of_the_catalogue_gets_its_diagnosis(diagnosis, f):
    answer = diagnose_mask(f)
    assert answer == diagnosis, f"{diagnosis} was called {answer!r}"


# %% [markdown]
# ## 5. Sentences of unequal length
#
# A batch is a rectangle, and sentences are not. So the short ones are filled up with *padding*:
#
# ```
#     lengths                       n = 4                    real keys
#        3          the    cat    sleeps  [pad]           ✓   ✓   ✓   ·
#        1          hello  [pad]  [pad]   [pad]           ✓   ·   ·   ·
# ```
#
# Is padding harmless if it is made of zeros? Take a sentence of two tokens whose values are 2 and 4 and whose scores are
# all 0: the average is 3. Fill it up with two zeros. A key of zeros has a score of zero, and $\exp(0)$ is 1, so the
# zeros are asked like anyone else: the average is now 1.5. Zero is a number like others; only a mask says *nobody*.
#
# The *padding mask* tells which **keys** are real. It has the shape $(B, 1, 1, n)$, so that it broadcasts against
# scores of shape $(B, H, N, n)$: for each sentence its own row, the same for all heads and all queries.
#
# ```
#        B   1   1   n        the padding mask
#        B   H   N   n        the scores of H heads and N queries
#            └───┴── the mask is the same all along these
# ```
#
# There is a difference in kind here. A causal mask is a fact about time, the same for every sentence. A padding mask
# is a fact about *this batch*, and has to be made anew for each.
#
# A decoder needs both. **A key may be attended to if both masks allow it.** For a sentence of two real tokens in $n = 4$:
#
# ```
#          causal              padding              combined
#       ✓   ·   ·   ·                             ✓   ·   ·   ·
#       ✓   ✓   ·   ·                             ✓   ✓   ·   ·
#       ✓   ✓   ✓   ·   and   ✓  ✓  ·  ·    =     ✓   ✓   ·   ·       a query at a padded
#       ✓   ✓   ✓   ✓                             ✓   ✓   ·   ·       place, but real keys
# ```
#
# What about the *queries* at padded places, the last two rows? They look at something and say something, and nobody
# listens: the loss leaves these places out. There is no need to forbid them anything, and step 6 shows what you get if
# you do.
#
# - Does `lengths` say how many tokens are real, or which is the last real one? Which of `<` and `<=` fits?
# - A mask of shape $(B, n)$ against scores of shape $(B, H, N, n)$: which axis would $B$ be aligned with? When would
#   that even run?
# - `lengths` may live on a GPU. Where is the tensor that you compare it with?


# %%
def padding_mask(lengths: Tensor, n: int) -> Tensor:
    """Which keys of each sentence are real: the first lengths[b] of n.

    lengths:  (B,), integers from 0 to n
    n:        the length that all sentences were filled up to
    returns   (B, 1, 1, n), bool, True = real, so it may be attended to; on the device of lengths

    >>> padding_mask(torch.tensor([3, 1]), 4)[:, 0, 0]
    tensor([[ True,  True,  True, False],
            [ True, False, False, False]])
    """
    ### BEGIN SOLUTION
    real = torch.arange(n, device=lengths.device) < lengths[:, None]  # (B, n)
    return real[:, None, None]
    ### END SOLUTION


# %%
def combine_masks(causal: Tensor, padding: Tensor) -> Tensor:
    """Allow a key if both masks allow it.

    causal:   (n, n), bool, True = may attend
    padding:  (B, 1, 1, n), bool, True = may attend; both are left as they are
    returns   (B, 1, n, n), bool, True = may attend

    >>> combine_masks(torch.ones(2, 2, dtype=torch.bool).tril(), torch.tensor([[[[True, False]]]]))
    tensor([[[[ True, False],
              [ True, False]]]])
    """
    ### BEGIN SOLUTION
    return causal & padding
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from masks import combine_masks, padding_mask

from autograder.properties import agrees, padding_invariance, require


def test_the_padding_mask_of_the_drawing():
    drawing = torch.tensor([[[[1, 1, 1, 0]]], [[[1, 0, 0, 0]]]], dtype=torch.bool)
    require(agrees(padding_mask(torch.tensor([3, 1]), 4), drawing))


def test_what_stands_in_the_padding_does_not_matter():
    real = padding_mask(torch.tensor([3]), 5)[0, 0, 0]  # (5,)

    def attend(x):
        return torch.softmax((x @ x.mT).masked_fill(real.logical_not(), -1e30), -1) @ x

    require(padding_invariance(attend, torch.randn(5, 4), torch.tensor([True, True, True, False, False])))


def test_the_combined_mask_of_the_drawing():
    causal, padding = torch.ones(4, 4, dtype=torch.bool).tril(), torch.tensor([[[[True, True, False, False]]]])
    drawing = torch.tensor([[[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]]], dtype=torch.bool)
    require(agrees(combine_masks(causal, padding), drawing))


def test_without_padding_the_combined_mask_is_the_causal_one():
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    require(agrees(combine_masks(causal, torch.ones(2, 1, 1, 3, dtype=torch.bool)), causal.expand(2, 1, 3, 3)))


# %% [markdown]
# ## 6. Nobody to look at
#
# An empty sentence in a batch is all padding. The query 0 of a mask that blocks the diagonal has no key. Sooner or
# later every model meets a query that may look at nobody. Call it *dead*. What should it take?
#
# Softmax has no answer: it would have to make zero weights sum to one. Here is what it does say, for a query with three
# keys, all forbidden:
#
# | | goes into the softmax | weights | output for the values 1, 2, 6 |
# |---|---|---|---|
# | fill with $-\infty$ | -inf, -inf, -inf | NaN, NaN, NaN | NaN, and soon the whole network |
# | fill with $-10^9$ | -1e9, -1e9, -1e9 | .333, .333, .333 | 3: it looks at everyone it must not see |
# | **what we want** | | **0, 0, 0** | **0: it takes nothing** |
#
# The second row is worse than the first. NaN at least cries.
#
# In the first unit we fixed the answer: weights of zero, an output of zero, and finite gradients. If your `attention`
# keeps that promise, you may call it here (`from attention import attention`, if you hand in both files). The tests
# now look more closely:
#
# - The dead query, and **only** the dead query, is set to zero. The others are as in plain attention, also those in the
#   same matrix.
# - The gradients of all inputs are finite. A NaN that you wipe off the result afterwards can live on in the gradient:
#   $0 \cdot \text{NaN}$ is NaN.
# - A *real* fault stays visible. If a query that may look at somebody holds a NaN, so does its output. Code that turns
#   every NaN into 0 is a smoke alarm without a battery.
#
# ```
#         mask                weights                 output
#      ✓   ✓   ·          .330  .670    0          (2.340, 3.340)
#      ·   ·   ·            0     0     0          (0, 0)             dead, and at rest
# ```
#
# These are the query $(0, 1)$, twice, and the keys $(1,0)$, $(0,1)$, $(1,1)$ with the values $(1,2)$, $(3,4)$, $(5,6)$ of
# the first unit. To more digits: weights .330238, .669762, output 2.339523, 3.339523.
#
# - The scores of a dead query are all the same very negative number. What could you do *after* the softmax?
# - A mask of shape $(B, 1, 1, M)$ has one row for all heads and queries. Does your code look at the mask's rows or at
#   those of the scores?


# %%
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
    ### BEGIN SOLUTION
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., N, M)
    lowest = torch.finfo(scores.dtype).min  # finite, so that no row of the softmax is NaN
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    weights = weights.masked_fill(~mask, 0.0)  # changes the weights of dead queries only
    return weights @ value, weights
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from masks import safe_attention

from autograder.properties import agrees, require

ASKED = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
KEYS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
VALUES = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
ONE_IS_DEAD = torch.tensor([[True, True, False], [False, False, False]])


def test_safe_attention_gives_the_numbers_of_the_drawing():
    output, weights = safe_attention(ASKED, KEYS, VALUES, ONE_IS_DEAD)
    require(agrees(weights, torch.tensor([[0.330238, 0.669762, 0.0], [0.0, 0.0, 0.0]])))
    require(agrees(output, torch.tensor([[2.339523, 3.339523], [0.0, 0.0]])))


def test_gradients_are_finite_when_a_query_is_dead():
    inputs = [tensor.clone().requires_grad_() for tensor in (ASKED, KEYS, VALUES)]
    output, _ = safe_attention(*inputs, ONE_IS_DEAD)
    output.sum().backward()
    for name, tensor in zip(("query", "key", "value"), inputs, strict=True):
        assert tensor.grad.isfinite().all(), f"the gradient of {name} has NaN or inf"


def test_a_sentence_of_padding_alone_gives_zeros():
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 6)
    padding = torch.tensor([[True, True, False, False, False], [False] * 5]).reshape(2, 1, 1, 5)
    output, weights = safe_attention(query, key, value, padding)
    require(agrees(weights[0].sum(-1), torch.ones(3, 4)))
    require(agrees(output[1], torch.zeros(3, 4, 6)))


# %% [markdown]
# ## 7. Three families
#
# Take away names and sizes, and Transformers come in three families. What tells them apart is a few masks.
#
# - An **encoder** reads. Every token sees every token.
# - A **decoder** writes. Every token sees itself and what has been written before.
# - An **encoder-decoder** reads one text and writes another, like a translator. The source is read by an encoder. The
#   target is written by a decoder, which also looks at the source, all of it: *cross-attention*, queries from the target
#   and keys from the source.
#
# With a source of 3 tokens and a target of 4:
#
# ```
#         encoder                 decoder                     cross
#         (3, 3)                  (4, 4)                      (4, 3)
#                                                       source  0   1   2
#       ✓   ✓   ✓             ✓   ·   ·   ·         target 0    ✓   ✓   ✓
#       ✓   ✓   ✓             ✓   ✓   ·   ·         target 1    ✓   ✓   ✓
#       ✓   ✓   ✓             ✓   ✓   ✓   ·         target 2    ✓   ✓   ✓
#                             ✓   ✓   ✓   ✓         target 3    ✓   ✓   ✓
# ```
#
# | `kind` | Masks | Permissions | With $n_s = n_t = 6$ |
# |---|---|---|---|
# | `"encoder"` | `"encoder"` | $n_s^2$ | 36 |
# | `"decoder"` | `"decoder"` | $n_t (n_t + 1) / 2$ | 21 |
# | `"encoder-decoder"` | `"encoder"`, `"decoder"`, `"cross"` | the sum of these, and $n_t n_s$ | 93 |
#
# BERT is of the first family, GPT of the second, T5 and the Transformer of 2017 of the third. The families differ in
# what they are good for, and all of that follows from the tables: the first can use both sides of a word, and so cannot
# write; the second can write, since what it has said does not change with what comes after.
#
# (*Decoder* is the name of a family here. It has nothing to do with decoding token ids to text.)
#
# - The cross mask is a rectangle. Which of the two lengths counts its rows?
# - An encoder has no target. What does it do with `n_target`?


# %%
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
    ### BEGIN SOLUTION
    encoder = {"encoder": torch.ones(n_source, n_source, dtype=torch.bool)}
    decoder = {"decoder": causal_mask(n_target)}
    cross = {"cross": torch.ones(n_target, n_source, dtype=torch.bool)}
    families = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder | decoder | cross}
    if kind not in families:
        raise ValueError(f"there is no family {kind!r}; there is {', '.join(families)}")
    return families[kind]
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from masks import visibility

from autograder.properties import agrees, require


def test_the_masks_of_the_drawing():
    masks = visibility("encoder-decoder", 3, 4)
    assert set(masks) == {"encoder", "decoder", "cross"}, f"it has the masks {sorted(masks)}"
    require(agrees(masks["encoder"], torch.ones(3, 3, dtype=torch.bool)))
    require(agrees(masks["decoder"], torch.ones(4, 4, dtype=torch.bool).tril()))
    require(agrees(masks["cross"], torch.ones(4, 3, dtype=torch.bool)))


@pytest.mark.parametrize(("kind", "permissions"), [("encoder", 36), ("decoder", 21), ("encoder-decoder", 93)])
def test_the_permissions_of_the_table(kind, permissions):
    count = sum(int(mask.sum()) for mask in visibility(kind, 6, 6).values())
    assert count == permissions, f"a family has {count} permissions in all: {kind}"


def test_a_family_that_does_not_exist_is_refused():
    with pytest.raises(ValueError):
        visibility("recoder", 3, 4)


# %% [markdown]
# ## 8. One pass, many lessons
#
# Now collect the reward. With a causal mask, output $n$ knows the tokens 0 to $n$ and no more. So it can be asked for
# token $n + 1$, and that for *every* $n$ at once. A sentence of $N + 1$ tokens is $N$ exercises for the price of one:
#
# ```
#     ids           the     cat     sat     on      the     mat           (B, N + 1)
#
#     inputs        the     cat     sat     on      the                   (B, N)
#                    │       │       │       │       │
#                    ▼       ▼       ▼       ▼       ▼                    one pass of the model
#     targets       cat     sat     on      the     mat                   (B, N)
# ```
#
# A window of 512 tokens gives 511 exercises. BERT, which hides 15 percent of its tokens and guesses those, gets 77 from
# it, 6.6 times fewer. This is one of the quiet reasons why decoders have won.
#
# The model is a function from ids $(B, N)$ to logits $(B, N, V)$: at each place a score for every word of the
# vocabulary. The loss is the mean cross-entropy, over all $B N$ places:
#
# $$L = -\frac{1}{B N} \sum_{b, n} \ln p_{bn}(\text{target}_{bn}), \qquad p_{bn} = \text{softmax}(\text{logits}_{bn})$$
#
# By hand, with three words, ids $(2, 0, 1)$, and a model whose probabilities are these:
#
# | input | probabilities of 0, 1, 2 | target | its probability | $-\ln p$ |
# |---|---|---|---|---|
# | 2 | ½, ¼, ¼ | 0 | ½ | .693 |
# | 0 | ¼, ¼, ½ | 1 | ¼ | 1.386 |
#
# The loss is 1.040, the mean of the two. A model that knows nothing gives each word the same probability, and its loss is
# $\ln V$, here 1.099. A fresh network should start near there. It is worth a look each time.
#
# And now a warning, from measurements. On a small artificial language whose best possible perplexity, $\exp(L)$, is
# 1.185, these models were trained:
#
# | | perplexity | |
# |---|---|---|
# | as it should be | 1.198 after 300 steps | just above what is possible |
# | no mask | 1.014 after 300 steps | it reads the answer one place further on |
# | targets not shifted | 1.017 after 60 steps | it repeats the word that it has just been given |
#
# The two mistakes have the *best* losses. **A loss that is too good to be true is a leak.** You own the tool to find it.
#
# - Which of the ids is never an input? Which is never a target?
# - `cross_entropy` wants the classes in a certain place. Is that where the logits have them?
# - It also wants logits, not probabilities. What happens if they went through a softmax before?
# - Could you feed all $N + 1$ tokens and drop the last logits? What if the model has room for exactly $N$ positions?


# %%
def shift_targets(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Cut sequences into what the model reads and what it should say next.

    ids:     (B, N + 1), integers
    returns  inputs (B, N) and targets (B, N); the target at a place is the token that follows the input there

    >>> shift_targets(torch.tensor([[2, 0, 1]]))
    (tensor([[2, 0]]), tensor([[0, 1]]))
    """
    ### BEGIN SOLUTION
    return ids[:, :-1], ids[:, 1:]
    ### END SOLUTION


# %%
def next_token_loss(model: Callable[[Tensor], Tensor], ids: Tensor) -> Tensor:
    """The mean cross-entropy of a model's guesses for the next token, at all places of all sequences.

    model:   from ids (B, N) to logits (B, N, V), causal; it is called once
    ids:     (B, N + 1), integers from 0 to V - 1; they are left as they are
    returns  a scalar tensor, from which gradients flow back into the model

    >>> next_token_loss(lambda ids: torch.zeros(*ids.shape, 5), torch.tensor([[2, 0, 1]]))  # ln 5
    tensor(1.6094)
    """
    ### BEGIN SOLUTION
    inputs, targets = shift_targets(ids)
    logits = model(inputs)  # (B, N, V)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    ### END SOLUTION


# %% tags=["public_test"]
import math

import torch
from masks import next_token_loss, shift_targets

from autograder.properties import agrees, require


def test_the_shift_of_the_handout():
    inputs, targets = shift_targets(torch.tensor([[2, 0, 1]]))
    require(agrees(inputs, torch.tensor([[2, 0]])))
    require(agrees(targets, torch.tensor([[0, 1]])))


def test_every_target_follows_its_input():
    ids = torch.arange(12).reshape(2, 6)
    read, said = shift_targets(ids)
    require(agrees(said, read + 1))


def test_the_loss_of_the_handout():
    probabilities = torch.tensor([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]])
    loss = next_token_loss(lambda ids: probabilities.log(), torch.tensor([[2, 0, 1]]))
    require(agrees(loss, torch.tensor(1.5 * math.log(2))))


def test_a_model_that_knows_nothing_has_a_loss_of_the_log_of_the_vocabulary():
    loss = next_token_loss(lambda ids: torch.zeros(*ids.shape, 7), torch.randint(7, (2, 5)))
    require(agrees(loss, torch.tensor(math.log(7))))


def test_gradients_flow_back_into_the_model():
    table = torch.randn(7, 7, requires_grad=True)  # for each token the logits of the next
    next_token_loss(lambda ids: table[ids], torch.randint(7, (2, 5))).backward()
    assert table.grad is not None and table.grad.abs().sum() > 0, "no gradient reaches the model"


# %% [markdown]
# ## Looking back
#
# You own the two masks that every Transformer is built with (1, 5), translators for the dialects of others (2), an
# attention that stays calm when there is nobody to look at (6), and the reason why all this pays: one pass, and a
# lesson from every token (8). You can also tell from the outside whether a layer looks ahead (3), and what its author
# did wrong (4).
#
# Keep `leaks` at hand. Whenever you write a layer that should be causal, in this course or after it, let it be the first
# thing that you run.
