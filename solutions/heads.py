# %% [markdown]
# # Heads: several conversations at once
#
# In *the cat that chased the mice was tired*, the word *was* has two questions. Who was it? *The cat.* And what was it?
# *Tired.* A softmax gives each word a single set of weights, and a single set of weights gives a single average. Two
# answers in one average blur each other.
#
# So let each word ask several questions at the same time. Cut its vector into pieces, let **every piece attend on
# its own**, and put the answers back together. Each piece is called a *head*. That is all there is to *multi-head
# attention*, and the cut costs nothing: the same matrices are used in thinner slices.
#
# This unit builds it in seven steps: the cut itself, some counting, the module that every Transformer is made of, its
# fast form, its form between two sentences, a comparison with PyTorch's own, and last another way to read it that
# lets you switch single heads off.
#
# **How to work.** Each step ends with a function or a class for you to write. Replace the line that raises
# `NotImplementedError`, then ask `hw check heads`. The public tests are plain pytest; your marks come from further
# tests, of the same properties and of a few more.
#
# **Conventions.**
#
# | Letter | Means |
# |---|---|
# | $B$ | sequences in a batch |
# | $N$, $M$ | number of queries, of keys |
# | $D$ | features of a token (`d_model`) |
# | $H$, $d$ | number of heads (`n_heads`); features of a token inside one head, $d = D / H$ |
#
# - In a mask, `True` means: may attend.
# - Indices start at 0. Head $h$ owns the features from $h d$ up to, but not including, $(h + 1) d$.
# - A module multiplies by `nn.Linear`, which computes $x W^\top + b$ from its `weight` $W$ and its `bias` $b$. Step 7
#   is about functions, and there a matrix multiplies from the right, $x W$, as in the unit on attention.
#
# **You will need attention itself** in steps 3 to 5. Take the `attention` that you wrote in the first unit: paste it
# into this file, or write `from attention import attention` if you hand in both files. The ready-made
# `F.scaled_dot_product_attention` is allowed too, as long as its answer is all you want: it does not tell the weights.

# %%
import math

import torch
from torch import Tensor, nn


# %% tags=["solution_only"]
def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention: output (..., N, Dv) and weights (..., N, M), zero where no key is allowed."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., N, M)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        lowest = torch.finfo(scores.dtype).min  # not -inf: a row of them would be NaN, and so would its gradient
        weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)  # matters only where no key is allowed
    return weights @ value, weights


# %% [markdown]
# ## 1. Cut and paste
#
# A batch of tokens has shape $(B, N, D)$. Attention treats all leading dimensions as a batch: they only come along.
# So if the heads become a leading dimension, one call attends for all of them. Splitting leads from $(B, N, D)$ to
# $(B, H, N, d)$, and merging leads back.
#
# Head $h$ gets a block of *neighbouring columns*, for every token. Three tokens of four features, two heads:
#
# ```
#                 head 0     head 1                      head 0         head 1
#               ┌─────────┬─────────┐                  ┌─────────┐    ┌─────────┐
#     token 0   │  0   1  │  2   3  │                  │  0   1  │    │  2   3  │
#     token 1   │  4   5  │  6   7  │     ─ split ─►   │  4   5  │    │  6   7  │
#     token 2   │  8   9  │ 10  11  │     ◄─ merge ─   │  8   9  │    │ 10  11  │
#               └─────────┴─────────┘                  └─────────┘    └─────────┘
#                    (1, 3, 4)                                (1, 2, 3, 2)
# ```
#
# The shape alone proves little. Here is what `x.reshape(1, 2, 3, 2)` makes of the same twelve numbers:
#
# ```
#                                                        head 0         head 1
#                                                      ┌─────────┐    ┌─────────┐
#                                                      │  0   1  │    │  6   7  │
#                 the same shape,                      │  2   3  │    │  8   9  │
#                 but is it the same thing?            │  4   5  │    │ 10  11  │
#                                                      └─────────┘    └─────────┘
# ```
#
# A network with this mistake runs, and its loss even falls for a while. It is the most common bug of this unit.
#
# - Which tokens meet in row 1 of head 0 in the second drawing?
# - With one token, or with one head, the two drawings agree. What does that say about the sizes you should test with?
# - After a transpose, `view` sometimes complains. What is it that it cannot do, and who can?
# - A batch may be empty, $B = 0$. Asked for `-1` in a tensor without entries, how should `reshape` work it out?


# %%
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
    ### BEGIN SOLUTION
    d_model = x.shape[-1]
    if d_model % n_heads:
        raise ValueError(f"{d_model} features cannot be split into {n_heads} heads of equal width")
    return x.unflatten(-1, (n_heads, d_model // n_heads)).transpose(1, 2)  # (B, N, H, d) -> (B, H, N, d)
    ### END SOLUTION


# %%
def merge_heads(x: Tensor) -> Tensor:
    """Put the heads of every token side by side again: what split_heads did, undone.

    x:       (B, H, N, d)
    returns  (B, N, H·d)

    >>> merge_heads(torch.tensor([[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]))
    tensor([[[0, 1, 2, 3],
             [4, 5, 6, 7]]])
    """
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)  # (B, N, H, d) -> (B, N, H·d)
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from heads import merge_heads, split_heads

from autograder.properties import agrees, require

WHOLE = torch.arange(12.0).reshape(1, 3, 4)
IN_TWO_HEADS = torch.tensor([[[[0.0, 1.0], [4.0, 5.0], [8.0, 9.0]], [[2.0, 3.0], [6.0, 7.0], [10.0, 11.0]]]])


def test_splitting_gives_the_heads_of_the_drawing():
    require(agrees(split_heads(WHOLE, 2), IN_TWO_HEADS, atol=0))


def test_merging_gives_the_tokens_of_the_drawing():
    require(agrees(merge_heads(IN_TWO_HEADS), WHOLE, atol=0))


@pytest.mark.parametrize("n_heads", [1, 2, 3, 6])
def test_merging_undoes_splitting(n_heads):
    x = torch.randn(2, 5, 6)
    require(agrees(merge_heads(split_heads(x, n_heads)), x, atol=0))


def test_heads_of_unequal_width_are_refused():
    with pytest.raises(ValueError):
        split_heads(torch.randn(2, 5, 6), 4)


# %% [markdown]
# ## 2. What the heads cost
#
# Nothing. That deserves a moment.
#
# Multi-head attention has four matrices of shape $(D, D)$: one each for queries, keys and values, and one that mixes
# the merged heads at the end. Written as $x W$, the heads are slices of these:
#
# ```
#            w_query              w_key               w_value                w_out
#         h0  h1  h2  h3      h0  h1  h2  h3      h0  h1  h2  h3
#        ┌───┬───┬───┬───┐   ┌───┬───┬───┬───┐   ┌───┬───┬───┬───┐   ┌───────────────┐ h0
#        │   │   │   │   │   │   │   │   │   │   │   │   │   │   │   ├───────────────┤ h1
#      D │   │   │   │   │   │   │   │   │   │   │   │   │   │   │   ├───────────────┤ h2
#        │   │   │   │   │   │   │   │   │   │   │   │   │   │   │   ├───────────────┤ h3
#        └───┴───┴───┴───┘   └───┴───┴───┴───┘   └───┴───┴───┴───┘   └───────────────┘
#          d   d   d   d
# ```
#
# Take eight heads instead of four, and the slices are half as wide. The matrices are what they were.
#
# So the width of a head is $d = D / H$, an integer: where $H$ does not divide $D$ there is no such head. And the
# number of parameters depends on $D$ alone, and on whether the four `nn.Linear` have a bias:
#
# | $D$ | $H$ | $d$ | parameters | with biases |
# |---|---|---|---|---|
# | 16 | 4 | 4 | 1,024 | 1,088 |
# | 512 | 8 | 64 | 1,048,576 | 1,050,624 |
# | 768 (GPT-2 small) | 12 | 64 | 2,359,296 | 2,362,368 |
#
# - A bias has one entry for each output of its layer. How many biases are there?
# - Why is $H$ no argument of `mha_params`?
# - In Python, `64 / 4` and `64 // 4` differ, though 16 is 16. In what?


# %%
def head_dim(d_model: int, n_heads: int) -> int:
    """The width of one head, an int.

    raises  ValueError if n_heads does not divide d_model

    >>> head_dim(64, 4)
    16
    """
    ### BEGIN SOLUTION
    if d_model % n_heads:
        raise ValueError(f"{d_model} features cannot be split into {n_heads} heads of equal width")
    return d_model // n_heads
    ### END SOLUTION


# %%
def mha_params(d_model: int, bias: bool = False) -> int:
    """The number of parameters of multi-head attention: four nn.Linear(d_model, d_model), with a bias each or without.

    >>> mha_params(16), mha_params(16, bias=True)
    (1024, 1088)
    """
    ### BEGIN SOLUTION
    return 4 * (d_model**2 + bias * d_model)
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
from heads import head_dim, mha_params


def test_the_widths_of_the_table():
    assert [head_dim(16, 4), head_dim(512, 8), head_dim(768, 12)] == [4, 64, 64]


def test_a_head_of_fractional_width_is_refused():
    with pytest.raises(ValueError):
        head_dim(10, 4)


def test_the_counts_of_the_table():
    assert [mha_params(16), mha_params(512), mha_params(768)] == [1_024, 1_048_576, 2_359_296]
    assert [mha_params(16, bias=True), mha_params(512, True), mha_params(768, True)] == [1_088, 1_050_624, 2_362_368]


# %% [markdown]
# ## 3. Multi-head attention
#
# Now the module. For each head $h$, with its slices of queries, keys and values,
#
# $$A_h = \text{softmax}\left(\frac{Q_h K_h^\top}{\sqrt{d}}\right), \qquad Y_h = A_h V_h,$$
#
# and then the heads side by side, $Y = [Y_0, Y_1, \ldots, Y_{H-1}]$, through one last matrix: the output is `w_out(Y)`.
#
# ```
#     x ────────► w_query ─► split ─► (B, H, N, d) ──┐
#  (B, N, D)                                         ├─► attention ─► merge ─► w_out ─► output
#     context ┬─► w_key ───► split ─► (B, H, M, d) ──┤   in every     (B, N, D)         (B, N, D)
#  (B, M, D)  └─► w_value ─► split ─► (B, H, M, d) ──┘   head alone
# ```
#
# Queries come from `x`; keys and values come from `context`. Without a context, `x` looks at itself: *self-attention*.
#
# Up to `w_out` the heads do not talk to each other. If `w_out` is the identity, you can see it: which slices of
# `w_query`, `w_key` and `w_value` does each feature of the output depend on?
#
# ```
#                          w_out = identity           any w_out
#      depends on slice    h0   h1   h2   h3          h0   h1   h2   h3
#      output 0 to d       ██    ·    ·    ·          ██   ██   ██   ██
#      output d to 2d       ·   ██    ·    ·          ██   ██   ██   ██
#      output 2d to 3d      ·    ·   ██    ·          ██   ██   ██   ██
#      output 3d to 4d      ·    ·    ·   ██          ██   ██   ██   ██
# ```
#
# **Parameters.** The tests load weights into your module, so they need to know its names. Choose one of two layouts,
# both made of `nn.Linear` with the `bias` that is asked for, and add no other parameters:
#
# | Layout | Layers | Shape of their `weight` |
# |---|---|---|
# | separate | `w_query`, `w_key`, `w_value`, `w_out` | $(D, D)$ each |
# | fused | `w_qkv`, `w_out` | $(3D, D)$, its rows in the order query, key, value; $(D, D)$ |
#
# **Mask.** A tensor of bools, `True` = may attend, that broadcasts to $(B, H, N, M)$:
#
# | Shape | Says |
# |---|---|
# | $(N, M)$ | the same for every sequence and every head, like a causal mask |
# | $(B, 1, 1, M)$ | which keys of each sequence are real, like a padding mask |
# | $(B, H, N, M)$ | everything about everyone |
#
# A forbidden key takes part in nothing, whatever its score, and the weights of the others sum to one.
#
# **A query with no allowed key** takes nothing in any head, as in the first unit: its $Y_h$ are zero, and all
# gradients stay finite. `w_out` comes after that, as for every other query.
#
# **By hand.** `nn.MultiheadAttention` would be the whole exercise. It has to wait until step 6. And no dropout yet.
#
# A small example, with all four matrices the identity and no biases, so that queries, keys and values are the tokens
# themselves. $X = [[1,0,0,1],[0,1,1,0],[1,1,0,0]]$:
#
# | | $H = 2$: head 0 | head 1 | $H = 1$ |
# |---|---|---|---|
# | output 0 | .802224 .598888 | .248255 .503490 | .813676 .493520 .186324 .506480 |
# | output 1 | .598888 .802224 | .503490 .248255 | .493520 .813676 .506480 .186324 |
# | output 2 | .751745 .751745 | .333333 .333333 | .725931 .725931 .274069 .274069 |
#
# With one head, a token has one set of weights for all four features. With two heads it has two: token 2 is (0, 0) in
# head 1, so there it finds all keys alike, and takes a third of each.
#
# - There are two roots at hand, $\sqrt{D}$ and $\sqrt{d}$. How many terms has the dot product of a query and a key
#   inside one head?
# - Your module is right for $H = 1$ and wrong for $H = 2$. Which two steps do nothing for one head?
# - When you broadcast $(B, 1, 1, M)$ against $(B, H, N, M)$, which axis meets which? And what becomes of that if you
#   add an axis to every mask, just to be sure?
# - Softmax first, then zeros for the forbidden keys, then each row divided by what is left: on paper that is right as
#   well. What is left when a forbidden score is 1000 larger than all the others?
# - A forbidden score of $-10^9$ is as good as $-\infty$, until *all* scores of a query are $-10^9$. What does the
#   softmax give then?


# %%
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
        ### BEGIN SOLUTION
        head_dim(d_model, n_heads)  # refuses heads of unequal width
        self.n_heads = n_heads
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Let every token of x attend to the context.

        x:        (B, N, D), the queries' source
        context:  (B, M, D), the source of keys and values; None means x
        mask:     bool, broadcastable to (B, H, N, M), True = may attend; None allows everything
        returns   (B, N, D)
        """
        ### BEGIN SOLUTION
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)  # (B, H, N, d)
        key = split_heads(self.w_key(source), self.n_heads)  # (B, H, M, d)
        value = split_heads(self.w_value(source), self.n_heads)  # (B, H, M, d)
        output, _ = attention(query, key, value, mask)  # (B, H, N, d)
        return self.w_out(merge_heads(output))
        ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from heads import MultiHeadAttention

from autograder.properties import agrees, future_perturbation, permutation_equivariance, require

TOKENS = torch.tensor([[[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]])


def with_identities(module):
    """Every matrix of the module becomes the identity; a fused one three of them."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.eye(4).repeat(len(weight) // 4, 1))
    return module


@pytest.mark.parametrize(
    ("n_heads", "table"),
    [
        (1, [[0.813676, 0.493520, 0.186324, 0.506480], [0.493520, 0.813676, 0.506480, 0.186324]]),
        (2, [[0.802224, 0.598888, 0.248255, 0.503490], [0.598888, 0.802224, 0.503490, 0.248255]]),
    ],
)
def test_multi_head_attention_gives_the_numbers_of_the_table(n_heads, table):
    output = with_identities(MultiHeadAttention(4, n_heads))(TOKENS)
    assert output.shape == (1, 3, 4)
    require(agrees(output[0, :2], torch.tensor(table)))


@pytest.mark.parametrize(("bias", "count"), [(False, 1_024), (True, 1_088)])
@pytest.mark.parametrize("n_heads", [1, 4])
def test_the_number_of_parameters_does_not_depend_on_the_heads(n_heads, bias, count):
    module = MultiHeadAttention(16, n_heads, bias)
    assert sum(p.numel() for p in module.parameters()) == count, "the number of parameters is not the handout's"


def test_shuffling_the_tokens_shuffles_the_outputs_of_all_heads():
    require(permutation_equivariance(MultiHeadAttention(8, 2), torch.randn(2, 5, 8)))


def test_under_a_causal_mask_no_head_depends_on_a_later_token():
    module, causal = MultiHeadAttention(8, 2), torch.ones(6, 6, dtype=torch.bool).tril()
    require(future_perturbation(lambda x: module(x, mask=causal), torch.randn(2, 6, 8)))


def test_padding_is_the_same_as_no_context_there():
    module, x, context = MultiHeadAttention(8, 2), torch.randn(1, 4, 8), torch.randn(1, 6, 8)
    real = torch.tensor([True, True, True, True, False, False]).reshape(1, 1, 1, 6)
    require(agrees(module(x, context, real), module(x, context[:, :4])))


def test_a_query_with_no_allowed_key_takes_nothing():
    mask = torch.tensor([[True, True, True], [False, False, False], [True, False, False]])
    output = with_identities(MultiHeadAttention(4, 2))(TOKENS, mask=mask)
    require(agrees(output[0, 1], torch.zeros(4)))


# %% [markdown]
# ## 4. Three products in one
#
# Queries, keys and values are three products of the same tokens. A processor is happier with one wide product than
# with three narrow ones, for it has to fetch the tokens only once. So put the three matrices on top of each other,
# multiply once, and cut the result. This is how most language models are written, and they always look backwards only:
#
# ```
#    w_qkv.weight, (3D, D)                       w_qkv(x), (B, N, 3D)
#    ┌─────────────┐
#    │    query    │  rows 0 to D               ┌─────────┬─────────┬─────────┐
#    ├─────────────┤                            │  query  │   key   │  value  │    first into three,
#    │     key     │  rows D to 2D       ─►     └────┬────┴────┬────┴────┬────┘
#    ├─────────────┤                              split     split     split        then each into heads
#    │    value    │  rows 2D to 3D
#    └─────────────┘
# ```
#
# The module is *causal*: output $t$ depends on the tokens 0 to $t$, and on nothing later. Change one token, look which
# outputs move, and you get this picture. It must look like this for every length $N$, also for the next one that
# comes along:
#
# ```
#                       changed token
#                       0   1   2   3
#        output 0       █   ·   ·   ·
#        output 1       █   █   ·   ·
#        output 2       █   █   █   ·
#        output 3       █   █   █   █
# ```
#
# Parameters: $3D^2 + D^2$, and $3D + D$ more with biases. That is 64 for $D = 4$ without, and 16,640 for $D = 64$
# with. Compare with step 2.
#
# The example of step 3 again: $D = 4$, $H = 2$, the same $X$, the identity three times in `w_qkv` and once in `w_out`:
#
# | | output |
# |---|---|
# | token 0 | 1, 0, 0, 1 |
# | token 1 | .330238, .669762, .669762, .330238 |
# | token 2 | .751745, .751745, .333333, .333333 |
#
# - Token 0 comes out as it went in, and token 2 as in step 3. Must that be so?
# - What if you split into heads first, by `view(B, N, H, 3 * d)`, and cut each head into three? Which rows of
#   `w_qkv` would be the queries of head 0?
# - May token $t$ look at itself? If it may not, what is left for token 0?
# - On which device, and for which $N$, should the mask be made?


# %%
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
        ### BEGIN SOLUTION
        head_dim(d_model, n_heads)  # refuses heads of unequal width
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Let every token attend to itself and to the tokens before it.

        x:       (B, N, D), for any N
        returns  (B, N, D)
        """
        ### BEGIN SOLUTION
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))  # (B, H, N, d)
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()  # (N, N)
        output, _ = attention(query, key, value, causal)  # (B, H, N, d)
        return self.w_out(merge_heads(output))
        ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from heads import FusedCausalAttention

from autograder.properties import agrees, future_perturbation, prefix_consistency, require


def test_fused_attention_gives_the_numbers_of_the_table():
    module = FusedCausalAttention(4, 2)
    module.load_state_dict({"w_qkv.weight": torch.eye(4).repeat(3, 1), "w_out.weight": torch.eye(4)})
    x = torch.tensor([[[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]])
    table = [[[1, 0, 0, 1], [0.330238, 0.669762, 0.669762, 0.330238], [0.751745, 0.751745, 0.333333, 0.333333]]]
    require(agrees(module(x), torch.tensor(table)))


def test_fused_attention_depends_on_no_later_token():
    require(future_perturbation(FusedCausalAttention(8, 2), torch.randn(2, 6, 8)))


def test_the_beginning_of_a_sentence_is_the_same_alone():
    require(prefix_consistency(FusedCausalAttention(8, 2), torch.randn(2, 6, 8)))


def test_a_token_alone_only_meets_the_value_rows():
    module, x = FusedCausalAttention(8, 2), torch.randn(3, 1, 8)
    value_rows = module.w_qkv.weight[16:]
    require(agrees(module(x), module.w_out(x @ value_rows.T)))


@pytest.mark.parametrize(("d_model", "bias", "count"), [(4, False, 64), (64, True, 16_640)])
def test_the_number_of_fused_parameters(d_model, bias, count):
    module = FusedCausalAttention(d_model, 2, bias)
    assert sum(p.numel() for p in module.parameters()) == count, "the number of parameters is not the handout's"


# %% [markdown]
# ## 5. From one sentence to another
#
# A translator reads the source, and writes the target word by word. Each word that it writes may look at all of the
# source: *cross-attention*. The target asks, so **queries come from the target; keys and values come from the
# source**:
#
# ```
#    x, the target        ──► w_query ─► query ──┐
#    (B, Nt, D)                                  ├─► weights (B, H, Nt, Ns) ──┐
#    context, the source  ┬─► w_key ───► key ────┘                            ├─► merge ─► w_out ─► output
#    (B, Ns, D)           └─► w_value ─► value ───────────────────────────────┘                     (B, Nt, D)
# ```
#
# You have built this already, in `MultiHeadAttention` with a context. Now the weights come out too. Seen as a
# picture, they are the famous alignment of two sentences: a row for each target token, a column for each source token,
# a picture for each head.
#
# With identities for all matrices, $D = 4$, $H = 2$, the context $[[1,0,0,1],[0,1,1,0],[1,1,0,0]]$ (the $X$ of step
# 3), and the target $[[1,0,0,0],[0,0,0,2]]$:
#
# | | weights of head 0 | weights of head 1 | output |
# |---|---|---|---|
# | target 0 | .401112 .197776 .401112 | .333333 .333333 .333333 | .802224 .598888 .333333 .333333 |
# | target 1 | .333333 .333333 .333333 | .672842 .163579 .163579 | .666667 .666667 .163579 .672842 |
#
# And this is who depends on whom:
#
# ```
#                     changed source token            changed target token
#                       0   1   2   3                        0   1   2
#        output 0       █   █   █   █         output 0       █   ·   ·
#        output 1       █   █   █   █         output 1       ·   █   ·
#        output 2       █   █   █   █         output 2       ·   ·   █
# ```
#
# The mask says which source tokens are real, as in step 3. A target token with no allowed source token gets zero
# weights, and its heads are zero.
#
# - Shuffle the source. What happens to the output, and what to the weights?
# - If the source has a single token, what are the weights, whatever the target asks?
# - The target must not see its own future. Does that forbid any of the $N_t \times N_s$ weights here?
# - Keys from the one and values from the other: with $N_t = N_s$ nothing would crash. Which sizes will you test with?


# %%
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
        ### BEGIN SOLUTION
        head_dim(d_model, n_heads)  # refuses heads of unequal width
        self.n_heads = n_heads
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Let every token of the target attend to the source.

        x:        (B, Nt, D), the target
        context:  (B, Ns, D), the source
        mask:     bool, broadcastable to (B, H, Nt, Ns), True = may attend; None allows everything
        returns   output (B, Nt, D) and weights (B, H, Nt, Ns)
        """
        ### BEGIN SOLUTION
        query = split_heads(self.w_query(x), self.n_heads)  # (B, H, Nt, d)
        key = split_heads(self.w_key(context), self.n_heads)  # (B, H, Ns, d)
        value = split_heads(self.w_value(context), self.n_heads)  # (B, H, Ns, d)
        output, weights = attention(query, key, value, mask)  # (B, H, Nt, d), (B, H, Nt, Ns)
        return self.w_out(merge_heads(output)), weights
        ### END SOLUTION


# %% tags=["public_test"]
import torch
from heads import CrossAttention

from autograder.properties import agrees, permutation_invariance, require, rows_sum_to_one


def test_cross_attention_gives_the_numbers_of_the_table():
    module = CrossAttention(4, 2)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.eye(4).repeat(len(weight) // 4, 1))
    source = torch.tensor([[[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]])
    target = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]]])
    output, weights = module(target, source)
    third = [1 / 3, 1 / 3, 1 / 3]
    head_0, head_1 = [[0.401112, 0.197776, 0.401112], third], [third, [0.672842, 0.163579, 0.163579]]
    require(agrees(weights, torch.tensor([[head_0, head_1]])))
    table = [[[0.802224, 0.598888, 0.333333, 0.333333], [0.666667, 0.666667, 0.163579, 0.672842]]]
    require(agrees(output, torch.tensor(table)))


def test_the_weights_of_a_target_token_sum_to_one_in_each_head():
    _, weights = CrossAttention(8, 2)(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    assert weights.shape == (2, 2, 3, 5)
    require(rows_sum_to_one(weights))


def test_the_order_of_the_source_does_not_matter():
    module, target = CrossAttention(8, 2), torch.randn(2, 3, 8)
    require(permutation_invariance(lambda source: module(target, source)[0], torch.randn(2, 5, 8)))


def test_a_single_source_token_is_what_every_target_token_gets():
    output, _ = CrossAttention(8, 2)(torch.randn(2, 3, 8), torch.randn(2, 1, 8))
    require(agrees(output, output[:, :1].expand(2, 3, 8)))


# %% [markdown]
# ## 6. Is it the same as PyTorch's?
#
# You have written `nn.MultiheadAttention`. Prove it: copy your weights over, and compare. This is also how one reads
# other people's checkpoints, and nearly all the work lies in knowing their conventions:
#
# | | your module | `nn.MultiheadAttention` |
# |---|---|---|
# | query, key, value | `w_query`, `w_key`, `w_value`, or `w_qkv` | `in_proj_weight`, `in_proj_bias`, in this order |
# | their shapes | $(D, D)$ and $(D)$ each, or $(3D, D)$ and $(3D)$ | $(3D, D)$ and $(3D)$ |
# | output | `w_out` | `out_proj.weight`, `out_proj.bias` |
# | shape of a batch | $(B, N, D)$ | $(N, B, D)$, unless it is made with `batch_first=True` |
# | mask of bools | `True` = may attend | `True` = may **not** attend |
# | weights | each head's | the mean over all heads, unless called with `average_attn_weights=False` |
#
# ```
#      yours                             PyTorch's
#      w_query.weight  ▓▓▓▓  ─────────►  ▓▓▓▓
#      w_key.weight    ▒▒▒▒  ─────────►  ▒▒▒▒  in_proj_weight
#      w_value.weight  ░░░░  ─────────►  ░░░░
#      w_out.weight    ████  ─────────►  ████  out_proj.weight
# ```
#
# The copy must be a good one:
#
# - it takes a batch first, and has as many heads as your module, biases only if your module has them, and the same
#   dtype, on the same device;
# - its outputs and its weights are those of your module, whatever values your parameters have;
# - it is a copy: whatever happens to the one later, the other stays as it was.
#
# Then this holds, up to rounding:
#
# ```python
# theirs = copy_into_torch(mine)
# output, weights = theirs(x, context, context, attn_mask=~mask, average_attn_weights=False)   # mask (N, M)
# output == mine(x, context, mask)
# ```
#
# - Both sides store the `weight` of a linear layer. Is there anything to transpose? Would a symmetric matrix show a
#   mistake?
# - `theirs.out_proj.weight = mine.w_out.weight` runs. What happens to your module when PyTorch's is trained?
# - A fresh `nn.MultiheadAttention` has biases of zero. With which biases in your module would you test?


# %%
def copy_into_torch(module: MultiHeadAttention) -> nn.MultiheadAttention:
    """PyTorch's own multi-head attention with the weights of yours: batch first, the same outputs, the same weights.

    module:  your MultiHeadAttention, with biases or without; it is left as it is
    returns  an nn.MultiheadAttention with parameters of its own

    >>> mine, x = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    >>> output, _ = copy_into_torch(mine)(x, x, x)
    >>> torch.allclose(output, mine(x), atol=1e-6)
    True
    """
    ### BEGIN SOLUTION
    mine, theirs = module.state_dict(), {}
    layers = ["w_qkv"] if "w_qkv.weight" in mine else ["w_query", "w_key", "w_value"]
    for part in ("weight", "bias"):
        if f"w_out.{part}" in mine:
            theirs[f"in_proj_{part}"] = torch.cat([mine[f"{layer}.{part}"] for layer in layers])  # (3D, D) or (3D,)
            theirs[f"out_proj.{part}"] = mine[f"w_out.{part}"]
    w_out = mine["w_out.weight"]
    copy = nn.MultiheadAttention(len(w_out), module.n_heads, bias="w_out.bias" in mine, batch_first=True)
    copy.to(w_out).load_state_dict(theirs)
    return copy
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from heads import MultiHeadAttention, copy_into_torch

from autograder.properties import agrees, require


@pytest.mark.parametrize("bias", [False, True])
def test_the_copy_gives_the_same_outputs(bias):
    mine, x = MultiHeadAttention(8, 2, bias), torch.randn(3, 5, 8)
    require(agrees(copy_into_torch(mine)(x, x, x)[0], mine(x)))


def test_the_copy_gives_the_same_outputs_with_context_and_mask():
    mine, x, context = MultiHeadAttention(8, 2), torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    mask = torch.ones(4, 6, dtype=torch.bool).tril(2)
    output, weights = copy_into_torch(mine)(x, context, context, attn_mask=~mask, average_attn_weights=False)
    assert weights.shape == (2, 2, 4, 6)
    require(agrees(output, mine(x, context, mask)))


def test_the_copy_is_pytorchs_own_and_takes_the_batch_first():
    copy = copy_into_torch(MultiHeadAttention(8, 2))
    assert type(copy) is torch.nn.MultiheadAttention
    assert copy.batch_first


# %% [markdown]
# ## 7. A sum over heads
#
# Merging the heads and multiplying by $W_o$ hides a simple fact. Cut $W_o$ into blocks of *rows*, one for each head,
# and the product of the merged heads with it becomes a sum. With functions and $x W$ matrices,
#
# $$Y = \sum_h A_h \, X \, W_v^{(h)} W_o^{(h)}$$
#
# where $W_v^{(h)}$ are the columns of $W_v$ that belong to head $h$, of shape $(D, d)$, and $W_o^{(h)}$ are the rows of
# $W_o$ that belong to it, of shape $(d, D)$:
#
# ```
#            w_value                            w_out
#           h0     h1                      ┌─────────────┐
#        ┌──────┬──────┐                   │     h0      │  d rows
#      D │      │      │                   ├─────────────┤
#        │      │      │                   │     h1      │  d rows
#        └──────┴──────┘                   └─────────────┘
#            d      d                             D
#
#     Y  =  A0 · X · columns h0 · rows h0   +   A1 · X · columns h1 · rows h1
#                    └─────────┬────────┘                └─────────┬────────┘
#                    (D, D), rank d at most              (D, D), rank d at most
# ```
#
# So a head reads from every token through $W_v^{(h)}$, moves what it has read along $A_h$, and *adds* what
# $W_o^{(h)}$ makes of it. It writes into all $D$ features, but along at most $d$ directions: the product
# $W_v^{(h)} W_o^{(h)}$ is $(D, D)$ and has rank $d$ at most. Heads do not concatenate. They add up.
#
# By hand, with $D = 2$ and two heads of width 1: $X = [[1, 2], [3, 4]]$, $W_v = [[1, 0], [0, 1]]$,
# $W_o = [[1, 1], [0, 2]]$, and the weights $A_0 = [[1, 0], [.5, .5]]$, $A_1 = [[0, 1], [1, 0]]$:
#
# | | reads | moves | writes |
# |---|---|---|---|
# | head 0 | the first features: 1, 3 | 1, 2 | times (1, 1): $[[1, 1], [2, 2]]$ |
# | head 1 | the second features: 2, 4 | 4, 2 | times (0, 2): $[[0, 8], [0, 4]]$ |
# | sum | | | $[[1, 9], [2, 6]]$ |
#
# **Switching a head off.** If the output is a sum, one term can be left out, and the others stay as they are. It is the
# first thing one tries with a trained model: which head does it need? (Often surprisingly few.) Without head 1, the
# example gives $[[1, 1], [2, 2]]$.
#
# - Columns of the one, rows of the other. Which shapes would the slices have the other way round, and would you be
#   warned?
# - If you set some weights to zero to switch a head off, whose tensor is it that you write into?
# - There is one head, and you switch it off. What is left? Is it still a tensor?


# %%
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
    ### BEGIN SOLUTION
    n_heads = len(weights)
    columns, rows = w_value.chunk(n_heads, dim=1), w_out.chunk(n_heads, dim=0)  # H times (D, d), H times (d, D)
    return sum(a @ x @ w_v @ w_o for a, w_v, w_o in zip(weights, columns, rows, strict=True))
    ### END SOLUTION


# %%
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
    ### BEGIN SOLUTION
    kept = weights.clone()
    kept[head] = 0.0  # a head that attends to nothing adds nothing
    return sum_over_heads(kept, x, w_value, w_out)
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from heads import ablate_head, sum_over_heads

from autograder.properties import agrees, require

MOVES = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]]])
READS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
WRITES = torch.tensor([[1.0, 1.0], [0.0, 2.0]])


def test_the_sum_of_the_handout():
    require(agrees(sum_over_heads(MOVES, READS, torch.eye(2), WRITES), torch.tensor([[1.0, 9.0], [2.0, 6.0]])))


def test_without_head_1_the_sum_of_the_handout_is_the_term_of_head_0():
    require(agrees(ablate_head(MOVES, READS, torch.eye(2), WRITES, 1), torch.tensor([[1.0, 1.0], [2.0, 2.0]])))


def test_with_one_head_the_sum_has_one_term():
    weights, x, w_value, w_out = torch.rand(1, 3, 5), torch.randn(5, 4), torch.randn(4, 4), torch.randn(4, 4)
    require(agrees(sum_over_heads(weights, x, w_value, w_out), weights[0] @ x @ w_value @ w_out))


def test_what_the_heads_lose_one_by_one_is_everything():
    weights, x, w_value, w_out = torch.rand(3, 4, 5), torch.randn(5, 6), torch.randn(6, 6), torch.randn(6, 6)
    everything = sum_over_heads(weights, x, w_value, w_out)
    lost = [everything - ablate_head(weights, x, w_value, w_out, head) for head in range(3)]
    require(agrees(lost[0] + lost[1] + lost[2], everything))


# %% [markdown]
# ## Looking back
#
# You cut tokens into heads without mixing them (1), saw that the cut is free (2), and built the module that every
# Transformer stands on, for one sentence (3, 4) and for two (5). It is the same one that PyTorch ships (6). And you can
# read it in two ways: as heads side by side, or as a sum in which every head adds its own low-rank bit (7).
#
# Attention moves things between tokens. What a token then does with what it got is the job of the block around it, and
# that comes next.
