"""The public tests of heads: read them, run them with `hw check heads`, add your own."""

import pytest
import torch

from heads import (
    CrossAttention,
    FusedCausalAttention,
    MultiHeadAttention,
    ablate_head,
    copy_into_torch,
    head_dim,
    merge_heads,
    mha_params,
    split_heads,
    sum_over_heads,
)

from autograder.properties import (
    agrees,
    future_perturbation,
    permutation_equivariance,
    permutation_invariance,
    prefix_consistency,
    require,
    rows_sum_to_one,
)


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


def test_the_widths_of_the_table():
    assert [head_dim(16, 4), head_dim(512, 8), head_dim(768, 12)] == [4, 64, 64]


def test_a_head_of_fractional_width_is_refused():
    with pytest.raises(ValueError):
        head_dim(10, 4)


def test_the_counts_of_the_table():
    assert [mha_params(16), mha_params(512), mha_params(768)] == [1_024, 1_048_576, 2_359_296]
    assert [mha_params(16, bias=True), mha_params(512, True), mha_params(768, True)] == [1_088, 1_050_624, 2_362_368]


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
