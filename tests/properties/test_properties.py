"""Each property catches the fault that it is for, on any draw, and passes right code in several spellings.

The functions that are checked are attention in miniature, so that tolerances are those that matter. Every test draws
anew on each run: a tolerance that is too tight would show sooner or later, on some machine.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from autograder import properties as p
from autograder.properties import Evidence, PropertyFailed, require

DRAWS = 20


def attend(x, mask=None, scale=None):
    scores = x @ x.mT / (scale or math.sqrt(x.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, -1) @ x


def by_loop(x):
    rows = []
    for query in x:
        scores = torch.stack([query @ key for key in x]) / len(query) ** 0.5
        weights = scores.exp() / scores.exp().sum()
        rows.append(sum(w * v for w, v in zip(weights, x, strict=True)))
    return torch.stack(rows)


def by_einsum(x):
    scores = torch.einsum("nd,md->nm", x / x.shape[-1] ** 0.5, x)
    return torch.einsum("nm,md->nd", scores.softmax(1), x)


def ready_made(x):
    return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0]


def in_double(x):
    return attend(x.double()).to(x.dtype)


def by_numpy(x):
    a = x.numpy()
    scores = a @ a.T / math.sqrt(a.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return torch.from_numpy(weights / weights.sum(-1, keepdims=True) @ a)


def causal(x):
    return attend(x, torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril())


def causal_by_loop(x):
    return torch.stack([attend(x[: t + 1])[t] for t in range(len(x))])


def causal_large_negative(x):
    n = len(x)
    return torch.softmax(x @ x.mT / math.sqrt(x.shape[-1]) - 1e9 * torch.ones(n, n).triu(1).to(x), -1) @ x


SPELLINGS = [attend, by_loop, by_einsum, ready_made, in_double, by_numpy]
CAUSAL = [causal, causal_large_negative]


def draws(*shape, dtype=torch.float64):
    return [torch.randn(shape).to(dtype) for _ in range(DRAWS)]


# -- comparison -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_agrees_passes_every_right_spelling_in_float32(spelling):
    """Spread measured by bench.tolerances: 1e-6 at most for these sizes; the tolerance is 2e-5."""
    for x in draws(6, 8, dtype=torch.float32):
        assert p.agrees(spelling(x), attend(x.double()))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: attend(x, scale=x.shape[-1]),
        lambda x: attend(x, scale=1.0),
        lambda x: attend(x) + 1e-4,
        lambda x: torch.softmax(x @ x.mT / math.sqrt(8), 0) @ x,
        lambda x: attend(x).mT,
        lambda x: attend(x)[None],
        lambda x: attend(x) * math.nan,
        lambda x: attend(x) > 0,
        lambda x: (attend(x), attend(x)),
        lambda x: None,
        lambda x: attend(x).to("meta"),
        lambda x: attend(x).to(torch.complex64),
    ],
)
def test_agrees_refuses_wrong_values_shapes_and_kinds(wrong):
    for x in draws(6, 8):
        found = p.agrees(wrong(x), attend(x))
        assert not found and found.says


def test_agrees_never_says_what_was_expected():
    want = torch.tensor([[0.123456, 7.654321]])
    found = p.agrees(torch.zeros(1, 2), want)
    assert "0.1234" not in found.says and "7.654" not in found.says.replace("7.7", "")


def test_nan_agrees_with_nothing_not_even_with_nan():
    assert not p.agrees(torch.tensor([math.nan]), torch.tensor([math.nan]))


def test_infinite_entries_agree_only_with_themselves():
    mask = torch.tensor([0.0, -math.inf])
    assert p.agrees(mask, mask) and not p.agrees(-mask, mask) and not p.agrees(torch.tensor([0.0, -1e9]), mask)


@pytest.mark.parametrize(("got", "want"), [(True, True), (3, 3), (2.5, 2.5)])
def test_plain_numbers_agree(got, want):
    assert p.agrees(got, want) and not p.agrees(got, want + 1)


def test_weights_are_recognised_and_flaws_named():
    for x in draws(5, 7):
        weights = torch.softmax(x, -1)
        assert p.rows_sum_to_one(weights) and p.rows_sum_to_one(weights.float())
        assert "columns" in p.rows_sum_to_one(torch.softmax(x, 0)).says
        assert not p.rows_sum_to_one(weights * 0.999) and not p.rows_sum_to_one(weights * math.nan)
        assert "negative" in p.rows_sum_to_one(torch.cat([weights, weights - weights.sum(-1, keepdim=True)], -1)).says
    assert (
        not p.rows_sum_to_one(None)
        and not p.rows_sum_to_one(torch.ones(3))
        and not p.rows_sum_to_one(torch.eye(2).long())
    )


def test_finite_sees_inf_and_nan_and_what_is_no_tensor():
    assert p.finite(torch.ones(2)) and p.finite((torch.ones(2), 3))
    for wrong in (torch.tensor([math.inf]), (torch.ones(1), torch.tensor([math.nan])), None, torch.ones(2).bool()):
        assert not p.finite(wrong)


# -- dependence -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spelling", [*CAUSAL, causal_by_loop, lambda x: x.cumsum(-2)])
def test_causal_code_shows_exactly_no_leak(spelling, dtype):
    for x in draws(5, 4, dtype=dtype):
        assert p.future_perturbation(spelling, x)


def leaks_by(size):
    def f(x):
        return causal(x) + size * torch.cat([x[-1:], torch.zeros_like(x[1:])])

    return f


@pytest.mark.parametrize(
    "leak",
    [attend, lambda x: x.flip(0), lambda x: x - x.mean(0), leaks_by(1e-6), lambda x: torch.cat([x[1:], x[:1]])],
)
def test_a_leak_of_any_size_is_seen_and_placed(leak):
    for x in draws(5, 4):
        found = p.future_perturbation(leak, x)
        assert not found and "comes later" in found.says and found.picture and found.allowed


def test_output_that_ignores_its_input_is_not_called_causal():
    assert not p.future_perturbation(lambda x: torch.zeros_like(x), torch.randn(4, 3))


def test_the_dependency_matrix_shows_who_depends_on_whom():
    matrix = p.dependency_matrix(causal, torch.randn(5, 4, dtype=torch.float64))
    assert isinstance(matrix, torch.Tensor) and torch.equal(matrix > 0, torch.ones(5, 5).tril().bool())


def test_token_ids_can_be_perturbed_too():
    table = torch.randn(20, 4)
    require(p.future_perturbation(lambda ids: table[ids].cumsum(0), torch.tensor([3, 1, 4, 1, 5]), dim=0))
    assert not p.future_perturbation(lambda ids: table[ids].flip(0), torch.tensor([3, 1, 4, 1, 5]), dim=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_prefix_alone_gives_the_same_outputs_in_causal_code(dtype):
    """Measured for these sizes: 5e-7 in float32, 1e-15 in float64; the limits are 2e-6 and 1e-12."""
    for x in draws(6, 4, dtype=dtype):
        assert p.prefix_consistency(causal, x) and p.prefix_consistency(causal_large_negative, x)
        assert not p.prefix_consistency(attend, x)


def test_a_batch_that_mixes_is_seen():
    for x in draws(3, 4, 2):
        assert p.batch_independence(attend, x)
        assert not p.batch_independence(lambda t: t - t.mean(0, keepdim=True), x)
        assert not p.batch_independence(lambda t: attend(t.transpose(0, 1)).transpose(0, 1), x)


def test_padding_must_be_masked_not_zeroed():
    real = torch.tensor([True, True, True, False, False])
    for x in draws(5, 4):
        assert p.padding_invariance(lambda t: attend(t, real), x, real)
        assert not p.padding_invariance(attend, x, real)
        soft = lambda t: torch.softmax(t @ t.mT - 5.0 * (~real), -1) @ torch.where(real[:, None], t, 0)  # noqa: E731
        assert not p.padding_invariance(soft, x, real)


# -- symmetry ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention_is_equivariant_in_every_spelling(spelling, dtype):
    for x in draws(5, 4, dtype=dtype):
        assert p.permutation_equivariance(spelling, x)


def test_positions_and_masks_break_equivariance():
    position = torch.arange(5.0, dtype=torch.float64)[:, None] / 10
    for x in draws(5, 4):
        assert not p.permutation_equivariance(lambda t: attend(t + position), x)
        assert not p.permutation_equivariance(causal, x)


def test_a_mean_is_invariant_and_attention_is_not():
    for x in draws(5, 4):
        assert p.permutation_invariance(lambda t: attend(t).mean(-2), x)
        assert not p.permutation_invariance(attend, x)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_shuffle_leaves_no_token_where_it_was(n):
    for _ in range(50):
        order = p.symmetry.shuffled(n)
        assert sorted(order.tolist()) == list(range(n)) and not (order == torch.arange(n)).any()


# -- algebra, parameters, care ----------------------------------------------------------------------------------------
def test_linear_code_is_told_from_affine_and_from_attention():
    weights = torch.softmax(torch.randn(5, 5, dtype=torch.float64), -1)
    for x in draws(5, 4):
        assert p.linearity(lambda t: weights @ t, x) and p.linearity(lambda t: weights.float() @ t.float(), x)
        assert not p.linearity(attend, x)
        assert not p.linearity(lambda t: weights @ t + 1e-3, x)
        assert not p.linearity(torch.relu, x)


def test_gradients_are_checked_against_differences():
    for x in draws(4, 3):
        assert p.gradient_check(attend, x) and p.gradient_check(by_einsum, x)
        assert not p.gradient_check(lambda t: torch.softmax((t @ t.mT).detach(), -1) @ t, x)
        assert not p.gradient_check(lambda t: attend(t.detach()), x)
        assert not p.gradient_check(attend, x, vjp=lambda t, c: 2 * t)


def test_a_count_that_is_right_at_one_size_only_is_caught():
    sizes = [{"d": 4, "bias": False}, {"d": 6, "bias": False}, {"d": 6, "bias": True}]
    right = lambda d, bias: 4 * d * d + 4 * d * bias  # noqa: E731
    assert p.parameter_count(right, right, sizes)
    assert not p.parameter_count(lambda d, bias: 16 * d, right, sizes)
    assert not p.parameter_count(lambda d, bias: 4 * d * d, right, sizes)
    assert not p.parameter_count(lambda d, bias: None, right, sizes)


def test_care_for_the_caller():
    x, y = torch.randn(2, 4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    assert p.keeps_inputs(attend, [x]) and not p.keeps_inputs(lambda t: t.mul_(2), [x.clone()])
    assert p.keeps_dtype(attend, [x]) and not p.keeps_dtype(lambda t: attend(t).double(), [x])
    assert not p.keeps_dtype(lambda t: None, [x])
    assert p.any_layout(attend, [x]) and not p.any_layout(lambda t: t.mT.reshape(-1) if t.is_contiguous() else t, [y])
    assert p.repeatable(attend, [x], [y]) and not p.repeatable(lambda t: t + torch.rand(1).double(), [x])
    calls = []
    assert not p.repeatable(lambda t: calls.append(t) or len(calls), [x])


# -- statistics -------------------------------------------------------------------------------------------------------
def test_chance_is_not_called_a_mistake():
    """False alarms: below 1e-9 for each of these 3 x 200 checks."""
    for _ in range(200):
        values = torch.randn(400, dtype=torch.float64)
        assert p.mean_within(values + 3, 3.0, 1.0)
        assert p.variance_within(4 * values.var().item(), 4.0, 400)
        assert p.frequency_within(torch.rand(1000) < 0.15, 1000, 0.15)


def test_a_real_deviation_is_seen():
    values = torch.randn(20_000, dtype=torch.float64)
    assert not p.mean_within(values + 0.1, 0.0, 1.0) and not p.mean_within(torch.tensor([math.nan] * 9), 0.0, 1.0)
    assert not p.variance_within(values.var().item() * 1.2, 1.0, 20_000) and not p.variance_within(math.inf, 1.0, 9)
    assert not p.frequency_within(torch.rand(20_000) < 0.10, 20_000, 0.15) and not p.frequency_within(-1, 9, 0.5)


# -- evidence ---------------------------------------------------------------------------------------------------------
def test_a_required_property_that_fails_raises_with_its_sentence_and_its_picture():
    with pytest.raises(PropertyFailed) as caught:
        require(p.future_perturbation(attend, torch.randn(4, 3)))
    assert "comes later" in str(caught.value) and "!" in str(caught.value) and caught.value.evidence.picture


def test_batched_functions_are_asked_in_one_go():
    asked = []

    def answer_all(xs):
        asked.append(len(xs))
        return [causal(x) for x in xs]

    require(p.future_perturbation(p.batched(answer_all), torch.randn(4, 3)))
    assert asked == [5]


@pytest.mark.parametrize("answer", [None, 3, "text", [1, 2], torch.tensor(1.0), torch.zeros(0, 3), (torch.ones(3), 1)])
def test_an_answer_of_any_kind_gives_evidence_and_no_exception(answer):
    x = torch.randn(4, 3, dtype=torch.float64)
    real = torch.tensor([True, True, True, False])
    checks = [
        p.future_perturbation,
        p.prefix_consistency,
        p.batch_independence,
        p.permutation_equivariance,
        p.linearity,
    ]
    for check in checks:
        assert isinstance(found := check(lambda t: answer, x), Evidence), check
        assert not found or check is p.linearity, check
    assert not p.padding_invariance(lambda t: answer, x, real)
