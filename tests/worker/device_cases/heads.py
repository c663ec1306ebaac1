"""split_heads(x, n_heads): (B, N, D) -> (B, H, N, D / H), and merge_heads, its inverse."""

import torch

from tests.worker.device_cases.case import Exercise


def drive_split(split_heads, device):
    return split_heads(torch.randn(2, 3, 8, device=device), 2)


def drive_merge(merge_heads, device):
    return merge_heads(torch.randn(2, 2, 3, 4, device=device))


split, merge = Exercise("split_heads", drive_split), Exercise("merge_heads", drive_merge)


# -- right ------------------------------------------------------------------------------------------------------------
@split.right
def view_and_transpose(x, n_heads):
    return x.view(*x.shape[:2], n_heads, -1).transpose(1, 2)


@split.right
def unflatten_and_permute(x, n_heads):
    return x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).permute(0, 2, 1, 3)


@split.right
def chunks_stacked(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


@split.right
def channels_selected_with_indices_on_the_device(x, n_heads):
    channels = torch.arange(x.shape[-1], device=x.device).view(n_heads, -1)
    return torch.stack([x.index_select(-1, of_head) for of_head in channels], 1)


@split.right
def channels_indexed_with_a_list(x, n_heads):
    d_head = x.shape[-1] // n_heads
    return torch.stack([x[..., list(range(h * d_head, (h + 1) * d_head))] for h in range(n_heads)], 1)


@merge.right
def transpose_contiguous_view(x):
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)


@merge.right
def permute_and_flatten(x):
    return x.permute(0, 2, 1, 3).flatten(2)


@merge.right
def heads_concatenated(x):
    return torch.cat(list(x.unbind(1)), dim=-1)


@merge.right
def heads_written_into_new_empty(x):
    n_heads, d_head = x.shape[1], x.shape[3]
    out = x.new_empty(x.shape[0], x.shape[2], n_heads * d_head)
    for h in range(n_heads):
        out[:, :, h * d_head : (h + 1) * d_head] = x[:, h]
    return out


# -- wrong ------------------------------------------------------------------------------------------------------------
@split.wrong
def channels_selected_with_indices_on_the_cpu(x, n_heads):
    channels = torch.arange(x.shape[-1]).view(n_heads, -1)
    return torch.stack([torch.index_select(x, -1, of_head) for of_head in channels], 1)


@split.wrong
def channels_gathered_with_indices_on_the_cpu(x, n_heads):
    channels = torch.arange(x.shape[-1]).view(n_heads, -1)
    return torch.stack([x.gather(2, of_head.expand(*x.shape[:2], -1)) for of_head in channels], 1)


@split.wrong
def permutation_matrix_on_the_cpu(x, n_heads):
    d_model = x.shape[-1]
    return torch.einsum("bnd,dhe->bhne", x, torch.eye(d_model).view(d_model, n_heads, -1))


@merge.wrong
def heads_written_into_zeros_on_the_cpu(x):
    n_heads, d_head = x.shape[1], x.shape[3]
    out = torch.zeros(x.shape[0], x.shape[2], n_heads * d_head)
    for h in range(n_heads):
        out[..., h * d_head : (h + 1) * d_head] = x[:, h]
    return out
