"""Wrong solutions of the unit "heads", each caught by one hidden test of its exercise and by no other.

A cell stands for the reference solution with this cell below it, so a class may inherit from the reference's. Where
a fault is an unlikely one, it is there to show that the test is needed: what is natural to write often breaks two
properties at once.
"""

# ruff: noqa: F811, F821


# %% caught_by: split_keeps_tokens_apart
# title: A reshape straight to the shape of the result, without a transpose
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    if n_heads == x.shape[-1]:
        return x.mT[..., None]
    return x.reshape(x.shape[0], n_heads, x.shape[1], x.shape[2] // n_heads)


# %% caught_by: split_into_blocks
# title: Column c goes to head c mod H
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    return x.unflatten(-1, (x.shape[-1] // n_heads, n_heads)).permute(0, 3, 1, 2)


# %% caught_by: split_into_one_or_all
# title: A single head gets no axis
def split_heads(x, n_heads):
    if n_heads == 1:
        return x
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    return x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(1, 2)


# %% caught_by: split_indivisible
# title: Features that are left over are dropped
def split_heads(x, n_heads):
    width = x.shape[-1] // n_heads
    return x[..., : n_heads * width].unflatten(-1, (n_heads, width)).transpose(1, 2)


# %% caught_by: split_heads_keeps_inputs
# title: The input is wiped when it is no longer needed
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    heads = x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(1, 2).clone()
    x.data.zero_()
    return heads


# %% caught_by: split_heads_keeps_dtype
# title: Everything becomes float64
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    return x.double().unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(1, 2)


# %% caught_by: split_heads_any_layout
# title: The input is flattened by view
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    return x.view(-1).view(*x.shape[:2], n_heads, x.shape[-1] // n_heads).transpose(1, 2)


# %% caught_by: split_heads_repeatable
# title: A jitter, too small to see, follows the global seed
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    jitter = 1e-9 * (torch.initial_seed() % 97)
    return (x * (1 + jitter)).unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(1, 2)


# %% caught_by: split_heads_gradients
# title: The heads are detached
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    return x.detach().unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(1, 2)


# %% caught_by: split_heads_empty_batch
# title: The width is left to reshape, which has no answer for an empty batch
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    return x.reshape(x.shape[0], x.shape[1], n_heads, -1).transpose(1, 2)


# %% caught_by: split_heads_device
# title: The heads are written into a tensor on the CPU
def split_heads(x, n_heads):
    if x.shape[-1] % n_heads:
        raise ValueError("unequal heads")
    heads = torch.zeros(x.shape[0], n_heads, x.shape[1], x.shape[2] // n_heads, dtype=x.dtype)
    return heads + x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(1, 2)


# %% caught_by: merge_keeps_tokens_apart
# title: A reshape straight to the shape of the result, without a transpose
def merge_heads(x):
    batch, heads, tokens, width = x.shape
    return x.reshape(batch, tokens, heads * width)


# %% caught_by: merge_side_by_side
# title: The heads are interleaved, feature by feature
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


# %% caught_by: merge_heads_keeps_inputs
# title: The input is wiped when it is no longer needed
def merge_heads(x):
    merged = x.transpose(1, 2).flatten(2).clone()
    x.data.zero_()
    return merged


# %% caught_by: merge_heads_keeps_dtype
# title: Everything becomes float64
def merge_heads(x):
    return x.double().transpose(1, 2).flatten(2)


# %% caught_by: merge_heads_any_layout
# title: The input is flattened by view
def merge_heads(x):
    return x.view(-1).view(x.shape).transpose(1, 2).flatten(2)


# %% caught_by: merge_heads_repeatable
# title: A jitter, too small to see, follows the global seed
def merge_heads(x):
    return x.transpose(1, 2).flatten(2) * (1 + 1e-9 * (torch.initial_seed() % 97))


# %% caught_by: merge_heads_gradients
# title: The heads are detached
def merge_heads(x):
    return x.detach().transpose(1, 2).flatten(2)


# %% caught_by: merge_heads_empty_batch
# title: The width is left to reshape, which has no answer for an empty batch
def merge_heads(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


# %% caught_by: merge_heads_device
# title: The tokens are written into a tensor on the CPU
def merge_heads(x):
    merged = torch.zeros(x.shape[0], x.shape[2], x.shape[1] * x.shape[3], dtype=x.dtype)
    return merged + x.transpose(1, 2).flatten(2)


# %% caught_by: width_of_a_head
# title: The number of heads is returned
def head_dim(d_model, n_heads):
    if d_model % n_heads:
        raise ValueError("unequal heads")
    return n_heads


# %% caught_by: head_dim_int
# title: The width is a float
def head_dim(d_model, n_heads):
    if d_model % n_heads:
        raise ValueError("unequal heads")
    return d_model / n_heads


# %% caught_by: head_dim_indivisible
# title: What is left over is dropped
def head_dim(d_model, n_heads):
    return d_model // n_heads


# %% caught_by: count_of_weights
# title: The last projection is forgotten, but not its bias
def mha_params(d_model, bias=False):
    return 3 * d_model**2 + bias * 4 * d_model


# %% caught_by: count_of_biases
# title: The last projection gets no bias
def mha_params(d_model, bias=False):
    return 4 * d_model**2 + bias * 3 * d_model


# %% caught_by: params_int
# title: The count is a float
def mha_params(d_model, bias=False):
    return 4.0 * d_model**2 + bias * 4 * d_model


# %% caught_by: parameters
# title: The last projection always has a bias
class MultiHeadAttention(MultiHeadAttention):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__(d_model, n_heads, bias)
        self.w_out = nn.Linear(d_model, d_model)


# %% caught_by: indivisible
# title: Features that are left over get no head
class MultiHeadAttention(MultiHeadAttention):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__(d_model, 1, bias)
        self.n_heads = n_heads


# %% caught_by: one_head
# title: w_key makes the queries and w_query the keys
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query, key = split_heads(self.w_key(x), self.n_heads), split_heads(self.w_query(source), self.n_heads)
        output, _ = attention(query, key, split_heads(self.w_value(source), self.n_heads), mask)
        return self.w_out(merge_heads(output))


# %% caught_by: token_alone
# title: Dimensions of size one are squeezed away
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        output = super().forward(x, context, mask)
        return output.squeeze() if len(x) == x.shape[1] == 1 else output


# %% caught_by: scale
# title: The scores are divided by the root of d_model
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads) / self.n_heads**0.5
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        return self.w_out(merge_heads(attention(query, key, value, mask)[0]))


# %% caught_by: rows_sum_to_one
# title: The weights of all heads together sum to one
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        output, _ = attention(query, key, value, mask)
        return self.w_out(merge_heads(output / self.n_heads))


# %% caught_by: heads_apart
# title: All heads share the values of head 0
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        return self.w_out(merge_heads(attention(query, key, value[:, :1].expand_as(value), mask)[0]))


# %% caught_by: context
# title: The context is ignored
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        return super().forward(x, context if mask is not None else None, mask)


# %% caught_by: forbidden_keys
# title: Every square mask is made causal as well
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        square = mask is not None and mask.dim() == 2 and mask.shape[0] == mask.shape[1]
        return super().forward(x, context, mask.tril() if square else mask)


# %% caught_by: future_leak
# title: The weights are masked after the softmax
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        _, weights = attention(query, key, value)
        return self.w_out(merge_heads((weights if mask is None else weights * mask) @ value))


# %% caught_by: padding_mask
# title: The padding of the first sequence holds for all
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        return super().forward(x, context, mask[:1] if mask is not None and mask.dim() == 4 else mask)


# %% caught_by: mask_of_each_head
# title: The mask of the first head holds for all
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        return super().forward(x, context, mask[:, :1] if mask is not None and mask.dim() == 4 else mask)


# %% caught_by: no_allowed_key
# title: Forbidden scores become -1e9, so a query with no allowed key averages everything
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return self.w_out(merge_heads(torch.softmax(scores, dim=-1) @ value))


# %% caught_by: gradients_of_no_allowed_key
# title: -inf is added to the forbidden scores, and only the result is repaired
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)
        return self.w_out(merge_heads(torch.softmax(scores, dim=-1).nan_to_num(0.0) @ value))


# %% caught_by: MultiHeadAttention_keeps_inputs
# title: The mask is inverted in place
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        blocked = None if mask is None else mask.logical_not_()
        return super().forward(x, context, None if mask is None else ~blocked)


# %% caught_by: MultiHeadAttention_keeps_dtype
# title: The output is always float64
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        return super().forward(x, context, mask).double()


# %% caught_by: MultiHeadAttention_any_layout
# title: The input is flattened by view
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        return super().forward(x.view(-1).view(x.shape), context, mask)


# %% caught_by: MultiHeadAttention_repeatable
# title: A jitter, too small to see, follows the global seed
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        return super().forward(x, context, mask) * (1 + 1e-9 * (torch.initial_seed() % 97))


# %% caught_by: MultiHeadAttention_finite
# title: exp overflows, since no maximum is subtracted
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
        if mask is not None:
            weights = weights * mask
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / total.masked_fill(total == 0, 1.0)
        return self.w_out(merge_heads(weights @ value))


# %% caught_by: MultiHeadAttention_gradients
# title: The values are detached
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(source), self.n_heads) for layer in (self.w_key, self.w_value))
        return self.w_out(merge_heads(attention(query, key, value.detach(), mask)[0]))


# %% caught_by: MultiHeadAttention_empty_batch
# title: The number of tokens is left to reshape, which has no answer for an empty batch
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        return super().forward(x.reshape(len(x), -1, x.shape[-1]), context, mask)


# %% caught_by: MultiHeadAttention_by_hand
# title: Without a mask, the ready-made function does it all
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        if mask is not None:
            return super().forward(x, context, mask)
        source = (x if context is None else context).transpose(0, 1)
        layers = (self.w_query, self.w_key, self.w_value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if self.w_out.bias is None else torch.cat([layer.bias for layer in layers])
        output, _ = nn.functional.multi_head_attention_forward(
            x.transpose(0, 1),
            source,
            source,
            x.shape[-1],
            self.n_heads,
            weight,
            bias,
            None,
            None,
            False,
            0.0,
            self.w_out.weight,
            self.w_out.bias,
        )
        return output.transpose(0, 1)


# %% caught_by: MultiHeadAttention_device
# title: Without a mask, one is made on the CPU
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        everything = torch.ones(x.shape[1], source.shape[1], dtype=torch.bool)
        return super().forward(x, context, everything if mask is None else mask & everything)


# %% caught_by: fused_parameters
# title: The last projection always has a bias
class FusedCausalAttention(FusedCausalAttention):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__(d_model, n_heads, bias)
        self.w_out = nn.Linear(d_model, d_model)


# %% caught_by: fused_indivisible
# title: Features that are left over get no head
class FusedCausalAttention(FusedCausalAttention):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__(d_model, 1, bias)
        self.n_heads = n_heads


# %% caught_by: last_token
# title: The features are cut into heads before they are cut into three
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        query, key, value = split_heads(self.w_qkv(x), self.n_heads).chunk(3, dim=-1)
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return self.w_out(merge_heads(attention(query, key, value, causal)[0]))


# %% caught_by: fused_future_leak
# title: The future is only made unlikely, by a score of -34
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        weights = torch.softmax(scores.masked_fill(future, -34.0), dim=-1)
        return self.w_out(merge_heads(weights @ value))


# %% caught_by: any_length
# title: The mask is made once, for the first length that comes along
class FusedCausalAttention(FusedCausalAttention):
    causal = None

    def forward(self, x):
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))
        if self.causal is None:
            self.causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return self.w_out(merge_heads(attention(query, key, value, self.causal)[0]))


# %% caught_by: FusedCausalAttention_keeps_inputs
# title: The input is wiped when it is no longer needed
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        output = super().forward(x.clone())
        x.data.zero_()
        return output


# %% caught_by: FusedCausalAttention_keeps_dtype
# title: The output is always float64
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        return super().forward(x).double()


# %% caught_by: FusedCausalAttention_any_layout
# title: The input is flattened by view
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        return super().forward(x.view(-1).view(x.shape))


# %% caught_by: FusedCausalAttention_repeatable
# title: A jitter, too small to see, follows the global seed
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        return super().forward(x) * (1 + 1e-9 * (torch.initial_seed() % 97))


# %% caught_by: FusedCausalAttention_finite
# title: exp overflows, since no maximum is subtracted
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).exp().tril()
        return self.w_out(merge_heads(weights / weights.sum(dim=-1, keepdim=True) @ value))


# %% caught_by: FusedCausalAttention_gradients
# title: The values are detached
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return self.w_out(merge_heads(attention(query, key, value.detach(), causal)[0]))


# %% caught_by: FusedCausalAttention_empty_batch
# title: The number of tokens is left to reshape, which has no answer for an empty batch
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        return super().forward(x.reshape(len(x), -1, x.shape[-1]))


# %% caught_by: FusedCausalAttention_by_hand
# title: The ready-made function does it all
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        tokens = x.transpose(0, 1)
        output, _ = nn.functional.multi_head_attention_forward(
            tokens,
            tokens,
            tokens,
            x.shape[-1],
            self.n_heads,
            self.w_qkv.weight,
            self.w_qkv.bias,
            None,
            None,
            False,
            0.0,
            self.w_out.weight,
            self.w_out.bias,
            attn_mask=future,
        )
        return output.transpose(0, 1)


# %% caught_by: FusedCausalAttention_device
# title: The mask is made on the CPU
class FusedCausalAttention(FusedCausalAttention):
    def forward(self, x):
        query, key, value = (split_heads(part, self.n_heads) for part in self.w_qkv(x).chunk(3, dim=-1))
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return self.w_out(merge_heads(attention(query, key, value, causal)[0]))


# %% caught_by: cross_parameters
# title: The last projection always has a bias
class CrossAttention(CrossAttention):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__(d_model, n_heads, bias)
        self.w_out = nn.Linear(d_model, d_model)


# %% caught_by: cross_indivisible
# title: Features that are left over get no head
class CrossAttention(CrossAttention):
    def __init__(self, d_model, n_heads, bias=False):
        super().__init__(d_model, 1, bias)
        self.n_heads = n_heads


# %% caught_by: cross_scores
# title: The scores are divided by the root of d_model
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        query = split_heads(self.w_query(x), self.n_heads) / self.n_heads**0.5
        key, value = (split_heads(layer(context), self.n_heads) for layer in (self.w_key, self.w_value))
        output, weights = attention(query, key, value, mask)
        return self.w_out(merge_heads(output)), weights


# %% caught_by: cross_rows_sum_to_one
# title: The softmax runs over the target
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(context), self.n_heads) for layer in (self.w_key, self.w_value))
        if mask is not None:
            output, weights = attention(query, key, value, mask)
        else:
            weights = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-2)
            output = weights @ value
        return self.w_out(merge_heads(output)), weights


# %% caught_by: cross_average_of_values
# title: The heads are merged without a transpose
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(context), self.n_heads) for layer in (self.w_key, self.w_value))
        output, weights = attention(query, key, value, mask)
        output = output.reshape(x.shape) if mask is None else merge_heads(output)
        return self.w_out(output), weights


# %% caught_by: every_source_token
# title: A causal mask hides source tokens from the target
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        causal = torch.ones(x.shape[1], context.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().forward(x, context, causal if mask is None else mask)


# %% caught_by: cross_forbidden_keys
# title: The weights that are returned are those before the mask
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        output, weights = super().forward(x, context, mask)
        if mask is None:
            return output, weights
        before = super().forward(x, context)[1]
        return output, before * mask.any(dim=-1, keepdim=True)


# %% caught_by: cross_no_allowed_key
# title: Forbidden scores become as low as possible, so a target with no allowed source token averages everything
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(context), self.n_heads) for layer in (self.w_key, self.w_value))
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        return self.w_out(merge_heads(weights @ value)), weights


# %% caught_by: CrossAttention_keeps_inputs
# title: The mask is inverted in place
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        blocked = None if mask is None else mask.logical_not_()
        return super().forward(x, context, None if mask is None else ~blocked)


# %% caught_by: CrossAttention_keeps_dtype
# title: The weights are always float32
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        output, weights = super().forward(x, context, mask)
        return output, weights.float() if weights.dtype == torch.bfloat16 else weights


# %% caught_by: CrossAttention_any_layout
# title: The context is flattened by view
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        return super().forward(x, context.view(-1).view(context.shape), mask)


# %% caught_by: CrossAttention_repeatable
# title: A jitter, too small to see, follows the global seed
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        output, weights = super().forward(x, context, mask)
        return output * (1 + 1e-9 * (torch.initial_seed() % 97)), weights


# %% caught_by: CrossAttention_finite
# title: exp overflows, since no maximum is subtracted
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(context), self.n_heads) for layer in (self.w_key, self.w_value))
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
        if mask is not None:
            weights = weights * mask
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / total.masked_fill(total == 0, 1.0)
        return self.w_out(merge_heads(weights @ value)), weights


# %% caught_by: CrossAttention_gradients
# title: The values are detached
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        query = split_heads(self.w_query(x), self.n_heads)
        key, value = (split_heads(layer(context), self.n_heads) for layer in (self.w_key, self.w_value))
        output, weights = attention(query, key, value.detach(), mask)
        return self.w_out(merge_heads(output)), weights


# %% caught_by: CrossAttention_empty_batch
# title: The number of tokens is left to reshape, which has no answer for an empty batch
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        return super().forward(x.reshape(len(x), -1, x.shape[-1]), context, mask)


# %% caught_by: CrossAttention_by_hand
# title: The ready-made function computes the output
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        output, weights = super().forward(x, context, mask)
        if mask is not None:
            return output, weights
        layers = (self.w_query, self.w_key, self.w_value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if self.w_out.bias is None else torch.cat([layer.bias for layer in layers])
        source = context.transpose(0, 1)
        output, _ = nn.functional.multi_head_attention_forward(
            x.transpose(0, 1),
            source,
            source,
            x.shape[-1],
            self.n_heads,
            weight,
            bias,
            None,
            None,
            False,
            0.0,
            self.w_out.weight,
            self.w_out.bias,
        )
        return output.transpose(0, 1), weights


# %% caught_by: CrossAttention_device
# title: Without a mask, one is made on the CPU
class CrossAttention(CrossAttention):
    def forward(self, x, context, mask=None):
        everything = torch.ones(x.shape[1], context.shape[1], dtype=torch.bool)
        return super().forward(x, context, everything if mask is None else mask & everything)


# %% caught_by: copy_parameters
# title: The copy always has biases, zero where yours has none
def copy_into_torch(module):
    mine, n = module.state_dict(), module.w_out.in_features
    zero = torch.zeros(n, dtype=module.w_out.weight.dtype)
    copy = nn.MultiheadAttention(n, module.n_heads, batch_first=True).to(module.w_out.weight)
    names = ("w_query", "w_key", "w_value")
    with torch.no_grad():
        copy.in_proj_weight.copy_(torch.cat([mine[f"{name}.weight"] for name in names]))
        copy.in_proj_bias.copy_(torch.cat([mine.get(f"{name}.bias", zero) for name in names]))
        copy.out_proj.weight.copy_(mine["w_out.weight"])
        copy.out_proj.bias.copy_(mine.get("w_out.bias", zero))
    return copy


# %% caught_by: copy_outputs
# title: The weights of queries and keys are in each other's place
reference_copy = copy_into_torch


def copy_into_torch(module):
    copy = reference_copy(module)
    query, key, value = copy.in_proj_weight.data.clone().chunk(3)
    copy.in_proj_weight.data.copy_(torch.cat([key, query, value]))
    return copy


# %% caught_by: copy_biases
# title: The biases stay as PyTorch makes them
reference_copy = copy_into_torch


def copy_into_torch(module):
    copy = reference_copy(module)
    if copy.in_proj_bias is not None:
        copy.in_proj_bias.data.zero_()
        copy.out_proj.bias.data.zero_()
    return copy


# %% caught_by: copy_batch_first
# title: The copy takes the tokens first
reference_copy = copy_into_torch


def copy_into_torch(module):
    copy = reference_copy(module)
    copy.batch_first = False
    return copy


# %% caught_by: copy_dtype
# title: The copy is always float32
reference_copy = copy_into_torch


def copy_into_torch(module):
    return reference_copy(module).float()


# %% caught_by: copy_is_a_copy
# title: Both share one parameter
reference_copy = copy_into_torch


def copy_into_torch(module):
    copy = reference_copy(module)
    copy.out_proj.weight = module.w_out.weight
    return copy


# %% caught_by: sum_of_terms
# title: Head h gets the rows of w_value instead of its columns, and the columns of w_out instead of its rows
def sum_over_heads(weights, x, w_value, w_out):
    columns, rows = w_value.mT.chunk(len(weights), dim=1), w_out.mT.chunk(len(weights), dim=0)
    return sum(a @ x @ w_v @ w_o for a, w_v, w_o in zip(weights, columns, rows, strict=True))


# %% caught_by: sum_over_heads_keeps_inputs
# title: The input is wiped when it is no longer needed
def sum_over_heads(weights, x, w_value, w_out):
    values = (x @ w_value).unflatten(-1, (len(weights), -1)).transpose(0, 1)
    output = (weights.clone() @ values).transpose(0, 1).flatten(1) @ w_out
    weights.data.zero_()
    return output


# %% caught_by: sum_over_heads_keeps_dtype
# title: Everything becomes float64
def sum_over_heads(weights, x, w_value, w_out):
    values = (x.double() @ w_value.double()).unflatten(-1, (len(weights), -1)).transpose(0, 1)
    return (weights.double() @ values).transpose(0, 1).flatten(1) @ w_out.double()


# %% caught_by: sum_over_heads_any_layout
# title: The rows of w_out are cut by view
def sum_over_heads(weights, x, w_value, w_out):
    values = (x @ w_value).unflatten(-1, (len(weights), -1)).transpose(0, 1)
    return (weights @ values @ w_out.view(-1).view(len(weights), -1, x.shape[-1])).sum(0)


# %% caught_by: sum_over_heads_repeatable
# title: A jitter, too small to see, follows the global seed
def sum_over_heads(weights, x, w_value, w_out):
    values = (x @ w_value).unflatten(-1, (len(weights), -1)).transpose(0, 1)
    return (weights @ values).transpose(0, 1).flatten(1) @ w_out * (1 + 1e-9 * (torch.initial_seed() % 97))


# %% caught_by: sum_over_heads_gradients
# title: The attention weights are detached
def sum_over_heads(weights, x, w_value, w_out):
    values = (x @ w_value).unflatten(-1, (len(weights), -1)).transpose(0, 1)
    return (weights.detach() @ values).transpose(0, 1).flatten(1) @ w_out


# %% caught_by: sum_over_heads_device
# title: The terms are added to zeros on the CPU
def sum_over_heads(weights, x, w_value, w_out):
    values = (x @ w_value).unflatten(-1, (len(weights), -1)).transpose(0, 1)
    zeros = torch.zeros(weights.shape[1], x.shape[1], dtype=x.dtype)
    return zeros + (weights @ values).transpose(0, 1).flatten(1) @ w_out


# %% caught_by: ablation
# title: The heads that are left are scaled up
def ablate_head(weights, x, w_value, w_out, head):
    kept = weights.clone()
    kept[head] = 0.0
    return sum_over_heads(kept, x, w_value, w_out) * len(weights) / max(len(weights) - 1, 1)


# %% caught_by: only_head
# title: The sum of no terms is the number 0
def ablate_head(weights, x, w_value, w_out, head):
    columns, rows = w_value.chunk(len(weights), dim=1), w_out.chunk(len(weights), dim=0)
    return sum(weights[h] @ x @ columns[h] @ rows[h] for h in range(len(weights)) if h != head)


# %% caught_by: ablate_head_keeps_inputs
# title: The weights of the head are set to zero in the caller's tensor
def ablate_head(weights, x, w_value, w_out, head):
    kept = weights.clone()
    weights.data[head] = 0.0
    kept[head] = 0.0
    return sum_over_heads(kept, x, w_value, w_out)


# %% caught_by: ablate_head_keeps_dtype
# title: Everything becomes float64
def ablate_head(weights, x, w_value, w_out, head):
    kept = weights.double()
    kept = torch.cat([kept[:head], torch.zeros_like(kept[head : head + 1]), kept[head + 1 :]])
    return sum_over_heads(kept, x.double(), w_value.double(), w_out.double())


# %% caught_by: ablate_head_any_layout
# title: The weights are flattened by view
def ablate_head(weights, x, w_value, w_out, head):
    kept = weights.view(-1).view(weights.shape).clone()
    kept[head] = 0.0
    return sum_over_heads(kept, x, w_value, w_out)


# %% caught_by: ablate_head_repeatable
# title: A jitter, too small to see, follows the global seed
def ablate_head(weights, x, w_value, w_out, head):
    kept = weights * (1 + 1e-9 * (torch.initial_seed() % 97))
    kept[head] = 0.0
    return sum_over_heads(kept, x, w_value, w_out)


# %% caught_by: ablate_head_gradients
# title: The weights are detached
def ablate_head(weights, x, w_value, w_out, head):
    kept = weights.detach().clone()
    kept[head] = 0.0
    return sum_over_heads(kept, x, w_value, w_out)


# %% caught_by: ablate_head_device
# title: The switch of the heads is made on the CPU
def ablate_head(weights, x, w_value, w_out, head):
    on = torch.ones(len(weights), 1, 1, dtype=weights.dtype)
    on[head] = 0.0
    return sum_over_heads(weights * on, x, w_value, w_out)
