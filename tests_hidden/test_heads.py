"""Hidden tests of the unit "heads": each states one property of one exercise.

As far as possible, each test is blind to the mistakes that the others are for: the one that fails names what is wrong.
All sizes differ, also the root of a head's width from the number of heads.

Inputs and parameters are drawn in float64, where fifteen right spellings lay at most 2.7e-15 from the definition (100
seeds); in float32 it was 1.9e-6. The tolerance of 2e-5 leaves room for those who compute in float32 inside.
"""

import math

import pytest
import torch

from autograder.judge import Contract, call, duties, exercise, points
from autograder.properties import (
    Evidence,
    agrees,
    batched,
    dependency_matrix,
    future_perturbation,
    prefix_consistency,
    require,
    rows_sum_to_one,
)

D, H, WIDTH = 12, 3, 4
LAYERS = ("w_query", "w_key", "w_value", "w_out")
ATOL = 2e-5


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


def draw_mask(n, m):
    """A mask in which every query has an allowed and a forbidden key."""
    return torch.rand(n, m).argsort(-1) < torch.randint(1, m, (n, 1))


def identity(n):
    return torch.eye(n, dtype=torch.float64)


def number(value):
    """A number of the student's, also as a tensor of one element: its type is a test of its own."""
    single = isinstance(value, torch.Tensor) and value.numel() == 1
    assert single or isinstance(value, (bool, int, float)), "that is not one number"
    return value.item() if single else value


# -- the definition ---------------------------------------------------------------------------------------------------
def into_heads(x, n_heads=H):
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)  # (..., N, D) -> (..., H, N, d)


def side_by_side(x):
    return x.transpose(-3, -2).flatten(-2)  # (..., H, N, d) -> (..., N, D)


def linear(x, layer):
    weight, bias = layer
    return x @ weight.mT + bias


def scores_of(x, context, layers, n_heads=H):
    query, key = linear(x, layers["w_query"]), linear(context, layers["w_key"])
    return into_heads(query, n_heads) @ into_heads(key, n_heads).mT / math.sqrt(D / n_heads)  # (B, H, N, M)


def output_of(weights, context, layers):
    value = into_heads(linear(context, layers["w_value"]), weights.shape[-3])
    return linear(side_by_side(weights @ value), layers["w_out"])  # (B, N, D)


# -- modules with parameters of ours ----------------------------------------------------------------------------------
def draw_layers(bias=False, **chosen):
    """A weight and a bias, zero unless asked for, for each layer; weights can be chosen by the layer's name."""
    weights = {layer: draw(D, D) / math.sqrt(D) for layer in LAYERS} | chosen
    return {layer: (weights[layer], draw(D) if bias else torch.zeros(D).double()) for layer in LAYERS}


def draw_reader():
    """Tokens (1, N, D), and layers that make a module return its weights: the values are one-hot in every head."""
    x = identity(D)[torch.randperm(D)[:WIDTH]]  # (N, D), also one-hot, so that nothing is rounded
    w_query, one_hot = draw(D, D), x.repeat(H, 1)  # x @ one_hot.T is the identity, once for each head
    return x[None], draw_layers(w_query=w_query, w_key=w_query, w_value=one_hot, w_out=identity(D))


def loaded(make, layers, n_heads=H, bias=False, dtype=torch.float64):
    """A module of the student's with these layers, whichever of the two layouts it has; in eval mode."""
    module = make(D, n_heads, bias)
    stacked = tuple(torch.cat(parts) for parts in zip(*(layers[name] for name in LAYERS[:3]), strict=True))
    state = {}
    for name, (weight, offset) in (layers | {"w_qkv": stacked}).items():
        state |= {f"{name}.weight": weight, f"{name}.bias": offset}
    for name in module.parameters:
        assert name in state, f"there is a parameter that is called `{name}`"
    module.to(dtype)
    module.load({name: state[name] for name in module.parameters})
    module.train(False)
    return module


def separate_layout(d_model, bias):
    shapes = {f"{layer}.weight": (d_model, d_model) for layer in LAYERS}
    return shapes | ({f"{layer}.bias": (d_model,) for layer in LAYERS} if bias else {})


def fused_layout(d_model, bias):
    shapes = {"w_qkv.weight": (3 * d_model, d_model), "w_out.weight": (d_model, d_model)}
    return shapes | ({"w_qkv.bias": (3 * d_model,), "w_out.bias": (d_model,)} if bias else {})


def require_layout(make, *layouts):
    modules = make.each([(6, 2), call(6, 3, bias=True), (8, 2, False)])
    for module, (d_model, bias) in zip(modules, [(6, False), (6, True), (8, False)], strict=True):
        has = ", ".join(f"{name} {shape}" for name, shape in module.parameters.items())
        fits = any(module.parameters == layout(d_model, bias) for layout in layouts)
        assert fits, f"with d_model = {d_model} and bias = {bias} the parameters are: {has or 'none'}"


def require_ratios(weights, scores):
    """The weights are exp(scores) up to a factor for each row and each column: true of a softmax over either axis."""
    assert isinstance(weights, torch.Tensor) and weights.shape == scores.shape, "the weights have the wrong shape"
    off = (centred(weights.double().log()) - centred(scores)).abs().max().item()
    assert off < ATOL, "the ratios between the weights do not follow from the scores of the definition"


def centred(scores):
    return scores - scores.mean(-1, keepdim=True) - scores.mean(-2, keepdim=True) + scores.mean((-2, -1), keepdim=True)


def require_only_allowed(weights, mask):
    mask = mask.expand(weights.shape)
    assert (weights[~mask] == 0).all(), "a key that the mask forbids has a weight"
    assert (weights[mask] > 0).all(), "a key that the mask allows has no weight"


# -- step 1 -----------------------------------------------------------------------------------------------------------
def require_same_features(got, want):
    """Token by token the same features, in any order."""
    require(agrees(got.sort(-1).values, want.sort(-1).values, atol=ATOL))


@exercise("split_heads")
class TestSplitHeads:
    @points(1.5, reveals="In every head, row n holds features of token n and of no other token")
    def test_split_keeps_tokens_apart(self, student):
        x = draw(2, 5, 6)
        heads = student.split_heads(x, 3)
        assert heads.shape == (2, 3, 5, 2), f"5 tokens of 6 features in 3 heads have shape {tuple(heads.shape)}"
        require_same_features(side_by_side(heads), x)

    @points(1.5, reveals="Each head gets a block of neighbouring features, in order")
    def test_split_into_blocks(self, student):
        x = draw(2, 1, 6)
        require(agrees(student.split_heads(x, 3), x.reshape(2, 3, 1, 2), atol=ATOL))

    @points(0.5, reveals="One head gets everything, and an axis of its own; as many heads as features get one each")
    def test_split_into_one_or_all(self, student):
        x = draw(2, 5, 6)
        one, six = student.split_heads.each([(x, 1), (x, 6)])
        require(agrees(one, x[:, None], atol=ATOL))
        require(agrees(six, x.mT[..., None], atol=ATOL))

    @points(0.5, reveals="Features that cannot be shared out equally are refused with a ValueError")
    def test_split_indivisible(self, student):
        with pytest.raises(ValueError):
            student.split_heads(draw(2, 5, 6), 4)


@exercise("merge_heads")
class TestMergeHeads:
    @points(1, reveals="Row n of the result holds features of token n and of no other token")
    def test_merge_keeps_tokens_apart(self, student):
        heads = draw(2, 3, 5, 2)
        require_same_features(student.merge_heads(heads), side_by_side(heads))

    @points(1, reveals="The heads stand side by side, in order")
    def test_merge_side_by_side(self, student):
        heads = draw(2, 3, 1, 2)
        require(agrees(student.merge_heads(heads), heads.reshape(2, 1, 6), atol=ATOL))


# -- step 2 -----------------------------------------------------------------------------------------------------------
@exercise("head_dim")
class TestHeadDim:
    @points(0.5, reveals="The heads share the features equally")
    def test_width_of_a_head(self, student):
        assert [number(a) for a in student.head_dim.each([(10, 1), (40, 5), (1024, 16)])] == [10, 8, 64]

    @points(0.25, reveals="The width is an int")
    def test_head_dim_int(self, student):
        assert type(student.head_dim(40, 5)) is int

    @points(0.5, reveals="A width that is no whole number is refused with a ValueError")
    def test_head_dim_indivisible(self, student):
        with pytest.raises(ValueError):
            student.head_dim(40, 6)


@exercise("mha_params")
class TestMhaParams:
    @points(0.5, reveals="Without biases, there are the entries of four square matrices")
    def test_count_of_weights(self, student):
        assert [number(a) for a in student.mha_params.each([(1,), (10, False), (300,)])] == [4, 400, 360_000]

    @points(0.5, reveals="Each of the four layers has a bias, with one entry for each feature")
    def test_count_of_biases(self, student):
        without, with_biases = student.mha_params.each([(300, False), call(300, bias=True)])
        assert number(with_biases) - number(without) == 1200

    @points(0.25, reveals="The count is an int, exact at any size")
    def test_params_int(self, student):
        assert all(type(count) is int for count in student.mha_params.each([(10,), (10, True)]))


# -- step 3 -----------------------------------------------------------------------------------------------------------
@exercise("MultiHeadAttention")
class TestMultiHeadAttention:
    @points(1, reveals="The parameters have the names and shapes of one of the two layouts, with biases if asked for")
    def test_parameters(self, student):
        require_layout(student.MultiHeadAttention, separate_layout, fused_layout)

    @points(0.5, reveals="A number of heads that does not divide d_model is refused with a ValueError")
    def test_indivisible(self, student):
        with pytest.raises(ValueError):
            student.MultiHeadAttention(12, 5)

    @points(1.5, reveals="With one head, it is attention between projected tokens, and one more projection")
    def test_one_head(self, student):
        x, layers = draw(2, 5, D), draw_layers(bias=True)
        module = loaded(student.MultiHeadAttention, layers, n_heads=1, bias=True)
        weights = torch.softmax(scores_of(x, x, layers, n_heads=1), dim=-1)
        require(agrees(module(x), output_of(weights, x, layers), atol=ATOL))

    @points(0.5, reveals="A token alone gets its own projected value, in the right shape")
    def test_token_alone(self, student):
        x, layers = draw(1, 1, D), draw_layers()
        module = loaded(student.MultiHeadAttention, layers, n_heads=1)
        require(agrees(module(x), linear(linear(x, layers["w_value"]), layers["w_out"]), atol=ATOL))

    @points(1.5, reveals="In each head, the scores are divided by the square root of the head's width")
    def test_scale(self, student):
        x, layers = draw_reader()
        output = loaded(student.MultiHeadAttention, layers)(x)
        require_ratios(into_heads(output), scores_of(x, x, layers))

    @points(1, reveals="In each head, the weights of a query sum to one")
    def test_rows_sum_to_one(self, student):
        x, layers = draw_reader()
        output = loaded(student.MultiHeadAttention, layers)(x)
        require(rows_sum_to_one(into_heads(output)))

    @points(1.5, reveals="Up to the last projection, a head depends on its own queries, keys and values only")
    def test_heads_apart(self, student):
        module = loaded(student.MultiHeadAttention, draw_layers(w_out=identity(D)))
        of_head_1 = torch.zeros(2, 5, D).double()
        of_head_1[..., WIDTH : 2 * WIDTH] = draw(2, 5, WIDTH)
        _, _, gradients = module.vjp([draw(2, 5, D)], [of_head_1])
        missing = {name: torch.zeros(shape) for name, shape in module.parameters.items() if gradients[name] is None}
        require(only_head_1(gradients | missing))

    @points(1.5, reveals="Queries come from x, keys and values from the context; without a context, all from x")
    def test_context(self, student):
        x = draw(2, 5, D)
        module = loaded(student.MultiHeadAttention, draw_layers())
        whole, part = module.each([(x,), call(x[:, :2].contiguous(), context=x)])
        require(agrees(part, whole[:, :2], atol=ATOL))

    @points(1, reveals="True means: may attend. In each head, a forbidden key has no weight, an allowed one some")
    def test_forbidden_keys(self, student):
        x, layers = draw_reader()
        mask = draw_mask(WIDTH, WIDTH)
        output = loaded(student.MultiHeadAttention, layers)(x, mask=mask)
        require_only_allowed(into_heads(output), mask)

    @points(1.5, reveals="Under a causal mask, no output depends on a later token")
    def test_future_leak(self, student):
        module = loaded(student.MultiHeadAttention, draw_layers())
        causal = torch.ones(5, 5, dtype=torch.bool).tril()
        require(future_perturbation(batched(lambda xs: module.each(call(x, mask=causal) for x in xs)), draw(2, 5, D)))

    @points(1, reveals="A padding mask (B, 1, 1, M) holds for all queries and heads of its own sequence")
    def test_padding_mask(self, student):
        x, context, mask = draw(2, 5, D), draw(2, 6, D), draw_mask(2, 6)
        module = loaded(student.MultiHeadAttention, draw_layers())
        alone = [(x[i : i + 1], context[i : i + 1], mask[i].expand(5, 6).clone()) for i in (0, 1)]
        together, first, second = module.each([(x, context, mask[:, None, None]), *alone])
        require(agrees(together, torch.cat([first, second]), atol=ATOL))

    @points(0.5, reveals="A mask (B, H, N, M) may differ from head to head")
    def test_mask_of_each_head(self, student):
        x, layers = draw_reader()
        mask = torch.stack([draw_mask(WIDTH, WIDTH) for _ in range(H)])[None]
        output = loaded(student.MultiHeadAttention, layers)(x, mask=mask)
        require_only_allowed(into_heads(output), mask)

    @points(1, reveals="A query with no allowed key takes nothing in any head, and the others are as before")
    def test_no_allowed_key(self, student):
        x, layers, mask = draw(2, 5, D), draw_layers(bias=True), draw_mask(5, 5)
        module = loaded(student.MultiHeadAttention, layers, bias=True)
        dead = mask.clone()
        dead[1] = False
        before, after = module.each([call(x, mask=mask), call(x, mask=dead)])
        nothing = linear(torch.zeros_like(x[:, 1]), layers["w_out"])
        require(agrees(after[:, 1], nothing, atol=ATOL))
        require(agrees(after[:, [0, 2, 3, 4]], before[:, [0, 2, 3, 4]], atol=ATOL))

    @points(0.5, reveals="All gradients stay finite when a query has no allowed key")
    def test_gradients_of_no_allowed_key(self, student):
        mask = draw_mask(5, 5)
        mask[1] = False
        module = loaded(student.MultiHeadAttention, draw_layers())
        _, (of_x,), of_parameters = module.vjp([draw(2, 5, D)], [draw(2, 5, D)], mask=mask)
        for name, gradient in {"x": of_x, **of_parameters}.items():
            assert gradient is None or gradient.isfinite().all(), f"the gradient of {name} has NaN or inf"


def only_head_1(gradients):
    """Whether a gradient of head 1's output reaches the queries, keys and values of head 1 only."""
    if "w_qkv.weight" in gradients:
        parts = gradients["w_qkv.weight"].chunk(3)
    else:
        parts = [gradients[f"{layer}.weight"] for layer in LAYERS[:3]]
    reached = torch.stack([part.unflatten(0, (H, WIDTH)).abs().amax((1, 2)) for part in parts])  # (3, H)
    allowed = ((False, True, False),) * 3
    holds = bool((reached[:, [0, 2]] < 1e-12).all())
    says = "the output of head 1 depends on the queries, keys or values of another head"
    picture = tuple(tuple(row) for row in reached.tolist())
    return Evidence(holds, says, picture, allowed, rows="queries, keys, values", columns="head whose rows they are")


# -- step 4 -----------------------------------------------------------------------------------------------------------
@exercise("FusedCausalAttention")
class TestFusedCausalAttention:
    @points(0.5, reveals="The parameters are those of w_qkv and w_out, with biases if asked for")
    def test_fused_parameters(self, student):
        require_layout(student.FusedCausalAttention, fused_layout)

    @points(0.5, reveals="A number of heads that does not divide d_model is refused with a ValueError")
    def test_fused_indivisible(self, student):
        with pytest.raises(ValueError):
            student.FusedCausalAttention(12, 5)

    @points(2, reveals="The last token sees all tokens, with queries, keys and values from the three thirds of w_qkv")
    def test_last_token(self, student):
        x, layers = draw(2, 5, D), draw_layers(bias=True)
        output = loaded(student.FusedCausalAttention, layers, bias=True)(x)
        assert output.shape == x.shape, f"5 tokens of {D} features have outputs of shape {tuple(output.shape)}"
        weights = torch.softmax(scores_of(x, x, layers), dim=-1)
        require(agrees(output[:, -1], output_of(weights, x, layers)[:, -1], atol=ATOL))

    @points(2, reveals="No output depends on a later token")
    def test_fused_future_leak(self, student):
        module = loaded(student.FusedCausalAttention, draw_layers())
        require(future_perturbation(module, draw(2, 5, D)))

    @points(1, reveals="The first tokens of a sequence have the same outputs without the rest")
    def test_any_length(self, student):
        module = loaded(student.FusedCausalAttention, draw_layers())
        require(prefix_consistency(module, draw(1, 5, D)))  # one sequence, so that its beginnings are contiguous


# -- step 5 -----------------------------------------------------------------------------------------------------------
@exercise("CrossAttention")
class TestCrossAttention:
    @points(0.5, reveals="The parameters have the names and shapes of one of the two layouts, with biases if asked for")
    def test_cross_parameters(self, student):
        require_layout(student.CrossAttention, separate_layout, fused_layout)

    @points(0.25, reveals="A number of heads that does not divide d_model is refused with a ValueError")
    def test_cross_indivisible(self, student):
        with pytest.raises(ValueError):
            student.CrossAttention(12, 5)

    @points(1.5, reveals="The scores compare queries of the target with keys of the source, in each head")
    def test_cross_scores(self, student):
        x, source, layers = draw(2, 5, D), draw(2, 4, D), draw_layers(bias=True)
        _, weights = loaded(student.CrossAttention, layers, bias=True)(x, source)
        # of the last two target tokens, from which even a causal mask would hide no source token
        require_ratios(weights[..., -2:, :], scores_of(x, source, layers)[..., -2:, :])

    @points(1, reveals="In each head, the weights of a target token sum to one")
    def test_cross_rows_sum_to_one(self, student):
        _, weights = loaded(student.CrossAttention, draw_layers())(draw(2, 5, D), draw(2, 4, D))
        require(rows_sum_to_one(weights))

    @points(1, reveals="The output is the source's values, averaged with the returned weights, and projected")
    def test_cross_average_of_values(self, student):
        source, layers = draw(2, 4, D), draw_layers(bias=True)
        output, weights = loaded(student.CrossAttention, layers, bias=True)(draw(2, 5, D), source)
        require(agrees(output, output_of(weights, source, layers), atol=ATOL))

    @points(1, reveals="Without a mask, every output depends on every source token")
    def test_every_source_token(self, student):
        module, x = loaded(student.CrossAttention, draw_layers()), draw(2, 5, D)
        outputs = batched(lambda sources: [answer[0] for answer in module.each((x, source) for source in sources)])
        matrix = dependency_matrix(outputs, draw(2, 4, D))
        require(matrix if isinstance(matrix, Evidence) else everywhere(matrix))

    @points(1, reveals="True means: may attend. A forbidden source token has a weight of zero, an allowed one more")
    def test_cross_forbidden_keys(self, student):
        mask = draw_mask(2, 4)[:, None, None]  # (B, 1, 1, Ns)
        _, weights = loaded(student.CrossAttention, draw_layers())(draw(2, 5, D), draw(2, 4, D), mask)
        require_only_allowed(weights, mask)

    @points(0.5, reveals="With no allowed source token, the weights are zero, and other sequences are as before")
    def test_cross_no_allowed_key(self, student):
        x, source, mask = draw(2, 5, D), draw(2, 4, D), draw_mask(2, 4)
        dead = mask.clone()
        dead[0] = False
        module = loaded(student.CrossAttention, draw_layers())
        before, after = module.each((x, source, m[:, None, None]) for m in (mask, dead))
        for what, was, got in zip(("output", "weights"), before, after, strict=True):
            assert (got[0] == 0).all(), f"the {what} of a target with no allowed source token: not zero"
            require(agrees(got[1], was[1], atol=ATOL))


def everywhere(matrix):
    picture = tuple(tuple(row) for row in matrix.tolist())
    says = "some outputs did not move when a source token was changed"
    return Evidence(bool((matrix > 0).all()), says, picture, rows="output", columns="source token")


# -- step 6 -----------------------------------------------------------------------------------------------------------
@exercise("copy_into_torch")
class TestCopyIntoTorch:
    @points(1, reveals="The copy is PyTorch's module, with biases exactly if yours has them")
    def test_copy_parameters(self, student):
        for bias, mine in zip((False, True), student.MultiHeadAttention.each([(6, 2), (6, 2, True)]), strict=True):
            biases = {"in_proj_bias": (18,), "out_proj.bias": (6,)} if bias else {}
            has = student.copy_into_torch(mine).parameters
            assert has == {"in_proj_weight": (18, 6), "out_proj.weight": (6, 6)} | biases, (
                f"the copy of a module {'with' if bias else 'without'} biases has {', '.join(has) or 'no parameters'}"
            )

    @points(2, reveals="The copy gives the outputs and the weights of your module, whatever its parameters")
    def test_copy_outputs(self, student):
        x, context, layers = draw(5, D).float(), draw(4, D).float(), draw_layers()  # no batch, so no batch axis
        copy = student.copy_into_torch(loaded(student.MultiHeadAttention, layers, dtype=torch.float32))
        output, weights = copy(x, context, context, average_attn_weights=False)
        want = torch.softmax(scores_of(x.double(), context.double(), layers), dim=-1)
        require(agrees(weights, want, atol=ATOL))
        require(agrees(output, output_of(want, context.double(), layers), atol=ATOL))

    @points(1, reveals="The biases are copied too")
    def test_copy_biases(self, student):
        x, layers = draw(1, D).float(), draw_layers(bias=True)
        layers["w_query"], layers["w_key"] = draw_layers()["w_query"], draw_layers()["w_key"]
        module = loaded(student.MultiHeadAttention, layers, bias=True, dtype=torch.float32)
        output, _ = student.copy_into_torch(module)(x, x, x)
        require(agrees(output, linear(linear(x.double(), layers["w_value"]), layers["w_out"]), atol=ATOL))

    @points(1, reveals="The copy takes a batch first")
    def test_copy_batch_first(self, student):
        x = draw(2, 5, D).float()
        copy = student.copy_into_torch(loaded(student.MultiHeadAttention, draw_layers(), dtype=torch.float32))
        (together, _), (first, _), (second, _) = copy.each((y, y, y) for y in (x, *x))
        require(agrees(together, torch.stack([first, second]), atol=ATOL))

    @points(0.5, reveals="The copy has the dtype of your module")
    def test_copy_dtype(self, student):
        copy = student.copy_into_torch(loaded(student.MultiHeadAttention, draw_layers()))
        dtypes = {value.dtype for value in copy.state().values()}
        assert dtypes == {torch.float64}, "a module in float64 has a copy that is not"

    @points(1, reveals="Your module is left as it is, also when the copy's parameters change later")
    def test_copy_is_a_copy(self, student):
        mine = loaded(student.MultiHeadAttention, draw_layers(), dtype=torch.float32)
        before = mine.state()
        copy = student.copy_into_torch(mine)
        copy.load({name: torch.zeros(shape) for name, shape in copy.parameters.items()})
        after = mine.state()
        for name, was in before.items():
            assert torch.equal(after[name], was), f"{name} of your module has changed"


# -- step 7 -----------------------------------------------------------------------------------------------------------
def draw_sum(n_heads=3):
    """Weights (H, N, M), x (M, D), w_value and w_out (D, D)."""
    return torch.softmax(draw(n_heads, 4, 5), dim=-1), draw(5, 6), draw(6, 6), draw(6, 6)


def terms(weights, x, w_value, w_out):
    """(H, N, D): what each head adds."""
    return weights @ into_heads(x @ w_value, len(weights)) @ w_out.unflatten(0, (len(weights), -1))


@exercise("sum_over_heads")
class TestSumOverHeads:
    @points(2, reveals="Each head adds its weights times x, times its columns of w_value, times its rows of w_out")
    def test_sum_of_terms(self, student):
        inputs = draw_sum()
        require(agrees(student.sum_over_heads(*inputs), terms(*inputs).sum(0), atol=ATOL))


@exercise("ablate_head")
class TestAblateHead:
    @points(2, reveals="The term of that head is missing, and the others are as they were")
    def test_ablation(self, student):
        inputs = draw_sum()
        for head, got in enumerate(student.ablate_head.each((*inputs, head) for head in range(3))):
            others = [h for h in range(3) if h != head]
            require(agrees(got, terms(*inputs)[others].sum(0), atol=ATOL))

    @points(0.5, reveals="Without its only head, the output is a tensor of zeros")
    def test_only_head(self, student):
        require(agrees(student.ablate_head(*draw_sum(1), 0), torch.zeros(4, 6), atol=ATOL))


@duties(
    split_heads=Contract(lambda: (draw(2, 5, 6), 3), floats=(0,), batch=(0,), worth=0.25),
    merge_heads=Contract(lambda: (draw(2, 3, 5, 2),), floats=(0,), batch=(0,), worth=0.25),
    MultiHeadAttention=Contract(
        lambda: (draw(2, 5, D), draw(2, 6, D), draw_mask(5, 6)),
        construct=(D, H),
        floats=(0, 1),
        batch=(0, 1),
        large=(0,),
        by_hand=True,
        worth=0.25,
    ),
    FusedCausalAttention=Contract(
        lambda: (draw(2, 5, D),), construct=(D, H), floats=(0,), batch=(0,), large=(0,), by_hand=True, worth=0.25
    ),
    CrossAttention=Contract(
        lambda: (draw(2, 5, D), draw(2, 4, D), draw_mask(5, 4)),
        construct=(D, H),
        floats=(0, 1),
        batch=(0, 1),
        large=(0,),
        by_hand=True,
        worth=0.25,
    ),
    sum_over_heads=Contract(draw_sum, floats=(0, 1, 2, 3), worth=0.25),
    ablate_head=Contract(lambda: (*draw_sum(), 1), floats=(0, 1, 2, 3), worth=0.25),
)
def test_duties(student, duty):
    duty(student)
