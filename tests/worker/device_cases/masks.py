"""causal_mask(n, device=None) -> (n, n) and padding_mask(lengths, n) -> (B, 1, 1, n): True may be looked at."""

import numpy as np
import torch
from torch import nn

from tests.worker.device_cases.case import Exercise


def drive_causal(causal_mask, device):
    causal_mask(4)  # on the default device
    return causal_mask(4, device=device)


def drive_padding(padding_mask, device):
    return padding_mask(torch.tensor([1, 3, 4], device=device), 4)


causal, padding = Exercise("causal_mask", drive_causal), Exercise("padding_mask", drive_padding)


# -- the causal mask, right -------------------------------------------------------------------------------------------
@causal.right
def ones_on_the_device(n, device=None):
    return torch.tril(torch.ones(n, n, dtype=torch.bool, device=device))


@causal.right
def ones_moved_to_the_device(n, device=None):
    return torch.ones(n, n).tril().bool().to(device)


@causal.right
def positions_compared(n, device=None):
    i = torch.arange(n, device=device)
    return i[:, None] >= i[None, :]


@causal.right
def upper_triangle_is_zero(n, device=None):
    return torch.triu(torch.ones((n, n), device=device), diagonal=1) == 0


@causal.right
def full_then_lower_triangle_in_place(n, device=None):
    return torch.full((n, n), True, device=device).tril_()


@causal.right
def numpy_then_moved(n, device=None):
    return torch.from_numpy(np.tril(np.ones((n, n), dtype=bool))).to(device)


@causal.right
def list_of_lists(n, device=None):
    return torch.tensor([[j <= i for j in range(n)] for i in range(n)], device=device)


@causal.right
def with_the_device_as_default(n, device=None):
    with torch.device(device or "cpu"):
        return torch.arange(n).unsqueeze(0) <= torch.arange(n).unsqueeze(1)


@causal.right
def lists_with_the_device_as_default(n, device=None):
    with torch.device(device or "cpu"):
        return torch.tensor([[j <= i for j in range(n)] for i in range(n)])


@causal.right
def lower_indices_on_the_cpu(n, device=None):
    mask = torch.zeros(n, n, dtype=torch.bool, device=device)
    i, j = torch.tril_indices(n, n)
    mask[i, j] = True
    return mask


@causal.right
def the_mask_of_nn_transformer(n, device=None):
    return nn.Transformer.generate_square_subsequent_mask(n, device=device or torch.device("cpu")) == 0


# -- the causal mask, wrong -------------------------------------------------------------------------------------------
@causal.wrong
def device_ignored(n, device=None):
    return torch.tril(torch.ones(n, n)).bool()


@causal.wrong
def device_written_in(n, device=None):
    return torch.ones(n, n, device="cpu").tril() > 0


@causal.wrong
def one_of_two_ranges_on_the_device(n, device=None):
    return torch.arange(n, device=device)[:, None] >= torch.arange(n)[None]


@causal.wrong
def moved_but_not_assigned(n, device=None):
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    mask.to(device)
    return mask


@causal.wrong
def numpy_never_moved(n, device=None):
    return torch.from_numpy(np.tril(np.ones((n, n))) == 1)


@causal.wrong
def bool_tensor_of_a_list(n, device=None):
    return torch.BoolTensor([[j <= i for j in range(n)] for i in range(n)])


@causal.wrong
def tensor_on_the_cpu_with_indices_on_the_device(n, device=None):
    mask = torch.zeros(n, n, dtype=torch.bool)
    i = torch.tril_indices(n, n, device=device)
    mask[i[0], i[1]] = True
    return mask.to(device)


# -- the padding mask, right ------------------------------------------------------------------------------------------
@padding.right
def range_on_the_device_of_the_lengths(lengths, n):
    return (torch.arange(n, device=lengths.device) < lengths[:, None])[:, None, None]


@padding.right
def range_moved_to_the_lengths(lengths, n):
    return (torch.arange(n).to(lengths) < lengths.unsqueeze(1)).view(-1, 1, 1, n)


@padding.right
def loop_over_numbers(lengths, n):
    mask = torch.zeros(len(lengths), 1, 1, n, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, ..., :length] = True
    return mask


@padding.right
def loop_over_tensors_that_end_slices(lengths, n):
    mask = lengths.new_zeros((lengths.shape[0], n)).bool()
    for b, length in enumerate(lengths):
        mask[b, :length] = 1
    return mask[:, None, None, :]


@padding.right
def rows_by_new_tensor(lengths, n):
    rows = [lengths.new_tensor([i < int(length) for i in range(n)], dtype=torch.bool) for length in lengths]
    return torch.stack(rows)[:, None, None]


# -- the padding mask, wrong ------------------------------------------------------------------------------------------
@padding.wrong
def range_on_the_cpu(lengths, n):
    return (torch.arange(n)[None, :] < lengths[:, None])[:, None, None, :]


@padding.wrong
def zeros_on_the_cpu_filled_in_a_loop(lengths, n):
    mask = torch.zeros(len(lengths), 1, 1, n, dtype=torch.bool)
    for b, length in enumerate(lengths):
        mask[b, 0, 0, :length] = True
    return mask


@padding.wrong
def tensor_of_a_list(lengths, n):
    return torch.tensor([[i < length for i in range(n)] for length in lengths.tolist()])[:, None, None]


@padding.wrong
def range_in_numpy(lengths, n):
    return torch.from_numpy(np.arange(n)[None] < lengths.numpy()[:, None])[:, None, None]
