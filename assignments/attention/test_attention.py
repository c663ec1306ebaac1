"""The public tests of attention: read them, run them with `hw check attention`, add your own."""

import pytest
import torch

from attention import (
    attention,
    attention_as_matrix,
    attention_macs,
    dot_product_self_attention,
    dot_variance,
    equivariance_gap,
    is_attention_matrix,
    linearity_probe,
    score_entries,
    scores_separate,
    scores_shared,
    soft_lookup,
    softmax_jacobian,
)

from autograder.properties import agrees, future_perturbation, permutation_equivariance, require


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


@pytest.mark.parametrize("d_key", [4, 64])
def test_the_variance_of_dot_products_is_the_width_and_the_root_undoes_it(d_key):
    raw, scaled = dot_variance(d_key, 20_000, torch.Generator().manual_seed(1))
    # The relative standard error is sqrt((2 + 6 / d_key) / n), at most 1.4 %: a right answer is never 15 % off.
    assert abs(raw / d_key - 1) < 0.15, f"the variance of q·k is {raw:.3g} for vectors of {d_key} entries"
    assert abs(scaled - 1) < 0.15, f"the variance after scaling is {scaled:.3g} for vectors of {d_key} entries"


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


def test_frozen_weights_give_a_linear_layer():
    weights = torch.softmax(torch.randn(4, 4), dim=-1)
    probe = linearity_probe(lambda x: weights @ x, torch.randn(4, 3))
    assert probe < 1e-5, f"a product with fixed weights is linear, and was given {probe:.2g}"


def test_weights_made_from_the_input_do_not():
    probe = linearity_probe(lambda x: torch.softmax(x @ x.mT, dim=-1) @ x, torch.tensor([[0.0], [1.0]]))
    assert abs(probe - 0.5019) < 1e-3, f"the probe says {probe:.4f} for the handout's two tokens"


def test_the_matrix_of_the_handout():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    want = [[1.0, 2.0, 0.0, 0.0, 0.0, 0.0], [0.5, 1.0, 0.5, 1.0, 0.0, 0.0], [0.25, 0.5, 0.25, 0.5, 0.5, 1.0]]
    require(agrees(attention_as_matrix(weights, torch.tensor([[1.0], [2.0]])), torch.tensor(want)))


def test_the_matrix_does_what_frozen_attention_does():
    weights, w_value, x = torch.softmax(torch.randn(3, 3), dim=-1), torch.randn(4, 2), torch.randn(3, 4)
    flat = attention_as_matrix(weights, w_value) @ x.flatten()
    require(agrees(flat, (weights @ x @ w_value).flatten()))


def test_the_counts_of_the_handout():
    assert attention_macs(64, 64) == (1_048_576, 524_288, 2_097_152), "the layer of the picture"
    assert score_entries(197) == 38_809, "the image cut into patches"
    assert score_entries(50_176) == 2_517_630_976, "the image pixel by pixel"


def test_twice_the_tokens_cost_twice_the_projections_and_four_times_the_attention():
    once, twice = attention_macs(10, 6), attention_macs(20, 6)
    assert [b / a for a, b in zip(once, twice, strict=True)] == [2, 4, 2], "the growth of the three parts"
