"""MultiHeadAttention(d_model, n_heads, bias=False), called as module(x, context=None, mask=None)."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.worker.device_cases.case import Exercise


def drive(module_class, device):
    module = module_class(8, 2).to(device)
    x, context = torch.randn(2, 3, 8, device=device), torch.randn(2, 5, 8, device=device)
    mask = torch.ones(3, 3, dtype=torch.bool, device=device).tril()
    results = module(x), module(x, context), module(x, mask=mask)
    sum(r.pow(2).sum() for r in results).backward()
    return *results, *(p.grad for p in module.parameters() if p.grad is not None)


exercise = Exercise("MultiHeadAttention", drive)
right, wrong = exercise.right, exercise.wrong


class FourLinears(nn.Module):
    """A right solution with two places for an idea: what else is done to the scores, and to the merged heads."""

    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.w_query, self.w_key, self.w_value, self.w_out = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.prepare()

    def prepare(self):
        pass

    def change_scores(self, scores):
        return scores

    def change_merged(self, merged):
        return merged

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        projected = self.w_query(x), self.w_key(context), self.w_value(context)
        query, key, value = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in projected)
        scores = self.change_scores(query @ key.mT / query.shape[-1] ** 0.5)
        weights = (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)
        return self.w_out(self.change_merged((weights @ value).transpose(1, 2).flatten(2)))


# -- right ------------------------------------------------------------------------------------------------------------
right(FourLinears)


@right
class TorchsOwnAttention(FourLinears):
    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        projected = self.w_query(x), self.w_key(context), self.w_value(context)
        query, key, value = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in projected)
        return self.w_out(F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2))


@right
class MaskAsABuffer(FourLinears):
    def prepare(self):
        self.register_buffer("allowed", torch.ones(1, 1, 64, 64).bool(), persistent=False)

    def change_scores(self, scores):
        return scores.masked_fill(~self.allowed[:, :, : scores.shape[2], : scores.shape[3]], -1e9)


@right
class MaskMadeOnTheDeviceOfTheScores(FourLinears):
    def change_scores(self, scores):
        return scores.masked_fill(torch.ones(scores.shape[-2:], device=scores.device).tril() == 0, -1e9)


@right
class LearnedScale(FourLinears):
    def prepare(self):
        self.scale = nn.Parameter(torch.tensor(1.0))

    def change_scores(self, scores):
        return scores * self.scale


@right
class NormAndDropout(FourLinears):
    def prepare(self):
        self.norm, self.dropout = nn.LayerNorm(self.d_model), nn.Dropout(0.1)

    def change_merged(self, merged):
        return self.norm(self.dropout(merged))


@right
class FusedProjection(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads = n_heads
        self.w_qkv, self.w_out = nn.Linear(d_model, 3 * d_model, bias=bias), nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, mask=None):
        query, key, value = F.linear(x, self.w_qkv.weight, self.w_qkv.bias).chunk(3, -1)
        if context is not None:
            key, value = self.w_qkv(context).chunk(3, -1)[1:]
        query, key, value = (t.reshape(*t.shape[:2], self.n_heads, -1).transpose(1, 2) for t in (query, key, value))
        return self.w_out(F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).reshape(x.shape))


@right
class ModuleListOfHeads(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        sizes = d_model, d_model // n_heads
        heads = [nn.ModuleList(nn.Linear(*sizes, bias=bias) for _ in range(3)) for _ in range(n_heads)]
        self.heads, self.w_out = nn.ModuleList(heads), nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, mask=None):
        context, outputs = x if context is None else context, []
        for w_query, w_key, w_value in self.heads:
            scores = w_query(x) @ w_key(context).mT / w_query.out_features**0.5
            weights = (scores if mask is None else scores.masked_fill(mask.logical_not(), float("-inf"))).softmax(-1)
            outputs.append(weights @ w_value(context))
        return self.w_out(torch.cat(outputs, -1))


@right
class BareParametersAndEinsum(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.w = nn.ParameterList([nn.Parameter(torch.empty(n_heads, d_model, d_model // n_heads)) for _ in range(4)])
        for p in self.w:
            nn.init.xavier_uniform_(p)

    def forward(self, x, context=None, mask=None):
        sources = (x, x, x) if context is None else (x, context, context)
        query, key, value = (torch.einsum("bnd,hde->bhne", s, w) for s, w in zip(sources, self.w[:3], strict=True))
        scores = torch.einsum("bhne,bhme->bhnm", query, key)
        if mask is not None:
            scores = scores + (~mask).to(scores.dtype) * -1e9
        return torch.einsum("bhnm,bhme,hde->bnd", scores.softmax(-1), value, self.w[3])


@right
class TorchsOwnModule(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, n_heads, bias=bias, batch_first=True)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        if mask is None:
            mask = torch.ones(x.shape[1], context.shape[1], dtype=torch.bool, device=x.device)
        return self.inner(x, context, context, attn_mask=~mask)[0]


@exercise.right_module
def device_chosen_at_the_top_of_the_module():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model, n_heads, bias=False):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(d_model, d_model, bias=bias, device=device), nn.GELU()).to(device)

        def forward(self, x, context=None, mask=None):
            return self.net(x) + torch.zeros(x.shape[-1], device=device)

    return MultiHeadAttention


@exercise.right_module
def device_chosen_by_torch_accelerator():
    """The way of torch's tutorials since 2.6."""
    has_one = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    device = torch.accelerator.current_accelerator().type if has_one else "cuda" if torch.cuda.is_available() else "cpu"

    class MultiHeadAttention(FourLinears):
        def change_scores(self, scores):
            return scores + torch.zeros(scores.shape[-2:], device=device)

    return MultiHeadAttention


# -- wrong ------------------------------------------------------------------------------------------------------------
@wrong
class MaskAsAPlainAttribute(FourLinears):
    def prepare(self):
        self.allowed = torch.ones(64, 64).bool()

    def change_scores(self, scores):
        return scores.masked_fill(~self.allowed[: scores.shape[2], : scores.shape[3]], -1e9)


@wrong
class MaskMadeInForward(FourLinears):
    def change_scores(self, scores):
        return scores.masked_fill(torch.triu(torch.ones(scores.shape[-2:]), 1).bool(), -1e9)


@wrong
class MaskCachedOnTheCPU(FourLinears):
    def prepare(self):
        self.bias = None

    def change_scores(self, scores):
        if self.bias is None:
            self.bias = torch.zeros(8, 8)
        return scores + self.bias[: scores.shape[-2], : scores.shape[-1]]


@wrong
class ScaleOfOneElement(FourLinears):
    def prepare(self):
        self.scale = torch.ones(1)

    def change_scores(self, scores):
        return scores * self.scale


@wrong
class ScaleAsAFloatTensor(FourLinears):
    def change_scores(self, scores):
        return scores / torch.sqrt(torch.FloatTensor([1.0]))


@wrong
class DropoutByHand(FourLinears):
    def change_scores(self, scores):
        return scores * (torch.rand(scores.shape) >= 0)


@wrong
class BufferMovedToTheCPU(FourLinears):
    def prepare(self):
        self.register_buffer("of_head", torch.ones(self.n_heads))

    def change_scores(self, scores):
        return scores * self.of_head.cpu()[:, None, None]


@wrong
class LayersInADict(FourLinears):
    def prepare(self):
        self.layers = {"norm": nn.LayerNorm(self.d_model)}

    def change_merged(self, merged):
        return self.layers["norm"](merged)


@wrong
class BiasesInAList(FourLinears):
    def prepare(self):
        self.biases = [torch.zeros(self.d_model)]

    def change_merged(self, merged):
        return torch.add(merged, self.biases[0])


@wrong
class NormWithAWeightOnTheCPU(FourLinears):
    def prepare(self):
        self.gain = torch.ones(self.d_model)

    def change_merged(self, merged):
        return F.layer_norm(merged, merged.shape[-1:], weight=self.gain)


@wrong
class MatrixOnTheCPU(FourLinears):
    def change_merged(self, merged):
        return torch.ones(merged.shape[1], merged.shape[1]).tril() @ merged


@wrong
class MovedToTheCPUBeforeTheLastLayer(FourLinears):
    def change_merged(self, merged):
        return merged.cpu()
