"""What becomes of the outputs when the tokens change places."""

from __future__ import annotations

import torch
from torch import Tensor

from autograder.properties.calling import Function, ask, kind_of
from autograder.properties.comparison import ATOL, gap, picture
from autograder.properties.evidence import Evidence

# Other places mean another order of sums: right code moves by at most 9.8e-16 in float64 and 1e-6 in float32.
TOLERANCE = {torch.float64: 1e-12, torch.float32: ATOL, torch.bfloat16: 0.1, torch.float16: 0.01}


def shuffled(n: int) -> Tensor:
    """A random order of n places that leaves no place as it was, where there are two or more."""
    order = torch.randperm(n)
    order[order.clone()] = order.roll(1).clone()
    return order


def permutation_equivariance(f: Function, x: Tensor, dim: int = -2, out_dim: int = -2) -> Evidence:
    """Whether shuffling the tokens shuffles the outputs in the same way, up to rounding."""
    return _shuffle(f, x, dim, out_dim, moves=True)


def permutation_invariance(f: Function, x: Tensor, dim: int = -2) -> Evidence:
    """Whether shuffling the tokens leaves the output as it is, up to rounding."""
    return _shuffle(f, x, dim, 0, moves=False)


def _shuffle(f: Function, x: Tensor, dim: int, out_dim: int, moves: bool) -> Evidence:
    order = shuffled(x.shape[dim])
    base, answer = ask(f, [(x,), (x.index_select(dim, order),)])
    for got in (base, answer):
        if not isinstance(got, Tensor) or (moves and got.dim() < max(-out_dim, out_dim + 1)):
            return Evidence(False, f"the answer is {kind_of(got)}, not a tensor with a row for each token")
    if base.shape != answer.shape or (moves and base.shape[out_dim] != len(order)):
        return Evidence(False, f"the answer has shape {tuple(base.shape)}, and shuffled {tuple(answer.shape)}")
    if base.isnan().any():
        return Evidence(False, "the answer contains NaN", picture(base.isnan()), rows="row", columns="column")
    apart = gap(answer, base.index_select(out_dim, order) if moves else base)
    limit = TOLERANCE.get(base.dtype, 0.0) * max(1.0, base.abs().max().item() if base.numel() else 1.0)
    if apart.numel() and apart.max() > limit:
        what = "the outputs are not the same ones shuffled" if moves else "the output changed"
        says = f"the tokens were shuffled, and {what}: they lie up to {apart.max():.2g} apart"
        return Evidence(False, says, picture(apart), rows="token", columns="feature")
    return Evidence(
        True, "shuffling the tokens shuffles the outputs" if moves else "the order of the tokens does not matter"
    )
