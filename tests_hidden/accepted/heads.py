"""Right solutions of the unit "heads" that differ in form: all of them must get full marks.

A cell stands for the reference solution with this cell below it.
"""

# ruff: noqa: F811, F821


# %% accepts: split_heads
# title: reshape and permute
def split_heads(x, n_heads):
    batch, tokens, d_model = x.shape
    if d_model % n_heads != 0:
        raise ValueError("d_model must be a multiple of n_heads")
    return x.reshape(batch, tokens, n_heads, d_model // n_heads).permute(0, 2, 1, 3)


# %% accepts: split_heads
# title: chunks of columns, stacked
def split_heads(x, n_heads):
    if x.size(-1) % n_heads:
        raise ValueError(f"{x.size(-1)} columns in {n_heads} heads")
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


# %% accepts: split_heads
# title: A loop over heads that writes slices
def split_heads(x, n_heads):
    d = head_dim(x.shape[2], n_heads)
    heads = x.new_empty(x.shape[0], n_heads, x.shape[1], d)
    for h in range(n_heads):
        heads[:, h] = x[:, :, h * d : (h + 1) * d]
    return heads


# %% accepts: split_heads
# title: An einsum with a selection of columns
def split_heads(x, n_heads):
    d = head_dim(x.shape[2], n_heads)
    select = torch.eye(x.shape[2], dtype=x.dtype, device=x.device).reshape(x.shape[2], n_heads, d)
    return torch.einsum("bnc,chd->bhnd", x, select)


# %% accepts: merge_heads
# title: transpose, contiguous, view
def merge_heads(x):
    batch, heads, tokens, width = x.shape
    return x.transpose(1, 2).contiguous().view(batch, tokens, heads * width)


# %% accepts: merge_heads
# title: The heads, one after the other, concatenated
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


# %% accepts: merge_heads
# title: A loop over heads that writes slices
def merge_heads(x):
    batch, heads, tokens, d = x.shape
    merged = torch.zeros((batch, tokens, heads * d), dtype=x.dtype, device=x.device)
    for h in range(heads):
        merged[..., h * d : (h + 1) * d] = x[:, h]
    return merged


# %% accepts: head_dim
# title: divmod
def head_dim(d_model, n_heads):
    width, rest = divmod(d_model, n_heads)
    if rest:
        raise ValueError("n_heads must divide d_model")
    return width


# %% accepts: head_dim
# title: Division, checked by multiplication
def head_dim(d_model, n_heads):
    width = int(d_model / n_heads)
    if width * n_heads != d_model:
        raise ValueError("there is no head of such a width")
    return width


# %% accepts: mha_params
# title: The parameters of real layers, counted
def mha_params(d_model, bias=False):
    layers = [nn.Linear(d_model, d_model, bias=bias, device="meta") for _ in range(4)]
    return sum(p.numel() for layer in layers for p in layer.parameters())


# %% accepts: mha_params
# title: Two cases
def mha_params(d_model, bias=False):
    if bias:
        return 4 * d_model * (d_model + 1)
    return 4 * d_model * d_model


# %% accepts: MultiHeadAttention
# title: Fused, with the ready-made attention function
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("n_heads must divide d_model")
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        query, _, _ = self.w_qkv(x).chunk(3, dim=-1)
        _, key, value = self.w_qkv(context).chunk(3, dim=-1)
        query, key, value = (split_heads(t, self.n_heads) for t in (query, key, value))
        return self.w_out(merge_heads(nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)))


# %% accepts: MultiHeadAttention
# title: Everything an einsum, with a large negative number and a repair
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads, self.d_head = n_heads, head_dim(d_model, n_heads)
        self.w_query, self.w_key, self.w_value, self.w_out = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x, context=None, mask=None):
        if context is None:
            context = x
        query = self.w_query(x).unflatten(-1, (self.n_heads, self.d_head)) * self.d_head**-0.5
        key = self.w_key(context).unflatten(-1, (self.n_heads, self.d_head))
        value = self.w_value(context).unflatten(-1, (self.n_heads, self.d_head))
        scores = torch.einsum("bnhd,bmhd->bhnm", query, key)
        if mask is not None:
            scores = torch.where(mask, scores, -1e9)
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights * mask
        return self.w_out(torch.einsum("bhnm,bmhd->bnhd", weights, value).flatten(2))


# %% accepts: MultiHeadAttention
# title: A loop over heads with their slices of the weights, concatenated
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads, self.d = n_heads, head_dim(d_model, n_heads)
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def slice_of(self, layer, x, h):
        rows = slice(h * self.d, (h + 1) * self.d)
        return nn.functional.linear(x, layer.weight[rows], None if layer.bias is None else layer.bias[rows])

    def forward(self, x, context=None, mask=None):
        source = context if context is not None else x
        if mask is not None:
            mask = mask.expand(len(x), self.n_heads, x.shape[1], source.shape[1])
        outputs = []
        for h in range(self.n_heads):
            query, key, value = (
                self.slice_of(self.w_query, x, h),
                self.slice_of(self.w_key, source, h),
                self.slice_of(self.w_value, source, h),
            )
            outputs.append(attention(query, key, value, None if mask is None else mask[:, h])[0])
        return self.w_out(torch.cat(outputs, dim=-1))


# %% accepts: MultiHeadAttention
# title: The heads folded into the batch, for bmm, and the softmax written out
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, head_dim(d_model, n_heads)
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def fold(self, x):
        heads = x.reshape(x.shape[0], x.shape[1], self.n_heads, self.d_head).transpose(1, 2)
        return heads.reshape(x.shape[0] * self.n_heads, x.shape[1], self.d_head)

    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        batch, n, m = x.shape[0], x.shape[1], source.shape[1]
        query, key, value = self.fold(self.w_query(x)), self.fold(self.w_key(source)), self.fold(self.w_value(source))
        scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(self.d_head)
        if mask is not None:
            mask = mask.expand(batch, self.n_heads, n, m).reshape(batch * self.n_heads, n, m)
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = weights / weights.sum(-1, keepdim=True)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0)
        heads = torch.bmm(weights, value).reshape(batch, self.n_heads, n, self.d_head)
        return self.w_out(heads.transpose(1, 2).reshape(batch, n, self.d_model))


# %% accepts: MultiHeadAttention
# title: -inf except in rows with no allowed key; float64 inside; the scale is a buffer; another initialisation
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads = n_heads
        self.register_buffer("scale", torch.tensor(head_dim(d_model, n_heads) ** -0.5))
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)
        for layer in (self.w_query, self.w_key, self.w_value, self.w_out):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query, key, value = (
            split_heads(layer(t), self.n_heads).double()
            for layer, t in ((self.w_query, x), (self.w_key, source), (self.w_value, source))
        )
        scores = query @ key.transpose(-2, -1) * self.scale
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            dead = ~mask.any(dim=-1, keepdim=True)
            weights = scores.masked_fill(~(mask | dead), float("-inf")).softmax(dim=-1) * ~dead
        return self.w_out(merge_heads(weights @ value).to(x.dtype))


# %% accepts: FusedCausalAttention
# title: The ready-made attention function with is_causal
class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError("n_heads must divide d_model")
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        batch, tokens, d_model = x.shape
        qkv = self.w_qkv(x).view(batch, tokens, 3, self.n_heads, d_model // self.n_heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        output = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.w_out(output.transpose(1, 2).reshape(batch, tokens, d_model))


# %% accepts: FusedCausalAttention
# title: -inf above the diagonal, added
class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads, self.d_head = n_heads, head_dim(d_model, n_heads)
        self.w_qkv = nn.Linear(d_model, d_model * 3, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        query, key, value = torch.split(self.w_qkv(x), x.shape[-1], dim=-1)
        query, key, value = (split_heads(t, self.n_heads) for t in (query, key, value))
        future = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        weights = torch.softmax(query @ key.transpose(-1, -2) / self.d_head**0.5 + future, dim=-1)
        return self.w_out(merge_heads(weights @ value))


# %% accepts: FusedCausalAttention
# title: A loop over tokens, each with the tokens so far
class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads, self.d_head = n_heads, head_dim(d_model, n_heads)
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        query, key, value = (split_heads(t, self.n_heads) for t in self.w_qkv(x).tensor_split(3, dim=-1))
        heads = [
            attention(query[:, :, t : t + 1], key[:, :, : t + 1], value[:, :, : t + 1])[0] for t in range(x.shape[1])
        ]
        return self.w_out(merge_heads(torch.cat(heads, dim=2)))


# %% accepts: FusedCausalAttention
# title: Slices of w_qkv instead of a cut of its output, and a mask that is kept and grows
class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        head_dim(d_model, n_heads)
        self.d_model, self.n_heads = d_model, n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)
        self.register_buffer("causal", torch.ones(2, 2, dtype=torch.bool).tril())

    def forward(self, x):
        if x.shape[1] > len(self.causal):
            self.causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        weights = self.w_qkv.weight.split(self.d_model)
        biases = (None,) * 3 if self.w_qkv.bias is None else self.w_qkv.bias.split(self.d_model)
        parts = [nn.functional.linear(x, w, b) for w, b in zip(weights, biases, strict=True)]
        query, key, value = (split_heads(t, self.n_heads) for t in parts)
        output, _ = attention(query, key, value, self.causal[: x.shape[1], : x.shape[1]])
        return self.w_out(merge_heads(output))


# %% accepts: FusedCausalAttention
# title: The mask compares positions, and heads and features meet in an einsum
class FusedCausalAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        head_dim(d_model, n_heads)
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        at = torch.arange(x.shape[1], device=x.device)
        query, key, value = (split_heads(t, self.n_heads) for t in self.w_qkv(x).chunk(3, -1))
        scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(at > at[:, None], -math.inf).softmax(-1)
        return self.w_out(torch.einsum("bhnm,bhmd->bnhd", weights, value).flatten(-2))


# %% accepts: CrossAttention
# title: Fused, with the weights computed beside the ready-made function
class CrossAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("n_heads must divide d_model")
        self.n_heads = n_heads
        self.w_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context, mask=None):
        query = self.w_qkv(x).chunk(3, dim=-1)[0]
        _, key, value = self.w_qkv(context).chunk(3, dim=-1)
        query, key, value = (split_heads(t, self.n_heads) for t in (query, key, value))
        output = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        _, weights = attention(query, key, value, mask)
        return self.w_out(merge_heads(output)), weights


# %% accepts: CrossAttention
# title: It is a MultiHeadAttention that also tells its weights
class CrossAttention(MultiHeadAttention):
    def forward(self, x, context, mask=None):
        query, key = split_heads(self.w_query(x), self.n_heads), split_heads(self.w_key(context), self.n_heads)
        _, weights = attention(query, key, key, mask)
        return super().forward(x, context, mask), weights


# %% accepts: CrossAttention
# title: A loop over heads, the outputs summed through slices of w_out
class CrossAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.n_heads, self.d = n_heads, head_dim(d_model, n_heads)
        self.w_query = nn.Linear(d_model, d_model, bias=bias)
        self.w_key = nn.Linear(d_model, d_model, bias=bias)
        self.w_value = nn.Linear(d_model, d_model, bias=bias)
        self.w_out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, context, mask=None):
        query, key, value = self.w_query(x), self.w_key(context), self.w_value(context)
        if mask is not None:
            mask = mask.expand(len(x), self.n_heads, x.shape[1], context.shape[1])
        output, maps = 0, []
        for h in range(self.n_heads):
            s = slice(h * self.d, (h + 1) * self.d)
            allowed = None if mask is None else mask[:, h]
            part, weights = attention(query[..., s], key[..., s], value[..., s], allowed)
            output = output + part @ self.w_out.weight[:, s].T
            maps.append(weights)
        if self.w_out.bias is not None:
            output = output + self.w_out.bias
        return output, torch.stack(maps, dim=1)


# %% accepts: CrossAttention
# title: einsum, with -inf only where a target has an allowed source token
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        h = self.n_heads
        query, key, value = (
            layer(t).unflatten(-1, (h, t.shape[-1] // h))
            for layer, t in ((self.w_query, x), (self.w_key, context), (self.w_value, context))
        )
        scores = torch.einsum("bnhd,bmhd->bhnm", query, key) * query.shape[-1] ** -0.5
        if mask is not None:
            some = mask.any(-1, keepdim=True)
            scores = scores.masked_fill(~mask & some, -math.inf)
        weights = scores.softmax(-1)
        if mask is not None:
            weights = torch.where(some, weights, torch.zeros_like(weights))
        return self.w_out(torch.einsum("bhnm,bmhd->bnhd", weights, value).flatten(2)), weights


# %% accepts: copy_into_torch
# title: Copied into the parameters, under no_grad
def copy_into_torch(module):
    d_model, bias = module.w_out.in_features, module.w_out.bias is not None
    copy = nn.MultiheadAttention(
        d_model,
        module.n_heads,
        bias=bias,
        batch_first=True,
        device=module.w_out.weight.device,
        dtype=module.w_out.weight.dtype,
    )
    with torch.no_grad():
        copy.in_proj_weight.copy_(torch.cat([module.w_query.weight, module.w_key.weight, module.w_value.weight]))
        copy.out_proj.weight.copy_(module.w_out.weight)
        if bias:
            copy.in_proj_bias.copy_(torch.cat([module.w_query.bias, module.w_key.bias, module.w_value.bias]))
            copy.out_proj.bias.copy_(module.w_out.bias)
    return copy


# %% accepts: copy_into_torch
# title: New parameters, from clones
def copy_into_torch(module):
    layers = [module.w_query, module.w_key, module.w_value]
    copy = nn.MultiheadAttention(
        embed_dim=module.w_out.out_features,
        num_heads=module.n_heads,
        bias=module.w_out.bias is not None,
        batch_first=True,
    )
    copy.in_proj_weight = nn.Parameter(torch.cat([layer.weight.detach() for layer in layers]))
    copy.out_proj.weight = nn.Parameter(module.w_out.weight.detach().clone())
    if module.w_out.bias is not None:
        copy.in_proj_bias = nn.Parameter(torch.cat([layer.bias.detach() for layer in layers]))
        copy.out_proj.bias = nn.Parameter(module.w_out.bias.detach().clone())
    return copy


# %% accepts: copy_into_torch
# title: From a module in the fused layout, slice by slice through .data
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__()
        self.heads = n_heads
        head_dim(d_model, n_heads)
        self.w_qkv, self.w_out = nn.Linear(d_model, 3 * d_model, bias), nn.Linear(d_model, d_model, bias)

    def forward(self, x, context=None, mask=None):
        query = self.w_qkv(x).chunk(3, dim=-1)[0]
        key, value = self.w_qkv(x if context is None else context).chunk(3, dim=-1)[1:]
        heads = (split_heads(t, self.heads) for t in (query, key, value))
        return self.w_out(merge_heads(attention(*heads, mask)[0]))


def copy_into_torch(module):
    bias = module.w_out.bias is not None
    copy = nn.MultiheadAttention(module.w_out.in_features, module.heads, bias=bias, batch_first=True)
    copy = copy.to(device=module.w_out.weight.device, dtype=module.w_out.weight.dtype)
    for mine, theirs in (
        (module.w_qkv.weight, copy.in_proj_weight),
        (module.w_qkv.bias, copy.in_proj_bias),
        (module.w_out.weight, copy.out_proj.weight),
        (module.w_out.bias, copy.out_proj.bias),
    ):
        if mine is not None:
            theirs.data[:] = mine.data
    return copy.eval()


# %% accepts: sum_over_heads
# title: One einsum
def sum_over_heads(weights, x, w_value, w_out):
    h, d_model = weights.shape[0], x.shape[-1]
    w_v, w_o = w_value.reshape(d_model, h, -1), w_out.reshape(h, -1, d_model)
    return torch.einsum("hnm,mc,chd,hdo->no", weights, x, w_v, w_o)


# %% accepts: sum_over_heads
# title: The heads concatenated, as in the module
def sum_over_heads(weights, x, w_value, w_out):
    values = split_heads((x @ w_value)[None], len(weights))[0]
    return merge_heads((weights @ values)[None])[0] @ w_out


# %% accepts: sum_over_heads
# title: A loop with slices, the matrices multiplied first
def sum_over_heads(weights, x, w_value, w_out):
    n_heads, n, _ = weights.shape
    d = w_value.shape[1] // n_heads
    total = x.new_zeros(n, w_out.shape[1])
    for h in range(n_heads):
        s = slice(h * d, (h + 1) * d)
        total = total + weights[h] @ (x @ (w_value[:, s] @ w_out[s, :]))
    return total


# %% accepts: sum_over_heads
# title: All terms at once, summed over the heads
def sum_over_heads(weights, x, w_value, w_out):
    w_v = torch.stack(w_value.tensor_split(len(weights), dim=1))
    w_o = torch.stack(w_out.tensor_split(len(weights), dim=0))
    return (weights @ x.unsqueeze(0) @ w_v @ w_o).sum(dim=0)


# %% accepts: ablate_head
# title: The sum minus the term
def ablate_head(weights, x, w_value, w_out, head):
    d = w_value.shape[1] // len(weights)
    columns, rows = w_value[:, head * d : (head + 1) * d], w_out[head * d : (head + 1) * d]
    return sum_over_heads(weights, x, w_value, w_out) - weights[head] @ x @ columns @ rows


# %% accepts: ablate_head
# title: The rows of w_out that belong to the head are zero
def ablate_head(weights, x, w_value, w_out, head):
    d = len(w_out) // len(weights)
    w_out = w_out.clone()
    w_out[head * d : (head + 1) * d] = 0
    return sum_over_heads(weights, x, w_value, w_out)


# %% accepts: ablate_head
# title: The terms of the other heads, added to zeros
def ablate_head(weights, x, w_value, w_out, head):
    n_heads, n, _ = weights.shape
    d = w_value.shape[1] // n_heads
    total = torch.zeros(n, w_out.shape[1], dtype=x.dtype, device=x.device)
    for h in range(n_heads):
        if h != head:
            total = total + weights[h] @ x @ w_value[:, h * d : (h + 1) * d] @ w_out[h * d : (h + 1) * d]
    return total
