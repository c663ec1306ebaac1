"""Hidden tests of the unit "masks": each states one property of one exercise.

As far as possible, each test is blind to the mistakes that the others are for: the one that fails names what is wrong.
A mask of another dtype, or of another shape with as many entries, is read as what it means, but for the test that asks
for its form. Floats are drawn in float64, where right spellings of attention differ by less than 2e-15; the tolerance
of 2e-5 leaves room for those who compute in float32 inside (1e-6 at most).
"""

import math

import pytest
import torch

from autograder.judge import Contract, call, duties, exercise, points
from autograder.properties import Evidence, agrees, require

ATOL = 2e-5


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


def draw_mask(n=4, m=6):
    """A mask in which every query has an allowed and a forbidden key."""
    return torch.rand(n, m).argsort(-1) < torch.randint(1, m, (n, 1))


def everyone(*shape):
    return torch.ones(shape, dtype=torch.bool)


def allowed(mask, *shape):
    """What a mask of the student's allows, whatever its dtype, and its shape if only dimensions of size 1 differ."""
    assert isinstance(mask, torch.Tensor), "the mask is no tensor"
    assert mask.numel() == math.prod(shape), f"the mask has shape {tuple(mask.shape)}, and so the wrong size"
    return mask.reshape(shape) != 0


def is_mask(mask, *shape):
    """Whether it is a tensor of bools of this shape; what it allows is another question."""
    if not isinstance(mask, torch.Tensor):
        return Evidence(False, "the mask is no tensor")
    says = f"the mask has shape {tuple(mask.shape)} and dtype {str(mask.dtype)[6:]}"
    return Evidence(mask.shape == shape and mask.dtype == torch.bool, says)


def number(value):
    """A number or bool of the student's; a tensor of one element is as good."""
    single = isinstance(value, torch.Tensor) and value.numel() == 1
    assert single or isinstance(value, (bool, int, float)), "that is not one number"
    return value.item() if single else value


def counted(f):
    """The same function, and a list of what it has been called with."""
    calls = []
    return lambda x: calls.append(x) or f(x), calls


# -- step 1 -----------------------------------------------------------------------------------------------------------
@exercise("causal_mask")
class TestCausalMask:
    SIZES = (1, 2, 7)

    def masks(self, student):
        answers = student.causal_mask.each((n,) for n in self.SIZES)
        return [allowed(mask, n, n) for mask, n in zip(answers, self.SIZES, strict=True)]

    @points(1, reveals="No query may attend to a later key")
    def test_no_later_key(self, student):
        for mask in self.masks(student):
            assert not mask.triu(1).any(), "a query may attend to a later key"

    @points(1, reveals="Every query may attend to its own key")
    def test_own_key(self, student):
        for mask in self.masks(student):
            assert mask.diagonal().all(), "a query may not attend to its own key"

    @points(1, reveals="Every query may attend to all earlier keys")
    def test_earlier_keys(self, student):
        for mask in self.masks(student):
            assert (mask | everyone(*mask.shape).triu()).all(), "a query may not attend to an earlier key"

    @points(0.5, reveals="The mask is a tensor of bools of shape (n, n)")
    def test_causal_form(self, student):
        for mask, n in zip(student.causal_mask.each((n,) for n in self.SIZES), self.SIZES, strict=True):
            require(is_mask(mask, n, n))

    @points(1, reveals="The mask lies on the device that is asked for, however that is written")
    def test_causal_device(self, student):
        _, *masks = student.causal_mask.each([(4,), (4, torch.device("meta")), call(4, device="meta")])
        for mask in masks:
            assert isinstance(mask, torch.Tensor) and mask.is_meta, "a mask for the device meta lies elsewhere"


# -- step 2 -----------------------------------------------------------------------------------------------------------
@exercise("to_additive")
class TestToAdditive:
    @points(1, reveals="Where attention is allowed, nothing is added: exactly zero")
    def test_adds_nothing(self, student):
        mask = draw_mask()
        added = student.to_additive(mask)
        assert (added[mask] == 0).all(), "something is added to the score of an allowed key"

    @points(1, reveals="Where attention is not allowed, minus infinity is added")
    def test_adds_minus_infinity(self, student):
        mask = draw_mask()
        added = student.to_additive(mask)
        assert (added[~mask] == -math.inf).all(), "what is added to the score of a forbidden key is not -inf"

    @points(0.5, reveals="The result has the dtype that is asked for, and float32 by default")
    def test_additive_dtype(self, student):
        mask, dtypes = draw_mask(), (torch.float32, torch.float64, torch.bfloat16)
        asked = [(mask,), (mask, torch.float64), call(mask, dtype=torch.bfloat16)]
        for added, dtype in zip(student.to_additive.each(asked), dtypes, strict=True):
            assert added.dtype == dtype, f"a result in {str(added.dtype)[6:]}, where another type was asked for"

    @points(0.5, reveals="A mask of any shape is translated")
    def test_additive_any_shape(self, student):
        masks = [draw_mask()[0], draw_mask(2, 5)[:, None, None]]  # (M,), (B, 1, 1, M)
        for mask, added in zip(masks, student.to_additive.each((mask,) for mask in masks), strict=True):
            assert added.shape == mask.shape, f"a mask of {mask.dim()} dimensions became {tuple(added.shape)}"
            assert torch.equal(added == added.max(), mask), "the entries of a mask have moved"


@exercise("to_blocked")
class TestToBlocked:
    @points(1, reveals="What was allowed is not blocked, and what was not allowed is")
    def test_opposite(self, student):
        masks = [draw_mask(), draw_mask(2, 5)[:, None, None], draw_mask()[0]]
        for mask, blocked in zip(masks, student.to_blocked.each((mask,) for mask in masks), strict=True):
            require(agrees(allowed(blocked, *mask.shape), ~mask))

    @points(0.5, reveals="The result is a tensor of bools of the same shape")
    def test_blocked_form(self, student):
        mask = draw_mask(2, 5)[:, None, None]
        require(is_mask(student.to_blocked(mask), *mask.shape))


# -- step 3 -----------------------------------------------------------------------------------------------------------
FUTURE = everyone(5, 5).triu(1)


def draw_tokens(*shape):
    """No standard normal numbers: a student's noise may be those, from a generator with the same seed."""
    return draw(*shape) / 2


def causal_attention(x):
    """For 5 tokens and no other number, as a layer with a mask of its own."""
    return torch.softmax((x @ x.mT).masked_fill(FUTURE, -math.inf), dim=-1) @ x


def sums_up_the_past(x):
    """Not even the present token counts, so the output at the first replaced token stays too."""
    return torch.nn.functional.pad(x.cumsum(-2)[..., :-1, :], (0, 0, 1, 0))


def looks_everywhere(x):
    return torch.softmax(x @ x.mT, dim=-1) @ x


def peeks_at_the_last(x):
    return x + x[..., -1:, :]


def only_the_first_peeks(x):
    return torch.cat([x[..., 3:4, :], x[..., 1:, :]], dim=-2)


def only_the_one_before_3_peeks(x):
    return torch.cat([x[..., :2, :], x[..., 3:4, :], x[..., 3:, :]], dim=-2)


def peeks_a_little(x):
    return x.cumsum(-2) + 1e-6 * x.sum(-2, keepdim=True)


def peeks_through_a_norm(x):
    """It is blind to a future that is shifted by a number, scaled or shuffled."""
    return x.cumsum(-2) + torch.nn.functional.layer_norm(x, x.shape[-1:]).mean(-2, keepdim=True)


def only_the_last_sentence_peeks(x):
    return torch.cat([x[:-1], x[-1:] - x[-1:].mean(-2, keepdim=True)])


def require_leaks(student, *layers, x, t=2):
    """All of these are caught, and a layer that looks at the past is not: who always gives one answer fails."""
    honest, *answers = student.leaks.each((f, x, t) for f in (sums_up_the_past, *layers))
    assert not number(honest), "a layer whose outputs are sums of earlier tokens was called a leak"
    for f, answer in zip(layers, answers, strict=True):
        assert number(answer), f"this layer was not caught: {f.__name__.replace('_', ' ')}"


@exercise("leaks")
class TestLeaks:
    @points(1.5, reveals="A layer in which each output depends on its own token and earlier ones is no leak")
    def test_causal_layer(self, student):
        causal, leak = student.leaks.each((f, draw_tokens(5, 3), 2) for f in (causal_attention, looks_everywhere))
        assert not number(causal), "causal attention was called a leak"
        assert number(leak), "attention without a mask was not caught"

    @points(1, reveals="A leak from the last token alone is caught")
    def test_leak_from_the_last(self, student):
        require_leaks(student, peeks_at_the_last, x=draw_tokens(5, 3))

    @points(1, reveals="A leak into a single output is caught, into the first one as into the one just before t")
    def test_leak_into_one_output(self, student):
        require_leaks(student, only_the_first_peeks, only_the_one_before_3_peeks, x=draw_tokens(5, 3), t=3)

    @points(1, reveals="A leak of a millionth is a leak")
    def test_tiny_leak(self, student):
        require_leaks(student, peeks_a_little, x=draw_tokens(5, 3))

    @points(1, reveals="The later tokens are replaced by noise, so that no layer can fail to notice")
    def test_noise(self, student):
        x = draw_tokens(5, 3)
        x[2:] = 0
        require_leaks(student, peeks_through_a_norm, x=x)

    @points(1, reveals="In a batch, tokens are replaced in every sentence, and every sentence is watched")
    def test_leak_in_a_batch(self, student):
        require_leaks(student, only_the_last_sentence_peeks, x=draw_tokens(2, 5, 3))

    @points(0.5, reveals="The tokens are left as they were")
    def test_leaks_keeps_x(self, student):
        x = draw_tokens(5, 3)
        require_leaks(student, looks_everywhere, x=x)
        _, (_, left, _) = student.leaks.after(looks_everywhere, x, 2)
        assert torch.equal(left, x), "x was changed in place"

    @points(0.5, reveals="The layer is called ten times at most")
    def test_few_calls(self, student):
        honest, calls = counted(sums_up_the_past)
        caught, acquitted = student.leaks.each((f, draw_tokens(5, 3), 2) for f in (looks_everywhere, honest))
        assert number(caught), "attention without a mask was not caught"
        assert not number(acquitted), "a layer whose outputs are sums of earlier tokens was called a leak"
        assert len(calls) <= 10, f"the layer was called {len(calls)} times"


# -- step 4 -----------------------------------------------------------------------------------------------------------
def patient(weights_of):
    """An attention for tokens of any number, width and dtype, from a function of its scores to its weights."""

    def attend(x):
        scores = x @ x.roll(1, -1).mT / math.sqrt(x.shape[-1])
        weights = weights_of(scores)
        return weights @ x, weights

    return attend


def filled(diagonal, value=-math.inf):
    """The scores after this diagonal are filled with a value: the usual spelling."""
    return lambda s: torch.softmax(s.masked_fill(torch.ones_like(s).tril(diagonal) == 0, value), dim=-1)


def one_by_one(ahead):
    """Each query has a softmax of its own, over the keys up to so many ahead of it."""

    def weights_of(s):
        rows = [torch.softmax(row[: max(0, n + 1 + ahead)], dim=0) for n, row in enumerate(s)]
        return torch.stack([torch.cat([row, s.new_zeros(s.shape[-1] - len(row))]) for row in rows])

    return weights_of


def past_of(weights):
    return weights * torch.ones_like(weights).tril()


def by_hand(s):
    return s.exp().tril() / s.exp().sum(-1, keepdim=True)


def renormalised(s):
    past = past_of(torch.softmax(s, dim=-1))
    return past / past.sum(-1, keepdim=True)


PATIENTS = {
    "ok": (filled(0), renormalised, one_by_one(0)),
    "self_blocked": (filled(-1), filled(-1, -1e9), one_by_one(-1)),  # query 0 has NaN, looks everywhere, has zeros
    "off_by_one": (filled(1), filled(1, -1e9), one_by_one(1)),
    "post_softmax": (lambda s: past_of(torch.softmax(s, dim=-1)), by_hand),
    "unmasked": (
        lambda s: torch.softmax(s, dim=-1),
        lambda s: torch.softmax(past_of(s), dim=-1),  # 0 is not -inf
        lambda s: torch.softmax(s + torch.ones_like(s).tril(), dim=-1),
    ),
}


def require_diagnosis(student, name, other):
    """Every patient with this disease is told so, and one with the other is not: who always says the same fails."""
    another, *answers = student.diagnose_mask.each((patient(w),) for w in (PATIENTS[other][0], *PATIENTS[name]))
    assert another != name, f"{name} is what a patient with {other} was called"
    for answer in answers:
        assert answer == name, f"a patient with {name} was called {str(answer)[:20]!r}"


@exercise("diagnose_mask")
class TestDiagnoseMask:
    @points(1.5, reveals="Right code is ok, also where the weights were masked after the softmax and then renormalised")
    def test_names_ok(self, student):
        require_diagnosis(student, "ok", other="unmasked")

    @points(1.5, reveals="It is self_blocked when no query sees its own key, whatever query 0 does without any")
    def test_names_self_blocked(self, student):
        require_diagnosis(student, "self_blocked", other="off_by_one")

    @points(1.5, reveals="It is off_by_one when each query sees one key too many")
    def test_names_off_by_one(self, student):
        require_diagnosis(student, "off_by_one", other="post_softmax")

    @points(1.5, reveals="It is post_softmax when later keys have no weight, but a share in the sum")
    def test_names_post_softmax(self, student):
        require_diagnosis(student, "post_softmax", other="off_by_one")

    @points(1.5, reveals="It is unmasked when every query sees every key, also with a mask that forbids nothing")
    def test_names_unmasked(self, student):
        require_diagnosis(student, "unmasked", other="self_blocked")


# -- step 5 -----------------------------------------------------------------------------------------------------------
def draw_lengths():
    """Lengths of four sentences in 5 places, with an empty and a full one among them."""
    return torch.tensor([0, 5, *torch.randint(1, 5, (2,)).tolist()])[torch.randperm(4)]


def draw_padding():
    return (torch.arange(5) < draw_lengths()[:, None])[:, None, None]


def causal():
    return everyone(5, 5).tril()


@exercise("padding_mask")
class TestPaddingMask:
    @points(2, reveals="The first tokens of each sentence are real, as many as its length says, and the others are not")
    def test_real_keys(self, student):
        lengths = draw_lengths()
        mask = allowed(student.padding_mask(lengths, 5), 4, 5)
        require(agrees(mask.sum(1), lengths))
        require(agrees(mask, mask.sort(-1, descending=True).values))

    @points(0.5, reveals="All sentences are as long as n says, also where every one of them is shorter")
    def test_longer_than_all(self, student):
        mask = student.padding_mask(torch.tensor([2, 1]), 5)
        assert isinstance(mask, torch.Tensor) and mask.shape[-1] == 5, "the last axis does not have n entries"

    @points(1, reveals="The mask is a tensor of bools of shape (B, 1, 1, n): a row of keys for each sentence")
    def test_padding_form(self, student):
        require(is_mask(student.padding_mask(draw_lengths(), 5), 4, 1, 1, 5))


@exercise("combine_masks")
class TestCombineMasks:
    @points(1.5, reveals="A key that one of the masks forbids is forbidden")
    def test_forbidden_by_one(self, student):
        padding = draw_padding()
        mask = allowed(student.combine_masks(causal(), padding), 4, 5, 5)
        assert not (mask & ~causal()).any(), "a later key is allowed"
        assert not (mask & ~padding[:, 0]).any(), "a padded key is allowed"

    @points(1.5, reveals="A key that both masks allow is allowed, to a query at a padded place too")
    def test_allowed_by_both(self, student):
        padding = draw_padding()
        mask = allowed(student.combine_masks(causal(), padding), 4, 5, 5)
        assert (mask | ~causal() | ~padding[:, 0]).all(), "a key that both masks allow is forbidden"

    @points(0.5, reveals="The mask is a tensor of bools of shape (B, 1, n, n)")
    def test_combined_form(self, student):
        require(is_mask(student.combine_masks(causal(), draw_padding()), 4, 1, 5, 5))


# -- step 6 -----------------------------------------------------------------------------------------------------------
def draw_attention():
    """Query, key, value of a batch of two, and a mask without dead queries; all sizes differ."""
    return draw(2, 4, 3), draw(2, 6, 3), draw(2, 6, 5), draw_mask()


def with_a_dead_query(mask, n=1):
    dead = mask.clone()
    dead[..., n, :] = False
    return dead


@exercise("safe_attention")
class TestSafeAttention:
    @points(1.5, reveals="Where every query has an allowed key, it is plain attention")
    def test_plain_attention(self, student):
        query, key, value, mask = draw_attention()
        output, weights = student.safe_attention(query, key, value, mask)
        want = torch.softmax((query @ key.mT / math.sqrt(3)).masked_fill(~mask, -math.inf), dim=-1)
        require(agrees(weights, want, atol=ATOL))
        require(agrees(output, want @ value, atol=ATOL))

    @points(1, reveals="A forbidden key has a weight of exactly zero, however well it fits")
    def test_forbidden_keys(self, student):
        query, key, value, mask = draw_attention()
        _, weights = student.safe_attention(query, 100 * key, value, mask)
        assert (weights[..., ~mask] == 0).all(), "a key that the mask forbids has a weight"

    @points(2, reveals="A query with no allowed key has zero weights and a zero output")
    def test_dead_query(self, student):
        query, key, value, mask = draw_attention()
        output, weights = student.safe_attention(query, key, value, with_a_dead_query(mask))
        assert (weights[:, 1] == 0).all(), "a query with no allowed key has weights that are not zero"
        assert (output[:, 1] == 0).all(), "a query with no allowed key has an output that is not zero"

    @points(1, reveals="The other queries are as they would be without the one that has no allowed key")
    def test_other_queries(self, student):
        query, key, value, mask = draw_attention()
        asked = [(query, key, value, m) for m in (mask, with_a_dead_query(mask))]
        before, after = student.safe_attention.each(asked)
        for was, got in zip(before, after, strict=True):
            require(agrees(got[:, [0, 2, 3]], was[:, [0, 2, 3]], atol=ATOL))

    @points(1.5, reveals="All gradients are finite when a query has no allowed key")
    def test_gradients_of_a_dead_query(self, student):
        query, key, value, mask = draw_attention()
        asked = [query, key, value, with_a_dead_query(mask)]
        _, gradients, _ = student.safe_attention.vjp(asked, [draw(2, 4, 5), draw(2, 4, 6)])
        for name, gradient in zip(("query", "key", "value"), gradients, strict=True):
            assert gradient is None or gradient.isfinite().all(), f"the gradient of {name} has NaN or inf"

    @points(1, reveals="A padding mask (B, 1, 1, M) holds for all heads and queries, also if it forbids all keys")
    def test_dead_sentence(self, student):
        query, key, value = draw(2, 2, 4, 3), draw(2, 2, 6, 3), draw(2, 2, 6, 5)
        padding = with_a_dead_query(draw_mask(2, 6))[:, None, None]
        spelt_out = padding.expand(2, 2, 4, 6).clone()
        small, full = student.safe_attention.each((query, key, value, mask) for mask in (padding, spelt_out))
        for got, want in zip(small, full, strict=True):
            require(agrees(got, want, atol=ATOL))

    @points(0.5, reveals="A NaN in a query that has allowed keys stays visible in its output")
    def test_nan_stays(self, student):
        query, key, value, mask = draw_attention()
        query[0, 2, 1] = math.nan
        output, _ = student.safe_attention(query, key, value, with_a_dead_query(mask))
        assert output[0, 2].isnan().all(), "a query with a NaN has an output without"


# -- step 7 -----------------------------------------------------------------------------------------------------------
FAMILIES = {"encoder": {"encoder"}, "decoder": {"decoder"}, "encoder-decoder": {"encoder", "decoder", "cross"}}


def families(student):
    return student.visibility.each((kind, 3, 4) for kind in FAMILIES)


def the_mask(masks, name):
    """The mask of this name; which names there are is a test of its own."""
    assert isinstance(masks, dict) and name in masks, f"there is no mask called {name!r}"
    return masks[name]


@exercise("visibility")
class TestVisibility:
    @points(1, reveals="Each family has its masks, and no others")
    def test_families(self, student):
        for (kind, own), masks in zip(FAMILIES.items(), families(student), strict=True):
            assert isinstance(masks, dict), "the masks are no dict"
            assert set(masks) == own, f"{kind} has the masks {sorted(map(str, masks))}"

    @points(1, reveals="In an encoder every source token sees every source token")
    def test_encoder_sees_all(self, student):
        alone, _, both = families(student)
        for masks in (alone, both):
            assert allowed(the_mask(masks, "encoder"), 3, 3).all(), "a source token does not see all of the source"

    @points(1, reveals="In a decoder a target token sees itself and earlier target tokens")
    def test_decoder_looks_back(self, student):
        _, alone, both = families(student)
        for masks in (alone, both):
            require(agrees(allowed(the_mask(masks, "decoder"), 4, 4), everyone(4, 4).tril()))

    @points(1, reveals="Across, every target token sees every source token: a row for each target token")
    def test_cross_sees_all(self, student):
        cross = the_mask(student.visibility("encoder-decoder", 3, 4), "cross")
        require(agrees(cross != 0, everyone(4, 3)))

    @points(0.5, reveals="All masks are tensors of bools")
    def test_visibility_form(self, student):
        for masks in families(student):
            assert isinstance(masks, dict) and masks, "there is no mask"
            for mask in masks.values():
                assert isinstance(mask, torch.Tensor) and mask.dtype == torch.bool, "a mask is no tensor of bools"

    @points(0.5, reveals="Any other kind is refused with a ValueError")
    def test_other_kind(self, student):
        answers = student.visibility.each((kind, 3, 4) for kind in ("coder", "decoder-encoder"))
        for i in (0, 1):
            with pytest.raises(ValueError):
                answers[i]


# -- step 8 -----------------------------------------------------------------------------------------------------------
def draw_ids(*shape, vocabulary=6):
    """Ids of which no two neighbours are the same: from each to the next is a step of 1 to V-1, modulo V."""
    return torch.randint(1, vocabulary, shape).cumsum(-1) % vocabulary


@exercise("shift_targets")
class TestShiftTargets:
    @points(1, reveals="The model reads all tokens but the last")
    def test_inputs(self, student):
        ids = draw_ids(2, 6)
        require(agrees(student.shift_targets(ids)[0], ids[:, :-1]))

    @points(1, reveals="The target at each place is the token that follows")
    def test_targets(self, student):
        ids = draw_ids(2, 6)
        require(agrees(student.shift_targets(ids)[1], ids[:, 1:]))


def one_hot(ids, vocabulary=6):
    return torch.nn.functional.one_hot(ids, vocabulary).double()


def knows(ids):
    """A model of these sequences that knows the next token; asked for the one after the last, it repeats the last."""
    following = torch.cat([ids[:, 1:], ids[:, -1:]], dim=1)
    return lambda seen: 9 * one_hot(following[:, : seen.shape[1]])


def repeats(seen):
    return 9 * one_hot(seen)


def knows_nothing(seen):
    return torch.zeros(*seen.shape, 6, dtype=torch.float64)


def sure_of_0_at(b, n):
    """A model that knows nothing but at one place, where it is rather sure of token 0."""

    def model(seen):
        logits = knows_nothing(seen)
        logits[b, n : n + 1, 0] = 3  # nothing happens where there is no such place
        return logits

    return model


@exercise("next_token_loss")
class TestNextTokenLoss:
    @points(2, reveals="A model is asked for the next token, not for the present one")
    def test_next_token(self, student):
        ids = draw_ids(2, 5)
        knowing, repeating = map(number, student.next_token_loss.each([(knows(ids), ids), (repeats, ids)]))
        assert knowing < repeating, "who repeats the present token has a lower loss than who knows the next"

    @points(1, reveals="The loss of one guess is the cross-entropy: the logits are not yet probabilities")
    def test_cross_entropy(self, student):
        logits = draw(6)
        loss = number(student.next_token_loss(lambda seen: logits.expand(*seen.shape, 6), torch.tensor([[4, 4]])))
        assert abs(loss - (logits.logsumexp(0) - logits[4]).item()) < ATOL, f"the loss of a single guess is {loss:.4g}"

    @points(1, reveals="It is a mean: who knows nothing has the log of the vocabulary's size, on ids of any number")
    def test_mean(self, student):
        losses = student.next_token_loss.each((knows_nothing, ids) for ids in (draw_ids(2, 5), draw_ids(3, 9)))
        for loss in map(number, losses):
            assert abs(loss - math.log(6)) < ATOL, f"a model that knows nothing has a loss of {loss:.4g}"

    @points(1.5, reveals="Every place of every sequence counts, and all count the same")
    def test_every_place(self, student):
        ids = torch.zeros(2, 4, dtype=torch.long)
        places = [(0, 0), (0, 2), (1, 1)]
        models = [knows_nothing, *(sure_of_0_at(b, n) for b, n in places)]
        base, *better = map(number, student.next_token_loss.each((model, ids) for model in models))
        gains = [base - loss for loss in better]
        assert min(gains) > 1e-3, "there is a place where a better guess does not lower the loss"
        assert max(gains) - min(gains) < ATOL, "a better guess lowers the loss more at one place than at another"

    @points(0.5, reveals="Large logits give a finite loss")
    def test_large_logits(self, student):
        ids, wrong = torch.zeros(2, 5, dtype=torch.long), one_hot(torch.tensor(1))
        models = [lambda seen, size=size: size * wrong.expand(*seen.shape, 6) for size in (1, 1e4)]
        small, large = map(number, student.next_token_loss.each((model, ids) for model in models))
        assert math.isfinite(large), f"with logits of 10,000 the loss is {large}"
        assert large > small, "the loss does not rise when the model becomes more sure of a wrong token"

    @points(1, reveals="The model sees all tokens but the last, and the ids are left as they are")
    def test_model_reads_inputs(self, student):
        ids, (model, seen) = draw_ids(2, 5), counted(repeats)
        _, (_, left) = student.next_token_loss.after(model, ids)
        assert seen, "the model was not called"
        for given in seen:
            assert given.shape[-1] < 5, "the model was given the last token, which is only a target"
            require(agrees(given, ids[:, : given.shape[-1]]))
        assert torch.equal(left, ids), "the ids were changed in place"

    @points(0.5, reveals="One pass of the model is enough for all places")
    def test_one_pass(self, student):
        model, calls = counted(repeats)
        student.next_token_loss(model, draw_ids(2, 5))
        assert len(calls) == 1, f"the model was called {len(calls)} times"

    @points(0.5, reveals="The loss is a tensor without dimensions, ready for backward()")
    def test_loss_form(self, student):
        model, calls = counted(repeats)
        loss = student.next_token_loss(model, draw_ids(2, 5))
        assert calls, "the model was not called"
        assert isinstance(loss, torch.Tensor), f"the loss is a {type(loss).__name__}, not a tensor"
        assert loss.shape == (), f"the loss has shape {tuple(loss.shape)}"


EXACT = ("repeatable",)  # these are compared entry by entry; exercises that take a function have no contract


@duties(
    to_additive=Contract(lambda: (draw_mask(),), worth=0.25, skip=EXACT),
    to_blocked=Contract(lambda: (draw_mask(),), worth=0.25, skip=EXACT),
    padding_mask=Contract(lambda: (draw_lengths(), 5), batch=(0,), worth=0.25, skip=EXACT),
    combine_masks=Contract(lambda: (causal(), draw_padding()), batch=(1,), worth=0.25, skip=EXACT),
    safe_attention=Contract(draw_attention, floats=(0, 1, 2), batch=(0, 1, 2), large=(0,), worth=0.25),
    shift_targets=Contract(lambda: (draw_ids(2, 6),), batch=(0,), worth=0.25, skip=EXACT),
)
def test_duties(student, duty):
    duty(student)
