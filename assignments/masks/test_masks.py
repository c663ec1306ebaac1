"""The public tests of masks: read them, run them with `hw check masks`, add your own."""

import math

import pytest
import torch

from masks import (
    causal_mask,
    combine_masks,
    diagnose_mask,
    leaks,
    next_token_loss,
    padding_mask,
    safe_attention,
    shift_targets,
    to_additive,
    to_blocked,
    visibility,
)

from autograder.properties import agrees, padding_invariance, require


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
