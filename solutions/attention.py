# %% [markdown]
# # Attention: an average that chooses its own weights
#
# Take a sentence. Each word has a vector, and each vector should learn something from the others: in *the bank of the
# river*, the vector of *bank* should take in a little of *river*. The simplest way to take something in is to
# average:
#
# $$y_n = \sum_m a_{nm} x_m$$
#
# A plain average uses the same weight for every word. A convolution uses fixed weights for its neighbours.
# **Attention computes the weights from the words themselves.** That is the whole idea. This unit builds it in eleven
# small steps: first the bare average, then each improvement, always with the fact that makes it necessary.
#
# **How to work.** Each step ends with a function for you to write. Replace the line that raises
# `NotImplementedError`. Then ask `hw check attention`: it runs the public tests and tells you, test by test, what
# holds. They are plain pytest, so `pytest assignments/attention` does the same. Your marks come from further tests,
# of the same properties and of a few more.
#
# **Conventions, here and in all later units.**
#
# | Letter | Means |
# |---|---|
# | $N$, $M$ | number of queries, the tokens that ask; number of keys, the tokens that are asked |
# | $D$ | features of a token |
# | $D_k$, $D_v$ | features of a query and of a key; features of a value |
#
# - Tokens are rows: $X$ has shape $(N, D)$. Matrices of parameters multiply from the right, $X W$, without a bias.
# - Indices start at 0, in the text as in the code.
# - In a mask, `True` means: may attend.

# %%
import math
from collections.abc import Callable

import torch
from torch import Tensor

# %% [markdown]
# ## 1. Tokens that look at each other
#
# How much should token $n$ take from token $m$? Let the two vectors decide: their dot product is large when they
# point the same way. A softmax over $m$ turns the dot products of one token into weights:
#
# $$a_{nm} = \frac{\exp(x_n \cdot x_m)}{\sum_k \exp(x_n \cdot x_k)}, \qquad y_n = \sum_m a_{nm} x_m$$
#
# In matrices: $S = X X^\top$ of shape $(N, N)$, then a softmax, then $Y = A X$ of shape $(N, D)$. No parameters, no
# scale.
#
# Here is token 1 of $X = [[1, 0], [0, 1], [1, 1]]$ at work:
#
# ```
#             x0     x1     x2         the tokens
#              │      │      │
#  x1 · xm     0      1      1         x1 is compared with each of them
#              └── softmax ──┘
#             .155   .422   .422       the weights of x1: positive, together 1
#              │      │      │
#              └──────┴──────┴──►      y1 = .155 x0 + .422 x1 + .422 x2 = (.578, .845)
# ```
#
# And all three of them:
#
# | | takes from $x_0$ | from $x_1$ | from $x_2$ | $y_n$ |
# |---|---|---|---|---|
# | $x_0 = (1, 0)$ | .422319 | .155362 | .422319 | (.844638, .577681) |
# | $x_1 = (0, 1)$ | .155362 | .422319 | .422319 | (.577681, .844638) |
# | $x_2 = (1, 1)$ | .211942 | .211942 | .576117 | (.788058, .788058) |
#
# Look at the table before you write.
#
# - Do the rows sum to one, or the columns? Which of the two does "the weights of $x_1$" ask for?
# - $X X^\top$ is symmetric. Is $A$?
# - Does a token always take most from itself? What happens to a short vector next to a long one?


# %%
def dot_product_self_attention(x: Tensor) -> tuple[Tensor, Tensor]:
    """Average the tokens, each with its own weights: a softmax of dot products.

    x:       (N, D), one token in each row
    returns  output (N, D) and weights (N, N); row n of the weights belongs to output n

    >>> output, weights = dot_product_self_attention(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> weights[1]
    tensor([0.1554, 0.4223, 0.4223])
    """
    ### BEGIN SOLUTION
    scores = x @ x.mT  # (N, N)
    weights = torch.softmax(scores, dim=-1)  # (N, N)
    return weights @ x, weights
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from attention import dot_product_self_attention

from autograder.properties import agrees, permutation_equivariance, require


def test_self_attention_gives_the_numbers_of_the_table():
    output, weights = dot_product_self_attention(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    table = [[0.422319, 0.155362, 0.422319], [0.155362, 0.422319, 0.422319], [0.211942, 0.211942, 0.576117]]
    require(agrees(weights, torch.tensor(table)))
    require(agrees(output, torch.tensor([[0.844638, 0.577681], [0.577681, 0.844638], [0.788058, 0.788058]])))


def test_shuffling_the_tokens_shuffles_the_outputs():
    require(permutation_equivariance(lambda x: dot_product_self_attention(x)[0], torch.randn(5, 4)))


def test_a_token_alone_keeps_its_vector():
    x = torch.randn(1, 4)
    require(agrees(dot_product_self_attention(x)[0], x))


# %% [markdown]
# ## 2. What makes it an average
#
# Two facts make $\sum_m a_{nm} x_m$ an average: no weight is negative, and the weights of one token sum to one. Then
# each output lies between the tokens, feature by feature, and a token with all the weight is copied as it is. Give up
# the first fact, and weights may cancel each other. Give up the second, and the output grows or shrinks with the
# sentence.
#
# ```
#     .7  .2  .1   = 1  ✓             .7  .2  .2   = 1.1  ✗
#      0   1   0   = 1  ✓             .9 -.2  .3   = 1    ✗  negative
#     .3  .3  .4   = 1  ✓             .3  .3  .4   = 1    ✓  but one bad row spoils the matrix
# ```
#
# The softmax guarantees both. Code that *should* be a softmax does not. So write the inspector first; you will be
# glad of it.
#
# The rules, exactly. `weights` is an attention matrix when it is a tensor of floats with at least two dimensions,
# when no entry is negative, and when each row (the last axis) sums to one, up to `1e-5`. Any leading dimensions are
# allowed, for batches and heads, and then every matrix must pass. Anything else gets `False`: a list, a tensor of
# integers or of bools, a single row. No input raises an error.
#
# - What do `nan < 0` and `nan > 1e-5` say? Does your inspector stop a matrix of NaN?
# - A matrix whose *total* is $N$ may still have a bad row. Do you look at each row?


# %%
def is_attention_matrix(weights: object) -> bool:
    """Whether these are attention weights: floats, none negative, and each row sums to one up to 1e-5.

    weights:  (..., N, M); anything that is no tensor of floats with two dimensions or more gives False

    >>> is_attention_matrix(torch.tensor([[0.5, 0.5], [0.0, 1.0]])), is_attention_matrix(torch.eye(3) / 2)
    (True, False)
    """
    ### BEGIN SOLUTION
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.dim() < 2:
        return False
    sums = weights.sum(dim=-1)  # (..., N)
    return bool((weights >= 0).all() and ((sums - 1).abs() <= 1e-5).all())  # NaN satisfies no comparison
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from attention import is_attention_matrix


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (2, 3, 4, 4)])
def test_a_softmax_over_the_last_axis_is_accepted(shape):
    assert is_attention_matrix(torch.softmax(torch.randn(shape), dim=-1)), f"a softmax of shape {shape} was refused"


@pytest.mark.parametrize(
    ("flaw", "weights"),
    [
        ("row 1 sums to 1.1", torch.tensor([[0.5, 0.5], [0.6, 0.5]])),
        ("an entry is negative", torch.tensor([[0.5, 0.5], [-0.2, 1.2]])),
        ("an entry is not a number", torch.tensor([[0.5, 0.5], [0.5, float("nan")]])),
        ("a list is no tensor", [[0.5, 0.5], [0.0, 1.0]]),
    ],
)
def test_a_matrix_with_a_flaw_is_refused(flaw, weights):
    assert not is_attention_matrix(weights), f"accepted, though {flaw}"


# %% [markdown]
# ## 3. A dictionary with soft edges
#
# There is another way to see the average. A Python dictionary compares your query with every key, finds the one that
# is equal, and returns its value. Attention compares the query with every key too, but it returns a *blend* of all
# values, and the better a key fits, the larger its share:
#
# $$\text{lookup}(q) = \sum_m a_m v_m, \qquad a = \text{softmax}\left(\frac{K q}{T}\right)$$
#
# with the query $q$ of shape $(D_k)$, the keys $K$ of shape $(M, D_k)$, and the values $V$ of shape $(M, D_v)$. Keys
# and values are now two different things: one is for finding, the other for taking home.
#
# The temperature $T > 0$ sets how soft the edges are. Three keys $(1,0,0)$, $(0,1,0)$, $(0,0,1)$, their values
# $(9,0)$, $(0,3)$, $(3,0)$, and the query $(0,1,0)$:
#
# ```
#     T        weights                 result
#    .001      ·      █      ·         (0.000, 3.000)    the dictionary: the value of the best key
#    .5       .107   .787   .107       (1.278, 2.361)
#    1        .212   .576   .212       (2.543, 1.728)
#   10        .322   .356   .322       (3.865, 1.068)
#   10⁶       .333   .333   .333       (4.000, 1.000)    the plain average of the values
# ```
#
# - The dictionary's answer does not change when the query moves a little. What gradient does a network get from it?
# - At $T = .001$ the logits are a thousand times larger. Does `exp` of them still fit into a float?


# %%
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
    ### BEGIN SOLUTION
    weights = torch.softmax(keys @ query / temperature, dim=-1)  # (M,)
    return weights @ values  # (Dv,)
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from attention import soft_lookup

from autograder.properties import agrees, require


@pytest.mark.parametrize(
    ("temperature", "result"), [(0.001, (0.0, 3.0)), (0.5, (1.278084, 2.360958)), (10, (3.864522, 1.067739))]
)
def test_a_lookup_gives_the_numbers_of_the_table(temperature, result):
    values = torch.tensor([[9.0, 0.0], [0.0, 3.0], [3.0, 0.0]])
    got = soft_lookup(torch.tensor([0.0, 1.0, 0.0]), torch.eye(3), values, temperature)
    require(agrees(got, torch.tensor(result)))


def test_very_warm_a_lookup_is_the_plain_average():
    keys, values = torch.randn(5, 4), torch.randn(5, 2)
    require(agrees(soft_lookup(torch.randn(4), keys, values, 1e7), values.mean(0)))


# %% [markdown]
# ## 4. To ask and to be asked
#
# So far a token asks with the same vector that it answers with. Let us give it parameters. The first idea is one
# matrix $U$ of shape $(D, D_k)$ that looks at the tokens before they are compared:
#
# $$S = (X U)(X U)^\top$$
#
# But $S$ is symmetric, whatever $U$ is: token $n$ can care about token $m$ only as much as $m$ cares about $n$.
# Language is not like that. A pronoun needs its noun; the noun can do without. So we give the two roles a matrix
# each,
#
# $$Q = X W_q, \qquad K = X W_k, \qquad S = Q K^\top,$$
#
# and read $S_{nm}$ as *how well key $m$ answers query $n$*. With $X$ as in step 1:
#
# ```
#  shared: U = (1, 2)ᵀ          separate: Wq = (1 0)   Wk = (0 1)
#                                              (0 1)        (0 0)
#
#         asked:  0  1  2              asked:  0  1  2
#  0 asks         1  2  3       0 asks         0  0  0
#  1 asks         2  4  6       1 asks         1  0  1       1 needs 0,
#  2 asks         3  6  9       2 asks         1  0  1       0 does not need 1
# ```
#
# Both functions return raw scores: no softmax, no scale. That comes in step 7.
#
# - In the shared case, are the *weights* symmetric as well, after the softmax? (Step 1 had the answer.)
# - $Q K^\top$ and $K Q^\top$ have the same shape. Which of them has one query in each row?
# - $S$ is $(N, N)$, but it is made of two thin matrices. What is its largest rank?


# %%
def scores_shared(x: Tensor, u: Tensor) -> Tensor:
    """The scores when queries and keys are the same: (x u)(x u)ᵀ.

    x:       (N, D)
    u:       (D, Dk)
    returns  (N, N), symmetric

    >>> scores_shared(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0], [2.0]]))
    tensor([[1., 2.],
            [2., 4.]])
    """
    ### BEGIN SOLUTION
    seen = x @ u  # (N, Dk)
    return seen @ seen.mT  # (N, N)
    ### END SOLUTION


# %%
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
    ### BEGIN SOLUTION
    query, key = x @ w_query, x @ w_key  # (N, Dk) each
    return query @ key.mT  # (N, N)
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from attention import scores_separate, scores_shared

from autograder.properties import agrees, require

TOKENS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def test_shared_scores_are_those_of_the_picture():
    scores = scores_shared(TOKENS, torch.tensor([[1.0], [2.0]]))
    require(agrees(scores, torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]])))


def test_separate_scores_are_those_of_the_picture():
    scores = scores_separate(TOKENS, torch.eye(2), torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    require(agrees(scores, torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0]])))


def test_the_same_matrix_twice_is_the_shared_case():
    x, u = torch.randn(5, 4), torch.randn(4, 3)
    require(agrees(scores_separate(x, u, u), scores_shared(x, u)))


# %% [markdown]
# ## 5. Dot products grow with the width
#
# A dot product of two vectors with $D_k$ entries is a sum of $D_k$ products. Let all entries be independent, with
# mean 0 and variance 1, as they are in a fresh network. Each product then has mean 0 and variance 1 too, and
# variances of independent terms add up:
#
# $$\text{Var}(q \cdot k) = D_k, \qquad \text{Var}\left(\frac{q \cdot k}{\sqrt{D_k}}\right) = 1$$
#
# ```
#   q·k       -24     -16      -8       0       8      16      24
#   Dk =  4                            ░▒███▒░                          typical size 2
#   Dk = 16                         ░▒▒▓█████▓▒▒░                       typical size 4
#   Dk = 64                  ░░░▒▒▒▓▓▓█████████▓▓▓▒▒▒░░░                typical size 8
# ```
#
# Believe it when you have measured it. Draw $n$ queries, then $n$ keys, each of shape $(n, D_k)$, standard normal,
# from the generator that you are given. Take the $n$ dot products, and return two sample variances: of the dot
# products, and of the same dot products divided by $\sqrt{D_k}$. With n = 20,000 and
# `torch.Generator().manual_seed(1)`, one width after the other from the same generator:
#
# | $D_k$ | 4 | 16 | 64 | 256 |
# |---|---|---|---|---|
# | variance of $q \cdot k$ | 4.03 | 16.36 | 64.58 | 259.84 |
# | after division by $\sqrt{D_k}$ | 1.007 | 1.023 | 1.009 | 1.015 |
#
# Your digits may differ. The law may not.
#
# - Why the root? What would be the variance after division by $D_k$ itself?
# - Where did we use that $q$ and $k$ are independent? What if $k$ is $q$?
# - `torch.randn` without `generator=` draws from elsewhere. How would you notice?


# %%
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
    ### BEGIN SOLUTION
    query = torch.randn(n, d_key, generator=generator)
    key = torch.randn(n, d_key, generator=generator)
    dots = (query * key).sum(dim=-1)  # (n,)
    return dots.var().item(), (dots / math.sqrt(d_key)).var().item()
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from attention import dot_variance


@pytest.mark.parametrize("d_key", [4, 64])
def test_the_variance_of_dot_products_is_the_width_and_the_root_undoes_it(d_key):
    raw, scaled = dot_variance(d_key, 20_000, torch.Generator().manual_seed(1))
    # The relative standard error is sqrt((2 + 6 / d_key) / n), at most 1.4 %: a right answer is never 15 % off.
    assert abs(raw / d_key - 1) < 0.15, f"the variance of q·k is {raw:.3g} for vectors of {d_key} entries"
    assert abs(scaled - 1) < 0.15, f"the variance after scaling is {scaled:.3g} for vectors of {d_key} entries"


# %% [markdown]
# ## 6. A softmax that no longer listens
#
# Why should large scores worry us? Because of the gradient. With $a = \text{softmax}(l)$, the derivative of weight
# $i$ with respect to logit $j$ is
#
# $$J_{ij} = \frac{\partial a_i}{\partial l_j} = a_i \left(\delta_{ij} - a_j\right)$$
#
# where $\delta_{ij}$ is 1 if $i = j$, and otherwise 0. For $l = (0, \ln 2, \ln 3)$ the weights are 1/6, 1/3 and 1/2:
#
# ```
#               ( 5  -2  -3)
#     36 · J =  (-2   8  -6)         size of J, the root of the sum of squares: .4547
#               (-3  -6   9)
# ```
#
# Now stretch the logits, as a wide dot product does:
#
# ```
#   logits      weights                         size of J
#    1 · l      ▂▂  ▄▄  ▆▆    .17  .33  .50       .45
#    4 · l      ▁▁  ▂▂  ▇▇    .01  .16  .83       .28
#   16 · l      ▁▁  ▁▁  ██    .00  .00 1.00       .003      nothing moves any more
# ```
#
# When one weight is nearly 1, every entry of $J$ is nearly 0: the weights no longer react to the scores, and no
# gradient passes. Here is what width alone does. One random query, 10 random keys, the size of $J$:
#
# | $D_k$ | 4 | 64 | 512 |
# |---|---|---|---|
# | logits $q \cdot k$ | 0.375 | 0.0096 | 0.0000009 |
# | logits $q \cdot k / \sqrt{D_k}$ | 0.326 | 0.364 | 0.366 |
#
# That is the reason for the square root in the next step.
#
# - What is the sum of each row of $J$, and why must it be so?
# - Is the diagonal enough? What does logit $j$ do to the *other* weights?
# - Ten equal logits give a $J$ of size $\sqrt{n - 1} / n = 0.3$. Does yours?


# %%
def softmax_jacobian(logits: Tensor) -> Tensor:
    """The derivatives of softmax(logits): entry (i, j) tells how weight i changes with logit j.

    logits:  (n,), of any size: 1e4 must not overflow
    returns  (n, n), symmetric

    >>> softmax_jacobian(torch.zeros(2))
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])
    """
    ### BEGIN SOLUTION
    weights = torch.softmax(logits, dim=-1)  # (n,)
    return weights.diag() - weights.outer(weights)  # (n, n)
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from attention import softmax_jacobian

from autograder.properties import agrees, require


def test_the_jacobian_of_the_handout():
    jacobian = softmax_jacobian(torch.tensor([1.0, 2.0, 3.0]).log())
    require(agrees(36 * jacobian, torch.tensor([[5.0, -2.0, -3.0], [-2.0, 8.0, -6.0], [-3.0, -6.0, 9.0]])))


def test_the_derivatives_agree_with_a_small_step():
    logits = torch.randn(5, dtype=torch.float64)
    steps = 1e-6 * torch.eye(5, dtype=torch.float64)  # row j moves logit j
    change = torch.softmax(logits + steps, dim=-1) - torch.softmax(logits - steps, dim=-1)
    require(agrees(softmax_jacobian(logits), (change / 2e-6).T, atol=1e-8))


def test_the_changes_of_all_weights_cancel():
    jacobian = softmax_jacobian(torch.randn(6))
    require(agrees(jacobian.sum(0), torch.zeros(6)))


# %% [markdown]
# ## 7. Scaled dot-product attention
#
# Now everything comes together: queries, keys and values (step 3), one softmax for each query (step 1), and scores
# that are divided by the root of the keys' width (steps 5 and 6). This one function is the heart of every
# Transformer:
#
# $$A = \text{softmax}\left(\frac{Q K^\top}{\sqrt{D_k}}\right), \qquad Y = A V$$
#
# ```
#   query  (..., N, Dk) ──┐
#                         ├─ q·k / √Dk ─► scores ─► mask ─► softmax ─► weights ──┐
#   key    (..., M, Dk) ──┘              (..., N, M)                 (..., N, M) ├─► output (..., N, Dv)
#   value  (..., M, Dv) ─────────────────────────────────────────────────────────┘
# ```
#
# The dots stand for any leading dimensions, also none: batches, heads, both. They only come along.
#
# **The mask** says who may look at whom. It is a tensor of bools that broadcasts to $(..., N, M)$, and **`True`
# means: may attend**. A forbidden key takes part in nothing: its weight is exactly 0, and the weights of the others
# sum to one, as if it were not there. Three tokens under a *causal* mask, which lets each token look at itself and
# back:
#
# ```
#   mask     key 0  1  2           weights        0     1     2
#   query 0      ✓  ·  ·           query 0       1.0    ·     ·
#   query 1      ✓  ✓  ·           query 1        ▒     ▓     ·       no row sees the future
#   query 2      ✓  ✓  ✓           query 2        ▒     ▒     ▒
# ```
#
# **A query with no allowed key** has nothing to average. We fix one answer for the whole course: its weights are
# zero, its output is zero, and all gradients stay finite. (A softmax over nothing but $-\infty$ gives NaN, and one
# NaN soon eats a whole network.)
#
# **By hand.** `F.scaled_dot_product_attention` and `nn.MultiheadAttention` do this for you. Here you are the one who
# does it.
#
# A small example. $Q = [[1,0],[0,1]]$, $K = [[1,0],[0,1],[1,1]]$, $V = [[1,2],[3,4],[5,6]]$:
#
# | | weights | output |
# |---|---|---|
# | query 0 | .401112, .197776, .401112 | (3, 4) |
# | query 1 | .197776, .401112, .401112 | (3.406673, 4.406673) |
# | query 0, may see key 0 only | 1, 0, 0 | (1, 2) |
# | query 1, may see keys 0 and 1 | .330238, .669762, 0 | (2.339523, 3.339523) |
#
# - The root of what? There are four sizes: $N$, $M$, $D_k$, $D_v$. Only one of them is the number of terms in a dot
#   product.
# - Your weights for query 0 are .4223, .1554, .4223? We have met these numbers before. What is missing?
# - If you mask *after* the softmax, what do the rows sum to? Does the future still have a say?
# - $0$ is not $-\infty$: what does `exp(0)` contribute for a score that you multiplied away?
# - `.T` turns all dimensions around. Which two do you want to swap?


# %%
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
    ### BEGIN SOLUTION
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (..., N, M)
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        lowest = torch.finfo(scores.dtype).min  # not -inf: a row of them would be NaN, and so would its gradient
        weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
        weights = weights.masked_fill(~mask, 0.0)  # matters only where no key is allowed
    return weights @ value, weights  # (..., N, Dv), (..., N, M)
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from attention import attention

from autograder.properties import agrees, future_perturbation, require

QUERY = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
KEY = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
VALUE = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_attention_gives_the_numbers_of_the_table():
    output, weights = attention(QUERY, KEY, VALUE)
    require(agrees(weights, torch.tensor([[0.401112, 0.197776, 0.401112], [0.197776, 0.401112, 0.401112]])))
    require(agrees(output, torch.tensor([[3.0, 4.0], [3.406673, 4.406673]])))


def test_masked_attention_gives_the_numbers_of_the_table():
    mask = torch.tensor([[True, False, False], [True, True, False]])
    output, weights = attention(QUERY, KEY, VALUE, mask)
    require(agrees(weights, torch.tensor([[1.0, 0.0, 0.0], [0.330238, 0.669762, 0.0]])))
    require(agrees(output, torch.tensor([[1.0, 2.0], [2.339523, 3.339523]])))


def test_under_a_causal_mask_no_output_depends_on_a_later_token():
    query, causal = torch.randn(6, 4), torch.ones(6, 6, dtype=torch.bool).tril()
    require(future_perturbation(lambda x: attention(query, x, x, causal)[0], torch.randn(6, 4)))


def test_a_query_with_no_allowed_key_gets_zeros():
    mask = torch.tensor([[True, True, True], [False, False, False]])
    output, weights = attention(QUERY, KEY, VALUE, mask)
    require(agrees(weights[1], torch.zeros(3)))
    require(agrees(output[1], torch.zeros(2)))


def test_batches_and_heads_only_come_along():
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 6)
    output, weights = attention(query, key, value)
    alone = attention(query[1, 2], key[1, 2], value[1, 2])
    require(agrees(output[1, 2], alone[0]))
    require(agrees(weights[1, 2], alone[1]))


# %% [markdown]
# ## 8. Attention does not know the order
#
# *Dog bites man* and *man bites dog* hold the same three vectors. Does attention see a difference? Shuffle the
# tokens, and follow both ways around:
#
# ```
#         x ────────── f ─────────► f(x)
#         │                          │
#      shuffle                    shuffle
#         ▼                          ▼
#      x[order] ────── f ─────────►  ?        do the two ways meet?
# ```
#
# If they meet for every order, $f$ is *permutation equivariant*: the outputs move along with the tokens, and that is
# all. Self-attention without a mask is. A causal mask breaks it. Adding a position to each token breaks it too; that
# is what positions are for.
#
# You will now write a tester: it gets a layer `f`, and measures how far apart the two ways end. Its result is the
# *gap*, the largest absolute difference between $f(x[\text{order}])$ and $f(x)[\text{order}]$.
#
# By hand, for a running sum. $x = (1, 2, 4)$, order $(2, 0, 1)$:
#
# ```
#   x[order]     = (4, 1, 2)       f(x[order])  = (4, 5, 7)
#   f(x)         = (1, 3, 7)       f(x)[order]  = (7, 1, 3)       gap = max(3, 4, 4) = 4
# ```
#
# Your tester will be run on layers that you have not seen, some of them equivariant, some not.
#
# - *Equivariant* or *invariant*: which of them compares $f(x[\text{order}])$ with $f(x)$ itself?
# - A batch has shape $(B, N, D)$. Which axis holds the tokens? Can one expression serve $(N, D)$ as well?
# - If you shuffle back instead of along, an order that is its own inverse does not notice. Does yours?


# %%
def equivariance_gap(f: Callable[[Tensor], Tensor], x: Tensor, order: Tensor) -> float:
    """How far f is from permutation equivariance: the largest absolute entry of f(x[order]) - f(x)[order].

    f:       a layer, from (N, D) to (N, E), or from (B, N, D) to (B, N, E)
    x:       (N, D) or (B, N, D); it is left as it is
    order:   (N,), a permutation of 0 ... N-1; it is applied to the tokens
    returns  a Python float

    >>> equivariance_gap(lambda x: x.cumsum(-2), torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 1]))
    4.0
    """
    ### BEGIN SOLUTION
    shuffled_first = f(x[..., order, :])
    shuffled_last = f(x)[..., order, :]
    return (shuffled_first - shuffled_last).abs().max().item()
    ### END SOLUTION


# %% tags=["public_test"]
import pytest
import torch
from attention import equivariance_gap

ORDER = torch.tensor([2, 0, 1])


def self_attention(x):
    return torch.softmax(x @ x.mT, dim=-1) @ x


def with_positions(x):
    return self_attention(x + torch.arange(3.0)[:, None])


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_self_attention_has_no_gap(shape):
    gap = equivariance_gap(self_attention, torch.randn(shape), ORDER)
    assert gap < 1e-5, f"self-attention is equivariant, and was given a gap of {gap:.2g}"


def test_positions_open_a_gap():
    gap = equivariance_gap(with_positions, torch.randn(3, 4), ORDER)
    assert gap > 1e-3, f"positions break the equivariance, and the gap was given as {gap:.2g}"


def test_the_gap_of_a_running_sum():
    gap = equivariance_gap(lambda x: x.cumsum(-2), torch.tensor([[1.0], [2.0], [4.0]]), ORDER)
    assert gap == 4, f"the gap of the handout's running sum is {gap}"


# %% [markdown]
# ## 9. Is attention linear?
#
# $Y = A X W_v$ looks like a product of matrices, and a product of matrices is linear in $X$. So is the claim true
# that *attention is linear, and only the feed-forward layer is not*?
#
# It is true while $A$ stands still. But $A$ is made from $X$:
#
# ```
#   frozen weights:        x ────────────────────► A x         linear: twice the input, twice the output
#
#   attention:             x ──┬─ softmax(x xᵀ) = A
#                              └─────────────────► A x         twice the input, other weights
# ```
#
# In numbers, with two tokens of one feature, 0 and 1, as in step 1. Token 1 takes .731 from itself (that is
# $e / (1 + e)$), so its output is .731. Twice the input, 0 and 2, makes it take .982 ($e^4 / (1 + e^4)$), and its
# output is 2 · .982 = 1.964, not 2 · .731 = 1.462.
#
# Write the probe: the largest absolute entry of $f(2x) - 2 f(x)$. It is zero for a linear layer. For the two tokens
# above it is .502.
#
# - Is a layer with a bias linear in this sense? What will the probe say?
# - Your probe says 0. Is the layer linear? Try $\max(x, 0)$.


# %%
def linearity_probe(f: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """How far f is from doubling its output when its input doubles: the largest absolute entry of f(2x) - 2 f(x).

    f:       a layer; it is called with tensors of x's shape
    x:       any shape; it is left as it is
    returns  a Python float, 0 for a linear layer

    >>> linearity_probe(lambda x: 3 * x + 1, torch.zeros(2, 2))
    1.0
    """
    ### BEGIN SOLUTION
    return (f(2 * x) - 2 * f(x)).abs().max().item()
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from attention import linearity_probe


def test_frozen_weights_give_a_linear_layer():
    weights = torch.softmax(torch.randn(4, 4), dim=-1)
    probe = linearity_probe(lambda x: weights @ x, torch.randn(4, 3))
    assert probe < 1e-5, f"a product with fixed weights is linear, and was given {probe:.2g}"


def test_weights_made_from_the_input_do_not():
    probe = linearity_probe(lambda x: torch.softmax(x @ x.mT, dim=-1) @ x, torch.tensor([[0.0], [1.0]]))
    assert abs(probe - 0.5019) < 1e-3, f"the probe says {probe:.4f} for the handout's two tokens"


# %% [markdown]
# ## 10. The matrix behind it
#
# Freeze $A$ of shape $(N, N)$. Then $X \mapsto A X W_v$ is linear, so it is *some* matrix times the flattened input:
# a fully connected layer from $N D$ numbers to $N D_v$ numbers. Which one? Write all tokens one after the other, row
# by row, as `x.flatten()` does. Then it consists of blocks, and the block that leads from token $m$ to output $n$ is
# $a_{nm} W_v^\top$:
#
# ```
#                x0          x1          x2                     1   0   0
#       y0   1.00 Wᵀ   │     0     │     0                A =  .5  .5   0
#            ──────────┼───────────┼──────────                 .25 .25 .5
#       y1    .50 Wᵀ   │  .50 Wᵀ   │     0
#            ──────────┼───────────┼──────────
#       y2    .25 Wᵀ   │  .25 Wᵀ   │  .50 Wᵀ              W = w_value, (D, Dv);  Wᵀ is (Dv, D)
# ```
#
# Two things can be read off. *It is sparse*: a causal $A$ leaves $N(N-1)/2$ blocks empty. *It is shared*: all blocks
# are multiples of one matrix. A free layer for 10 tokens of 64 features would have (10 · 64)² = 409,600
# weights; attention's four matrices have 4 · 64² = 16,384, and they serve a sentence of any length.
#
# With the $A$ above, $D = 2$, $D_v = 1$ and $W = (1, 2)^\top$:
#
# ```
#       1    2      0    0      0    0
#       .5   1      .5   1      0    0
#       .25  .5     .25  .5     .5   1
# ```
#
# - Is the *row* of blocks the output or the input?
# - `flatten` goes row by row. What would change if it went column by column?
# - In real attention $A$ depends on $X$. Is all of attention this matrix, or only attention at one $X$?
#
# A loop over the blocks is fine. So are `torch.einsum` and `torch.kron` (which refuses some transposed views: there
# `.contiguous()` helps).


# %%
def attention_as_matrix(weights: Tensor, w_value: Tensor) -> Tensor:
    """The one large matrix that does to x.flatten() what frozen attention does to x: weights @ x @ w_value, flattened.

    weights:  (N, N), taken as fixed
    w_value:  (D, Dv)
    returns   (N·Dv, N·D); its block (n, m), of shape (Dv, D), leads from token m to output n

    >>> attention_as_matrix(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[1.0], [2.0]]))
    tensor([[1.0000, 2.0000, 0.0000, 0.0000],
            [0.5000, 1.0000, 0.5000, 1.0000]])
    """
    ### BEGIN SOLUTION
    blocks = torch.einsum("nm,de->nemd", weights, w_value)  # (N, Dv, N, D)
    return blocks.flatten(2, 3).flatten(0, 1)  # (N·Dv, N·D)
    ### END SOLUTION


# %% tags=["public_test"]
import torch
from attention import attention_as_matrix

from autograder.properties import agrees, require


def test_the_matrix_of_the_handout():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    want = [[1.0, 2.0, 0.0, 0.0, 0.0, 0.0], [0.5, 1.0, 0.5, 1.0, 0.0, 0.0], [0.25, 0.5, 0.25, 0.5, 0.5, 1.0]]
    require(agrees(attention_as_matrix(weights, torch.tensor([[1.0], [2.0]])), torch.tensor(want)))


def test_the_matrix_does_what_frozen_attention_does():
    weights, w_value, x = torch.softmax(torch.randn(3, 3), dim=-1), torch.randn(4, 2), torch.randn(3, 4)
    flat = attention_as_matrix(weights, w_value) @ x.flatten()
    require(agrees(flat, (weights @ x @ w_value).flatten()))


# %% [markdown]
# ## 11. What it costs
#
# Count multiply-adds. An $(a, b)$ matrix times a $(b, c)$ matrix takes $a b c$ of them. For $N$ tokens of width $D$
# (`d_model`), one Transformer layer has three kinds of work:
#
# | Part | Products |
# |---|---|
# | projections | four of $(N, D)$ by $(D, D)$: to queries, keys and values, and from the heads to the output |
# | attention | queries by keys, $(N, D)$ by $(D, N)$; then weights by values, $(N, N)$ by $(N, D)$ |
# | MLP | $(N, D)$ by $(D, 4D)$; then $(N, 4D)$ by $(4D, D)$ |
#
# ```
#    N = 64, D = 64      projections  ████████             1,048,576
#                        attention    ████                   524,288
#                        MLP          ████████████████     2,097,152
# ```
#
# Double $N$: two of the parts double, and one becomes four times as large.
#
# At which $N$ does attention cost as much as the other two together? (Solve it: the answer is a small multiple of
# $D$.)
#
# And then there is memory. Each head writes down a score for every pair of tokens, $n^2$ of them. An image of
# 224 × 224 pixels, each pixel a token, has 50,176 tokens and 2,517,630,976 scores. Cut into patches it has 197 tokens
# and 38,809 scores. That is why image models cut.
#
# - Which of the three parts does a longer sentence make worse, and which a wider model?
# - These are counts. Are they whole numbers in your code too?


# %%
def attention_macs(n: int, d_model: int) -> tuple[int, int, int]:
    """The multiply-adds of one Transformer layer: (projections, attention, MLP).

    n:        tokens
    d_model:  features of a token; the MLP is 4 · d_model wide inside

    >>> attention_macs(64, 64)
    (1048576, 524288, 2097152)
    """
    ### BEGIN SOLUTION
    return 4 * n * d_model**2, 2 * n**2 * d_model, 8 * n * d_model**2
    ### END SOLUTION


# %%
def score_entries(n: int) -> int:
    """The entries of one head's score matrix for n tokens.

    >>> score_entries(197)
    38809
    """
    ### BEGIN SOLUTION
    return n**2
    ### END SOLUTION


# %% tags=["public_test"]
from attention import attention_macs, score_entries


def test_the_counts_of_the_handout():
    assert attention_macs(64, 64) == (1_048_576, 524_288, 2_097_152), "the layer of the picture"
    assert score_entries(197) == 38_809, "the image cut into patches"
    assert score_entries(50_176) == 2_517_630_976, "the image pixel by pixel"


def test_twice_the_tokens_cost_twice_the_projections_and_four_times_the_attention():
    once, twice = attention_macs(10, 6), attention_macs(20, 6)
    assert [b / a for a, b in zip(once, twice, strict=True)] == [2, 4, 2], "the growth of the three parts"


# %% [markdown]
# ## Looking back
#
# You built the average, its inspector, the lookup, the two roles, the scale with its reason, and the function that
# everything else in this course stands on. You also know what it cannot do: it does not see the order of its tokens
# (8), it is not a fixed linear map (9, 10), and its cost grows with the square of the sentence (11).
#
# Next come the masks: who may look at whom, and how to catch a layer that looks where it should not.
