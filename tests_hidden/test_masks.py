"""Hidden tests of the unit "masks": each states one property of one exercise.

Testers (`leaks`, `diagnose_mask`) are run on right and broken layers of this file, that no student has seen. Inputs are
drawn in float64, where right spellings lie at most 1e-14 apart; the tolerance of 2e-5 leaves room for float32 inside.
"""

import math

import pytest
import torch

from autograder.judge import Contract, call, duties, exercise, points
from autograder.properties import agrees, require, rows_sum_to_one

ATOL = 2e-5


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


def draw_mask(n, m):
    """A mask in which every query has an allowed and a forbidden key."""
    return torch.rand(n, m).argsort(-1) < torch.randint(1, m, (n, 1))


def lower(n, diagonal=0):
    return torch.ones(n, n, dtype=torch.bool).tril(diagonal)


def truth(value):
    """A bool of the student's."""
    assert isinstance(value, bool), "it is no Python bool"
    return value


@exercise("causal_mask")
class TestCausalMask:
    @points(2, reveals="Query t may attend to the keys 0 to t, and to no other")
    @pytest.mark.parametrize("n", [2, 5])
    def test_lower_triangle(self, student, n):
        mask = student.causal_mask(n)
        assert isinstance(mask, torch.Tensor) and mask.shape == (n, n), "it is no tensor of shape (n, n)"
        require(agrees(mask.bool(), lower(n)))

    @points(1, reveals="The mask is a tensor of bools")
    def test_causal_bools(self, student):
        assert student.causal_mask(3).dtype == torch.bool, "the entries are no bools"

    @points(1, reveals="A single token may attend to itself, and no token gives an empty mask")
    def test_one_and_none(self, student):
        one, none = student.causal_mask.each([(1,), (0,)])
        assert one.shape == (1, 1) and bool(one.all()) and none.shape == (0, 0)

    @points(1, reveals="The mask is made on the device that is asked for")
    def test_causal_device(self, student):
        (mask,) = student.causal_mask.each([call(3, device="meta")])
        assert mask.device.type == "meta", f"asked for the device meta, it lies on {mask.device}"


@exercise("to_additive")
class TestToAdditive:
    @points(1, reveals="It is 0 where attention is allowed")
    def test_zero_where_allowed(self, student):
        mask = draw_mask(4, 5)
        assert (student.to_additive(mask)[mask] == 0).all(), "an allowed key is not 0"

    @points(1, reveals="It is minus infinity where attention is forbidden")
    def test_infinite_where_forbidden(self, student):
        mask = draw_mask(4, 5)
        assert (student.to_additive(mask)[~mask] == -math.inf).all(), "a forbidden key is not -inf"

    @points(1, reveals="The dtype is the one that is asked for, and float32 by default")
    def test_additive_dtype(self, student):
        mask = draw_mask(2, 3)
        plain, half, double = student.to_additive.each(
            [(mask,), (mask, torch.bfloat16), call(mask, dtype=torch.float64)]
        )
        assert (plain.dtype, half.dtype, double.dtype) == (torch.float32, torch.bfloat16, torch.float64)


@exercise("to_blocked")
class TestToBlocked:
    @points(1, reveals="True becomes False and False becomes True")
    def test_turned_round(self, student):
        mask = draw_mask(4, 5)
        got = student.to_blocked(mask)
        require(agrees(got != 0, ~mask))

    @points(1, reveals="The blocked mask is a tensor of bools")
    def test_blocked_bools(self, student):
        assert student.to_blocked(draw_mask(2, 3)).dtype == torch.bool, "the entries are no bools"


# -- layers for testers: the right one and broken ones ----------------------------------------------------------------
def softmax(scores):
    return torch.softmax(scores, -1)


def masked_layer(mask_of, scale=1.0):
    """x -> (output, weights): dot-product self-attention under the mask that `mask_of(n)` makes."""

    def layer(x):
        scores = scale * (x @ x.mT).double()
        weights = softmax(scores.masked_fill(~mask_of(x.shape[-2]), -math.inf)).to(x.dtype)
        return weights @ x, weights

    return layer


def with_bias(mask_of):
    """The same, with the mask added to the scores."""

    def layer(x):
        n = x.shape[-2]
        bias = torch.zeros(n, n, dtype=x.dtype).masked_fill(~mask_of(n), -math.inf)
        weights = softmax(x @ x.mT / math.sqrt(x.shape[-1]) + bias)
        return torch.einsum("...nm,...md->...nd", weights, x), weights

    return layer


def by_rows(mask_of):
    """The same for one sequence, query by query, over the allowed keys only; no allowed key gives NaN."""

    def layer(x):
        mask, rows = mask_of(x.shape[-2]), []
        for n, query in enumerate(x):
            allowed = mask[n]
            row = torch.full((len(x),), math.nan if not allowed.any() else 0.0, dtype=x.dtype)
            row[allowed] = torch.softmax(x[allowed] @ query, 0)
            rows.append(row)
        weights = torch.stack(rows)
        return weights @ x, weights

    return layer


def post_softmax(x):
    weights = softmax(x @ x.mT) * lower(x.shape[-2])
    return weights @ x, weights


def post_softmax_filled(x):
    weights = softmax(0.5 * x @ x.mT).masked_fill(~lower(x.shape[-2]), 0.0)
    return weights @ x, weights


def output_of(layer):
    return lambda x: layer(x)[0]


def tiny_leak(x):
    """The last token reaches the first output, by a millionth."""
    out = masked_layer(lower)(x)[0].clone()
    out[..., 0, :] += 1e-6 * x[..., -1, :]
    return out


def jump_back(x):
    """Output n takes token n + 2: only the last two outputs before t see what changes."""
    out = x.cumsum(-2)
    out[..., :-2, :] += x[..., 2:, :]
    return out


@exercise("leaks")
class TestLeaks:
    @points(2, reveals="A layer that never looks ahead is acquitted, of whatever kind it is")
    def test_acquits(self, student):
        x = draw(6, 4)
        for layer in (
            output_of(masked_layer(lower)),
            output_of(by_rows(lower)),
            lambda x: x.cumsum(-2),
            lambda x: 2 * x,
        ):
            assert not truth(student.leaks(layer, x, 3)), "a layer that never looks ahead is said to leak"

    @points(2, reveals="A layer without a mask is convicted")
    def test_convicts(self, student):
        everything = output_of(masked_layer(lambda n: torch.ones(n, n, dtype=torch.bool)))
        for layer in (everything, lambda x: x.flip(-2), output_of(post_softmax)):
            assert truth(student.leaks(layer, draw(6, 4), 3)), "a layer that looks ahead is acquitted"

    @points(1, reveals="A leak of a millionth is a leak")
    def test_tiny_leak(self, student):
        assert truth(student.leaks(tiny_leak, draw(6, 4), 3)), "a small leak is overlooked"

    @points(1, reveals="All outputs before t are watched, not only the first and not only the last")
    def test_watches_all(self, student):
        assert truth(student.leaks(jump_back, draw(7, 4), 5)), "a leak into the outputs just before t is overlooked"
        assert truth(student.leaks(tiny_leak, draw(7, 4), 5)), "a leak into the first output is overlooked"

    @points(1, reveals="All tokens from t on are replaced, not only token t")
    def test_replaces_all(self, student):
        def last_only(x):
            return x.cumsum(-2) + torch.cat([x[..., -1:, :], torch.zeros_like(x[..., 1:, :])], -2)

        assert truth(student.leaks(last_only, draw(7, 4), 3)), "a leak from the last token is overlooked"

    @points(1, reveals="What becomes of the outputs from t on does not matter")
    def test_ignores_the_rest(self, student):
        def shaky_end(x):
            out = x.clone()
            out[..., 4:, :] = x[..., 4:, :].flip(-2)
            return out

        assert not truth(student.leaks(shaky_end, draw(6, 4), 4)), "outputs from t on are counted as leaks"

    @points(1, reveals="A batch of sequences works")
    def test_leaks_batch(self, student):
        mix = output_of(masked_layer(lambda n: torch.ones(n, n, dtype=torch.bool)))
        assert not truth(student.leaks(output_of(masked_layer(lower)), draw(2, 5, 4), 2))
        assert truth(student.leaks(mix, draw(2, 5, 4), 2)), "a leak in a batch is overlooked"

    @points(1, reveals="The tokens are left as they were")
    def test_leaks_keeps_x(self, student):
        x = draw(5, 4)
        _, left = student.leaks.after(lambda x: x.cumsum(-2), x, 2)
        require(agrees(left[1], x, atol=0))


KINDS = {
    "ok": [masked_layer(lower), with_bias(lower), by_rows(lower)],
    "self_blocked": [
        masked_layer(lambda n: lower(n, -1)),
        with_bias(lambda n: lower(n, -1)),
        by_rows(lambda n: lower(n, -1)),
    ],
    "off_by_one": [
        masked_layer(lambda n: lower(n, 1)),
        with_bias(lambda n: lower(n, 1)),
        by_rows(lambda n: lower(n, 1)),
    ],
    "post_softmax": [post_softmax, post_softmax_filled],
    "unmasked": [masked_layer(lambda n: lower(n, n)), with_bias(lambda n: lower(n, n)), by_rows(lambda n: lower(n, n))],
}


@exercise("diagnose_mask")
class TestDiagnoseMask:
    def named(self, student, kind):
        for layer in KINDS[kind]:
            assert student.diagnose_mask(layer) == kind, "a layer of this kind is called something else"

    @points(1, reveals="A layer with the right mask is called ok")
    def test_ok(self, student):
        self.named(student, "ok")

    @points(1, reveals="A token that may not see itself is found")
    def test_self_blocked(self, student):
        self.named(student, "self_blocked")

    @points(1, reveals="A mask that is one too wide is found")
    def test_off_by_one(self, student):
        self.named(student, "off_by_one")

    @points(1, reveals="A mask that comes after the softmax is found")
    def test_post_softmax(self, student):
        self.named(student, "post_softmax")

    @points(1, reveals="A missing mask is found")
    def test_unmasked(self, student):
        self.named(student, "unmasked")


@exercise("padding_mask")
class TestPaddingMask:
    @points(2, reveals="The first lengths[b] keys of sentence b are real, and no other")
    def test_real_keys(self, student):
        lengths = torch.tensor([3, 1, 5])
        mask = student.padding_mask(lengths, 5)
        assert isinstance(mask, torch.Tensor) and mask.numel() == 15, (
            "there is not one entry for each key of each sentence"
        )
        require(agrees(mask.reshape(3, 5).bool(), torch.arange(5) < lengths[:, None]))

    @points(1, reveals="The shape is (B, 1, 1, n), so that it broadcasts over heads and queries")
    def test_padding_shape(self, student):
        mask = student.padding_mask(torch.tensor([2, 4]), 4)
        assert mask.shape == (2, 1, 1, 4), f"the shape is {tuple(mask.shape)}"

    @points(1, reveals="The padding mask is a tensor of bools")
    def test_padding_bools(self, student):
        assert student.padding_mask(torch.tensor([2, 4]), 4).dtype == torch.bool, "the entries are no bools"

    @points(1, reveals="A sentence of no token has no real key, and n may exceed every length")
    def test_empty_sentence(self, student):
        mask = student.padding_mask(torch.tensor([0, 2]), 6)
        assert mask.shape[-1] == 6 and mask.reshape(2, 6).sum(-1).tolist() == [0, 2], "the number of real keys is off"


@exercise("combine_masks")
class TestCombineMasks:
    @points(2, reveals="A key is allowed if both masks allow it")
    def test_both(self, student):
        causal, padding = lower(5), (torch.arange(5) < torch.tensor([[2], [4]]))[:, None, None]
        got = student.combine_masks(causal, padding)
        assert isinstance(got, torch.Tensor) and got.shape == (2, 1, 5, 5), "the shape is not (B, 1, n, n)"
        require(agrees(got.bool(), causal & padding))

    @points(1, reveals="The combined mask is a tensor of bools")
    def test_combined_bools(self, student):
        got = student.combine_masks(lower(3), torch.ones(2, 1, 1, 3, dtype=torch.bool))
        assert got.dtype == torch.bool, "the entries are no bools"


def definition(query, key, value, mask):
    """Softmax over the allowed keys, zeros where there is none."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf), -1).nan_to_num(0.0)
    return weights @ value, weights


def draw_attention():
    """A query (2, 3, 4), keys (2, 5, 4) and values (2, 5, 6)."""
    return draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 6)


def dead_row(n=3, m=5, row=1):
    mask = draw_mask(n, m)
    mask[row] = False
    return mask


@exercise("safe_attention")
class TestSafeAttention:
    @points(2, reveals="Queries with an allowed key get what plain attention gives")
    def test_live_rows(self, student):
        arguments, mask = draw_attention(), draw_mask(3, 5)
        output, weights = student.safe_attention(*arguments, mask)
        for got, want in zip((output, weights), definition(*arguments, mask), strict=True):
            require(agrees(got, want, atol=ATOL))

    @points(2, reveals="A query with no allowed key gets zero weights and a zero output")
    def test_dead_rows(self, student):
        output, weights = student.safe_attention(*draw_attention(), dead_row())
        assert (weights[:, 1] == 0).all(), "the weights of a query with no allowed key are not zero"
        assert (output[:, 1] == 0).all(), "the output of a query with no allowed key is not zero"

    @points(1, reveals="One such query leaves the others as they were")
    def test_others_live_on(self, student):
        arguments, mask = draw_attention(), dead_row()
        _, weights = student.safe_attention(*arguments, mask)
        require(rows_sum_to_one(weights[:, [0, 2]], atol=ATOL))

    @points(2, reveals="All gradients stay finite when a query has no allowed key")
    def test_finite_gradients(self, student):
        _, gradients, _ = student.safe_attention.vjp([*draw_attention(), dead_row()], [draw(2, 3, 6), draw(2, 3, 5)])
        for name, gradient in zip(("query", "key", "value"), gradients, strict=True):
            assert gradient is not None and gradient.isfinite().all(), f"the gradient of {name} has NaN or inf"

    @points(1, reveals="A NaN that comes in is not hidden")
    def test_nan_stays(self, student):
        query, key, value = draw_attention()
        query[0, 0, 0] = math.nan
        output, _ = student.safe_attention(query, key, value, dead_row())
        assert output[0, 0].isnan().all(), "a NaN in a query with allowed keys has vanished"

    @points(1, reveals="What stands in padded places does not matter, however large")
    def test_padding_does_not_matter(self, student):
        query, key = draw(3, 4), draw(4, 4)
        mask = torch.tensor([True, True, False, False]).expand(3, 4).clone()
        filled = key.clone()
        filled[2], filled[3] = 1e6, -1e6  # one of them has a large score, whatever the query
        (one, _), (other, _) = student.safe_attention.each([(query, x, x, mask) for x in (key, filled)])
        require(agrees(other, one, atol=0))


FAMILIES = {"encoder": {"encoder"}, "decoder": {"decoder"}, "encoder-decoder": {"encoder", "decoder", "cross"}}


@exercise("visibility")
class TestVisibility:
    @points(1, reveals="Each family has the masks of its parts, by their names")
    def test_names(self, student):
        found = student.visibility.each([(kind, 3, 4) for kind in FAMILIES])
        for kind, masks in zip(FAMILIES, found, strict=True):
            assert isinstance(masks, dict) and set(masks) == FAMILIES[kind], f"the masks of {kind!r} have other names"

    @points(1, reveals="An encoder sees everything")
    def test_encoder_sees_all(self, student):
        alone, within = student.visibility.each([("encoder", 3, 4), ("encoder-decoder", 3, 4)])
        for masks in (alone, within):
            require(agrees(masks["encoder"], torch.ones(3, 3, dtype=torch.bool)))

    @points(1, reveals="A decoder sees no later token")
    def test_decoder_sees_the_past(self, student):
        alone, within = student.visibility.each([("decoder", 3, 4), ("encoder-decoder", 3, 4)])
        for masks in (alone, within):
            require(agrees(masks["decoder"], lower(4)))

    @points(1, reveals="Every token that is written sees the whole source")
    def test_cross_sees_the_source(self, student):
        require(agrees(student.visibility("encoder-decoder", 3, 4)["cross"], torch.ones(4, 3, dtype=torch.bool)))

    @points(1, reveals="Another family is a ValueError")
    def test_other_kind(self, student):
        with pytest.raises(ValueError):
            student.visibility("perceiver", 3, 4)


@exercise("shift_targets")
class TestShiftTargets:
    @points(1, reveals="The model reads all tokens but the last")
    def test_inputs(self, student):
        ids = torch.randint(0, 50, (3, 6))
        require(agrees(student.shift_targets(ids)[0], ids[:, :-1], atol=0))

    @points(1, reveals="The target at a place is the token that follows it")
    def test_targets(self, student):
        ids = torch.randint(0, 50, (3, 6))
        require(agrees(student.shift_targets(ids)[1], ids[:, 1:], atol=0))


def bigram(table):
    """A model that knows the last token only; it counts how often it is asked."""
    asked = []

    def model(ids):
        asked.append(tuple(ids.shape))
        return table[ids]

    return model, asked


def bigram_loss(table, ids):
    return -torch.log_softmax(table, -1)[ids[:, :-1], ids[:, 1:]].mean().item()


@exercise("next_token_loss")
class TestNextTokenLoss:
    def loss(self, student, table, ids):
        model, asked = bigram(table)
        got = student.next_token_loss(model, ids)
        assert isinstance(got, torch.Tensor) and got.numel() == 1, "the loss is no scalar tensor"
        return got.item(), asked

    @points(2, reveals="It is the mean of the losses at all places of all sequences")
    def test_mean_of_all(self, student):
        table, ids = draw(7, 7), torch.randint(0, 7, (3, 5))
        got, _ = self.loss(student, table, ids)
        assert abs(got - bigram_loss(table, ids)) < ATOL, "the loss is off"

    @points(1, reveals="A model that knows nothing pays the logarithm of the vocabulary")
    def test_uniform(self, student):
        got, _ = self.loss(student, torch.full((9, 9), 2.0), torch.randint(0, 9, (2, 4)))
        assert abs(got - math.log(9)) < ATOL, f"the loss of a model that knows nothing is {got:.4f}"

    @points(1, reveals="The model sees each sequence without its last token, and is asked once")
    def test_asked_once(self, student):
        _, asked = self.loss(student, draw(7, 7), torch.randint(0, 7, (3, 5)))
        assert asked == [(3, 4)], f"the model was asked for inputs of shape {asked}"


EXACT = ("repeatable",)  # these are compared entry by entry: a random one cannot pass


@duties(
    to_additive=Contract(lambda: (draw_mask(3, 4),), worth=0.25, skip=EXACT),
    to_blocked=Contract(lambda: (draw_mask(3, 4),), worth=0.25, skip=EXACT),
    padding_mask=Contract(lambda: (torch.tensor([3, 1, 4]), 4), batch=(0,), worth=0.25, skip=EXACT),
    combine_masks=Contract(lambda: (lower(4), torch.rand(2, 1, 1, 4) < 0.5), batch=(1,), worth=0.25, skip=EXACT),
    safe_attention=Contract(
        lambda: (*draw_attention(), draw_mask(3, 5)), floats=(0, 1, 2), batch=(0, 1, 2), large=(0,)
    ),
    shift_targets=Contract(lambda: (torch.randint(0, 50, (2, 5)),), worth=0.25, skip=EXACT),
)
def test_duties(student, duty):
    duty(student)
