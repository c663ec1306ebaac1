"""Hidden tests of the unit "attention": each states one property of one exercise.

Where the definition fixes a value, the answer is compared with it; elsewhere with other answers of the same code, so
that one mistake costs one test, and the test that fails names it. Inputs are drawn in float64, where right spellings
differ by less than 2e-15; the tolerance of 2e-5 leaves room for those who compute in float32 inside (1e-6 at most).
"""

import math

import torch

from autograder.judge import Contract, duties, exercise, points
from autograder.properties import agrees, batched, future_perturbation, require, rows_sum_to_one

ATOL = 2e-5


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


def draw_attention(n=4, m=6, d_key=8, d_value=5):
    """Query, key and value of a batch of two; all sizes differ, to catch one that stands for another."""
    return draw(2, n, d_key), draw(2, m, d_key), draw(2, m, d_value)


def draw_mask(n=4, m=6):
    """A mask in which every query has an allowed and a forbidden key."""
    return torch.rand(n, m).argsort(-1) < torch.randint(1, m, (n, 1))


def draw_cycle(n):
    """An order that moves every token and, for n > 2, is not its own inverse."""
    tokens = torch.randperm(n)
    return torch.empty_like(tokens).scatter(0, tokens, tokens.roll(1))


def draw_generator():
    return torch.Generator().manual_seed(torch.randint(1 << 40, ()).item())


def require_ratios(weights, scores):
    """The weights are exp(scores) up to a factor for each row and each column: true of a softmax over either axis."""
    assert isinstance(weights, torch.Tensor) and weights.shape == scores.shape, "the weights have the wrong shape"
    gap = (centred(weights.double().log()) - centred(scores)).abs().max().item()
    assert gap < ATOL, "the ratios between your weights do not follow from the scores of the definition"


def centred(scores):
    return scores - scores.mean(-1, keepdim=True) - scores.mean(-2, keepdim=True) + scores.mean((-2, -1), keepdim=True)


def number(value):
    """A number of the student's; a tensor of one element is as good."""
    single = isinstance(value, torch.Tensor) and value.numel() == 1
    assert single or isinstance(value, (bool, int, float)), "that is not one number"
    return value.item() if single else value


@exercise("dot_product_self_attention")
class TestDotProductSelfAttention:
    @points(1, reveals="The weights come from plain dot products of the tokens")
    def test_plain_dot_products(self, student):
        x = draw(5, 3)
        _, weights = student.dot_product_self_attention(x)
        require_ratios(weights, x @ x.mT)

    @points(1, reveals="The weights with which a token looks at the others sum to one")
    def test_weights_of_a_token(self, student):
        _, weights = student.dot_product_self_attention(draw(5, 3))
        require(rows_sum_to_one(weights))

    @points(1, reveals="Each output is the average of the tokens, with that token's weights")
    def test_average_of_tokens(self, student):
        x = draw(5, 3)
        output, weights = student.dot_product_self_attention(x)
        require(agrees(output, weights @ x))

    @points(0.5, reveals="A token alone keeps its vector, and its shape")
    def test_token_alone(self, student):
        x = draw(1, 3)
        output, weights = student.dot_product_self_attention(x)
        require(agrees(output, x))
        require(agrees(weights, torch.ones_like(x[:, :1])))


def draw_weights(*batch):
    return torch.softmax(draw(*batch, 4, 6), dim=-1)


def require_refused(student, **flawed):
    """These are refused (the underscores of their names read as spaces), while a softmax is accepted."""
    accepted, *answers = student.is_attention_matrix.each([(draw_weights(),), *((thing,) for thing in flawed.values())])
    assert number(accepted), "a softmax was refused"
    for name, answer in zip(flawed, answers, strict=True):
        assert not number(answer), f"{name.replace('_', ' ')} was accepted"


@exercise("is_attention_matrix")
class TestIsAttentionMatrix:
    @points(0.5, reveals="Weights may be exactly zero or one")
    def test_accepts_zeros_and_ones(self, student):
        weights = draw_weights()
        weights[1] = torch.eye(6)[2]
        assert number(student.is_attention_matrix(weights)), "a row with all its weight on one token was refused"

    @points(0.5, reveals="Any leading dimensions are allowed, and every matrix counts")
    def test_batches(self, student):
        spoiled = draw_weights(2, 3)
        spoiled[-1, -1] *= 2
        three, four, bad = student.is_attention_matrix.each([(draw_weights(3),), (draw_weights(2, 3),), (spoiled,)])
        assert number(three), "attention weights with three dimensions were refused"
        assert number(four), "attention weights with four dimensions were refused"
        assert not number(bad), "a batch whose last matrix is wrong was accepted"

    @points(0.5, reveals="Each row must sum to one, not only all of them on average")
    def test_looks_at_each_row(self, student):
        shared = draw_weights()
        shared[0] *= 0.5
        shared[1] *= 1.5  # all rows together still sum to four
        require_refused(student, a_matrix_with_two_bad_rows=shared)

    @points(0.5, reveals="A sum counts as one up to 1e-5, and not beyond")
    def test_tolerance(self, student):
        weights = draw_weights()
        assert number(student.is_attention_matrix(weights * (1 + 3e-6))), "rows that sum to one up to rounding: refused"
        require_refused(student, a_sum_above_one=weights * (1 + 1e-4), a_sum_below_one=weights * (1 - 1e-4))

    @points(0.5, reveals="No weight may be negative")
    def test_refuses_negative(self, student):
        weights = draw_weights()
        weights[2] = torch.tensor([0.75, -0.5, 0.25, 0.25, 0.125, 0.125])
        require_refused(student, a_row_with_a_negative_weight=weights)

    @points(0.5, reveals="NaN is no weight")
    def test_refuses_nan(self, student):
        weights = draw_weights()
        weights[1, 3] = math.nan
        require_refused(student, a_row_with_NaN=weights)

    @points(0.5, reveals="Anything but a tensor of floats with rows gets False, and no error")
    def test_refuses_other_things(self, student):
        eye = torch.eye(3)
        tensors = {"a_tensor_of_integers": eye.long(), "a_tensor_of_bools": eye.bool(), "a_single_row": eye[0]}
        require_refused(student, a_list=eye.tolist(), nothing=None, **tensors)


@exercise("soft_lookup")
class TestSoftLookup:
    @points(1.5, reveals="At temperature 1, each value counts by the softmax of query times key")
    def test_blend(self, student):
        query, keys, values = draw(3), draw(5, 3), draw(5, 2)
        want = torch.softmax(keys @ query, dim=0) @ values
        require(agrees(student.soft_lookup(query, keys, values, 1.0), want))

    @points(1, reveals="Half the temperature is the same as twice the query")
    def test_temperature(self, student):
        query, keys, values = draw(3), draw(5, 3), draw(5, 2)
        asked = [(query, keys, values, 1.0), (query, keys, values, 0.5), (2 * query, keys, values, 1.0)]
        warm, cold, double = student.soft_lookup.each(asked)
        require(agrees(cold, double))
        assert not torch.equal(cold, warm), "the temperature makes no difference"

    @points(0.5, reveals="A dictionary of one entry returns its value, and its shape")
    def test_one_entry(self, student):
        values = draw(1, 1)
        require(agrees(student.soft_lookup(draw(3), draw(1, 3), values, 1.0), values[0]))


@exercise("scores_shared")
class TestScoresShared:
    @points(1, reveals="Each score is the dot product of two tokens, as seen through the shared matrix")
    def test_shared_scores(self, student):
        x, u = draw(5, 4), draw(4, 3)
        require(agrees(student.scores_shared(x, u), x @ u @ u.mT @ x.mT))


@exercise("scores_separate")
class TestScoresSeparate:
    @points(1, reveals="The scores are the dot products of queries and keys")
    def test_separate_scores(self, student):
        x, w_query, w_key = draw(5, 4), draw(4, 3), draw(4, 3)
        scores, want = student.scores_separate(x, w_query, w_key), x @ w_query @ w_key.mT @ x.mT
        require(agrees(scores + scores.mT, want + want.mT))  # either way round: the next test asks which

    @points(1, reveals="Row n holds what token n finds as a query, not as a key")
    def test_queries_in_rows(self, student):
        x = torch.eye(4, dtype=torch.float64)
        w_key = draw(4, 3)
        w_key[2] = 0  # token 2 has no key: nobody finds anything in it
        scores = student.scores_separate(x, draw(4, 3), w_key)
        assert (scores[:, 2] == 0).all(), "a token whose key is zero still gets a score as a key"
        assert (scores[2] != 0).any(), "a token whose key is zero finds nothing as a query"


@exercise("dot_variance")
class TestDotVariance:
    # A right answer leaves the band of a factor 1.5 around the law with a probability below 1e-11 (Chernoff bounds for
    # n = 1000 from the exact density of q·k: 1e-12 under the band and 1e-13 over it at width 8, less at width 32).
    @points(1, reveals="The variance of the dot product is the width of the vectors")
    def test_raw_variance(self, student):
        widths = (8, 8, 8, 32)
        answers = student.dot_variance.each((d_key, 1000, draw_generator()) for d_key in widths)
        variances = [number(raw) for raw, _ in answers]
        for d_key, raw in zip(widths, variances, strict=True):
            assert d_key / 1.5 < raw < d_key * 1.5, f"the variance of q·k is {raw:.3g} for vectors of {d_key} entries"
        assert len(set(variances[:3])) > 1, "three draws gave exactly the same variance: it was not measured"

    @points(1, reveals="The second variance is that of the same dot products over the root of the width")
    def test_scaled_variance(self, student):
        raw, scaled = map(number, student.dot_variance(8, 1000, draw_generator()))
        assert abs(raw - 8 * scaled) < 1e-3 * raw, f"for vectors of 8 entries it went from {raw:.3g} to {scaled:.3g}"

    @points(1, reveals="All draws come from the generator that is passed in")
    def test_draws_from_the_generator(self, student):
        generator = draw_generator()
        moved = [generator.clone_state(), generator.clone_state()]
        for steps, later in enumerate(moved, 1):
            torch.randn(steps, generator=later)
        answers = student.dot_variance.each((4, 50, g) for g in (generator, generator, *moved))
        first, again, *others = [number(raw) for raw, _ in answers]
        assert first == again, "the same generator gave another result"
        assert others != [first, first], "generators that have moved on gave the same result"  # by chance: below 1e-12


@exercise("softmax_jacobian")
class TestSoftmaxJacobian:
    @points(1, reveals="The diagonal holds what a logit does to its own weight")
    def test_own_logit(self, student):
        logits = draw(5)
        a = torch.softmax(logits, dim=0)
        require(agrees(student.softmax_jacobian(logits).diagonal(), a * (1 - a)))

    @points(1, reveals="Off the diagonal stands what a logit does to the other weights")
    def test_other_logits(self, student):
        logits = draw(5)
        a = torch.softmax(logits, dim=0)
        others = ~torch.eye(5, dtype=torch.bool)
        require(agrees(student.softmax_jacobian(logits)[others], -a.outer(a)[others]))


@exercise("attention")
class TestAttention:
    @points(2, reveals="The scores are divided by the square root of the keys' width")
    def test_scale(self, student):
        inputs = [draw_attention(d_key=3), draw_attention(d_key=8)]
        for (query, key, _), (_, weights) in zip(inputs, student.attention.each(inputs), strict=True):
            require_ratios(weights, query @ key.mT / math.sqrt(key.shape[-1]))

    @points(1.5, reveals="The weights of each query sum to one")
    def test_rows_sum_to_one(self, student):
        _, weights = student.attention(*draw_attention())
        require(rows_sum_to_one(weights))

    @points(1, reveals="The output is the average of the values, with the weights that are returned")
    def test_average_of_values(self, student):
        query, key, value = draw_attention()
        output, weights = student.attention(query, key, value)
        require(agrees(output, weights @ value))

    @points(1, reveals="Any leading dimensions are allowed, also none")
    def test_leading_dims(self, student):
        query, key, value = draw(2, 3, 4, 8), draw(2, 3, 6, 8), draw(2, 3, 6, 5)
        alone = [(query[i, j], key[i, j], value[i, j]) for i, j in [(0, 0), (1, 2)]]
        whole, first, last = student.attention.each([(query, key, value), *alone])
        for of_all, of_first, of_last in zip(whole, first, last, strict=True):
            require(agrees(of_all[0, 0], of_first))
            require(agrees(of_all[1, 2], of_last))

    @points(0.5, reveals="With a single key, the output is its value, in the right shape")
    def test_single_key(self, student):
        query, key, value = draw(1, 1, 4), draw(1, 1, 4), draw(1, 1, 3)
        output, weights = student.attention(query, key, value)
        require(agrees(output, value))
        require(agrees(weights, torch.ones_like(value[..., :1])))

    @points(1.5, reveals="True means: may attend. A forbidden key has a weight of exactly zero, an allowed one more")
    def test_forbidden_keys(self, student):
        mask = draw_mask()
        _, weights = student.attention(*draw_attention(), mask)
        assert (weights[..., ~mask] == 0).all(), "a key that the mask forbids has a weight"
        assert (weights[..., mask] > 0).all(), "a key that the mask allows has no weight"

    @points(1.5, reveals="Under a mask, the weights of each query still sum to one")
    def test_masked_rows_sum_to_one(self, student):
        _, weights = student.attention(*draw_attention(), draw_mask())
        require(rows_sum_to_one(weights))

    @points(2, reveals="Under a causal mask, no output depends on a later token")
    def test_future_leak(self, student):
        query, _, _ = draw_attention(n=5, m=5)
        causal = torch.ones(5, 5, dtype=torch.bool).tril()
        outputs = batched(lambda xs: [a[0] for a in student.attention.each((query, x, x, causal) for x in xs)])
        require(future_perturbation(outputs, draw(2, 5, 8)))

    @points(1, reveals="A mask broadcasts over queries and over batches")
    def test_mask_broadcasts(self, student):
        query, key, value = draw_attention()
        for_all, for_each = draw_mask(1)[0], torch.stack([draw_mask(1), draw_mask(1)])  # (M,), (B, 1, M)
        masks = [for_all, for_all.expand(4, 6).clone(), for_each, for_each.expand(2, 4, 6).clone()]
        answers = student.attention.each((query, key, value, mask) for mask in masks)
        for small, full in ((0, 1), (2, 3)):
            for got, want in zip(answers[small], answers[full], strict=True):
                require(agrees(got, want))

    @points(2, reveals="A query with no allowed key gets zero weights and a zero output, and the others are as before")
    def test_no_allowed_key(self, student):
        query, key, value = draw_attention()
        mask = draw_mask()
        dead = mask.clone()
        dead[1] = False
        before, after = student.attention.each([(query, key, value, mask), (query, key, value, dead)])
        for what, full, got in zip(("output is", "weights are"), before, after, strict=True):
            assert (got[:, 1] == 0).all(), f"the {what} not zero for a query with no allowed key"
            require(agrees(got[:, [0, 2, 3]], full[:, [0, 2, 3]]))

    @points(1, reveals="All gradients stay finite when a query has no allowed key")
    def test_gradients_of_no_allowed_key(self, student):
        mask = draw_mask()
        mask[1] = False
        _, gradients, _ = student.attention.vjp([*draw_attention(), mask], [draw(2, 4, 5), draw(2, 4, 6)])
        for name, gradient in zip(("query", "key", "value"), gradients, strict=True):
            assert gradient is None or gradient.isfinite().all(), f"the gradient of {name} has NaN or inf"


def self_attention(x):
    return torch.softmax(x @ x.mT, dim=-1) @ x


def causal_attention(x):
    future = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)
    return torch.softmax((x @ x.mT).masked_fill(future, -math.inf), dim=-1) @ x


def turned_around(x):
    return x.flip(-2)


def mean_everywhere(x):
    return x.mean(-2, keepdim=True).expand_as(x)


def first_everywhere(x):
    return x[..., :1, :].expand_as(x)


def require_gaps(of_equivariant, of_causal):
    """A tester that always gives the same answer is none, so each test asks for both."""
    assert 0 <= number(of_equivariant) < ATOL, f"an equivariant layer was given {number(of_equivariant):.2g}"
    assert number(of_causal) > 1e-9, f"a layer with a causal mask was given {number(of_causal):.2g}"


@exercise("equivariance_gap")
class TestEquivarianceGap:
    @points(1.5, reveals="An equivariant layer has no gap")
    def test_no_gap(self, student):
        x, order = draw(5, 3), draw_cycle(5)
        answers = student.equivariance_gap.each([(f, x, order) for f in (self_attention, causal_attention)])
        require_gaps(*answers)

    @points(1.5, reveals="A layer that is not equivariant has a gap")
    def test_some_gap(self, student):
        gap = number(student.equivariance_gap(turned_around, draw(5, 3), draw_cycle(5)))
        assert gap > 1e-9, f"a layer that turns the order around was given a gap of {gap:.2g}"

    @points(1, reveals="The gap is the largest absolute difference")
    def test_size_of_the_gap(self, student):
        x, order = draw(5, 3), draw_cycle(5)
        want = (x[order[0]] - x[0]).abs().max().item()
        for answer in student.equivariance_gap.each([(first_everywhere, y, order) for y in (x, -x)]):
            assert abs(number(answer) - want) < ATOL, f"the gap of a layer was given as {number(answer):.2g}"

    @points(1, reveals="In a batch, the order applies to the tokens")
    def test_gap_in_a_batch(self, student):
        x, order = draw(2, 5, 3), draw_cycle(5)
        answers = student.equivariance_gap.each([(f, x, order) for f in (mean_everywhere, causal_attention)])
        require_gaps(*answers)

    @points(0.5, reveals="The tester leaves its input as it was")
    def test_gap_keeps_x(self, student):
        x = draw(5, 3)
        gap, (_, left, _) = student.equivariance_gap.after(causal_attention, x, draw_cycle(5))
        require_gaps(0.0, gap)
        assert torch.equal(left, x), "x was changed in place"


@exercise("linearity_probe")
class TestLinearityProbe:
    @points(1, reveals="A linear layer gets zero")
    def test_frozen_attention(self, student):
        weights = torch.softmax(draw(4, 4), dim=-1)
        asked = [(lambda x: weights @ x, draw(4, 3)), (self_attention, draw(4, 3))]
        frozen, alive = map(number, student.linearity_probe.each(asked))
        assert 0 <= frozen < ATOL, f"attention with frozen weights was given {frozen:.2g}"
        assert alive > 1e-9, f"attention, whose weights follow its input, was given {alive:.2g}"

    @points(1, reveals="The probe is the largest absolute entry of f(2x) - 2 f(x)")
    def test_size_of_the_probe(self, student):
        x = draw(4, 3).abs()
        wakes_up = [lambda y: (y - x).clamp(min=0), lambda y: (x - y).clamp(max=0)]  # zero up to x, and then linear
        for answer in student.linearity_probe.each([(f, x) for f in wakes_up]):
            assert abs(number(answer) - x.max().item()) < ATOL, f"a layer was given {number(answer):.2g}"

    @points(0.5, reveals="The probe leaves its input as it was")
    def test_probe_keeps_x(self, student):
        x = draw(4, 3)
        probe, (_, left) = student.linearity_probe.after(self_attention, x)
        assert number(probe) > 1e-9, f"attention was given {number(probe):.2g}"
        assert torch.equal(left, x), "x was changed in place"


@exercise("attention_as_matrix")
class TestAttentionAsMatrix:
    @points(2, reveals="The matrix does to the flattened tokens what frozen attention does to the tokens")
    def test_matrix_acts_as_attention(self, student):
        weights, w_value, x = torch.softmax(draw(4, 4), dim=-1), draw(3, 2), draw(4, 3)
        matrix = student.attention_as_matrix(weights, w_value)
        assert matrix.shape == (8, 12), f"the shape is {tuple(matrix.shape)} for 4 tokens, D = 3 and Dv = 2"
        require(agrees(matrix @ x.flatten(), (weights @ x @ w_value).flatten()))


@exercise("attention_macs")
class TestAttentionMacs:
    SIZES = ((1, 2), (7, 12), (1000, 768))

    def counts(self, student, part):
        return [number(answer[part]) for answer in student.attention_macs.each(self.SIZES)]

    @points(0.5, reveals="The projections are four products of tokens by a square matrix")
    def test_projections(self, student):
        assert self.counts(student, 0) == [4 * n * d * d for n, d in self.SIZES], (
            "the count of the projections is wrong"
        )

    @points(0.5, reveals="Attention is two products, each with one term for every pair of tokens and every feature")
    def test_pairs(self, student):
        assert self.counts(student, 1) == [2 * n * n * d for n, d in self.SIZES], "the count of attention is wrong"

    @points(0.5, reveals="The MLP is two products, to four times the width and back")
    def test_mlp(self, student):
        assert self.counts(student, 2) == [8 * n * d * d for n, d in self.SIZES], "the count of the MLP is wrong"

    @points(0.25, reveals="The counts are ints, exact at any size")
    def test_macs_ints(self, student):
        assert all(type(count) is int for count in student.attention_macs(7, 12)), "a count is no int"


@exercise("score_entries")
class TestScoreEntries:
    @points(0.5, reveals="There is a score for every pair of tokens")
    def test_pairs_of_tokens(self, student):
        assert [number(a) for a in student.score_entries.each([(1,), (9,), (4096,)])] == [1, 81, 4096**2], (
            "the count is wrong"
        )

    @points(0.25, reveals="The count is an int, exact at any size")
    def test_entries_int(self, student):
        assert type(student.score_entries(9)) is int, "the count is no int"


@duties(
    dot_product_self_attention=Contract(lambda: (draw(5, 3),), floats=(0,), large=(0,), worth=0.25),
    is_attention_matrix=Contract(lambda: (torch.softmax(draw(4, 6), dim=-1),), worth=0.25, skip=("repeatable",)),
    soft_lookup=Contract(lambda: (draw(3), draw(5, 3), draw(5, 2), 0.7), floats=(0, 1, 2), large=(0, 1), worth=0.25),
    scores_shared=Contract(lambda: (draw(5, 4), draw(4, 3)), floats=(0, 1), worth=0.25),
    scores_separate=Contract(lambda: (draw(5, 4), draw(4, 3), draw(4, 3)), floats=(0, 1, 2), worth=0.25),
    # its derivatives may come from autograd, which gives no second ones
    softmax_jacobian=Contract(lambda: (draw(5),), floats=(0,), large=(0,), worth=0.25, skip=("gradients",)),
    attention=Contract(
        lambda: (*draw_attention(), draw_mask()), floats=(0, 1, 2), batch=(0, 1, 2), large=(0,), by_hand=True
    ),
    attention_as_matrix=Contract(
        lambda: (torch.softmax(draw(4, 4), dim=-1), draw(3, 2)),
        floats=(0, 1),
        worth=0.25,
        skip=("any_layout",),  # torch.kron itself refuses some views
    ),
)
def test_duties(student, duty):
    duty(student)
