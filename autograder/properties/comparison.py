"""One answer: does it agree, is it finite, are its rows weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from autograder.properties.calling import kind_of, tensors
from autograder.properties.evidence import MAX_CELLS, Evidence

# Right spellings of attention in float32 lie at most 1.0e-6 from float64 (python -m bench.tolerances); 20 times that.
ATOL = 2e-5
# The same in float64: at most 1.7e-15 between spellings; 600 times that.
SPELLING = 1e-12


def picture(t: Tensor) -> tuple[tuple[float, ...], ...]:
    """A matrix of sizes: leading dimensions give way to their largest entry, and at most 12 by 12 are shown."""
    t = t.detach().double().abs()
    t = t.reshape(1, -1) if t.dim() < 2 else t
    t = t.flatten(0, -3).amax(0) if t.dim() > 2 and t.numel() else t.reshape(-1, t.shape[-1])
    t = t[:MAX_CELLS, :MAX_CELLS].nan_to_num(1.0, 1.0, 1.0)
    return tuple(tuple(float(f"{v:.3g}") for v in row) for row in t.tolist())


def gap(got: Tensor, want: Tensor) -> Tensor:
    """Entry by entry, how far two tensors of one shape lie apart; inf where one is NaN or not finite alone."""
    got, want = got.detach().double(), want.detach().double()
    return torch.where(got == want, 0.0, (got - want).abs()).nan_to_num(math.inf, math.inf)


def agrees(got: Any, want: Tensor | float, atol: float = ATOL) -> Evidence:
    """Whether an answer is a tensor (or number) of this shape whose entries all lie within `atol` of `want`'s.

    NaN agrees with nothing. The dtype is not compared, but bools and numbers are told apart. What is said never
    contains an entry of `want`.
    """
    want = torch.as_tensor(want)
    if isinstance(got, (bool, int, float)) and not want.dim():
        got = torch.tensor(got, dtype=torch.bool if isinstance(got, bool) else torch.float64)
    if not isinstance(got, Tensor):
        return Evidence(False, f"the answer is {kind_of(got)}, not a tensor")
    if got.shape != want.shape:
        return Evidence(False, f"the answer has shape {tuple(got.shape)}, not {tuple(want.shape)}")
    if (got.dtype == torch.bool) != (want.dtype == torch.bool) or got.is_complex() != want.is_complex():
        return Evidence(False, f"the answer holds {_entries(got)}, not {_entries(want)}")
    if got.device != want.device:
        return Evidence(False, f"the answer lies on {got.device}, not on {want.device}")
    if got.isnan().any():
        return Evidence(False, "the answer contains NaN", picture(got.isnan()), rows="row", columns="column")
    apart = gap(torch.view_as_real(got), torch.view_as_real(want)) if got.is_complex() else gap(got, want)
    wrong = apart > atol
    if not wrong.any():
        return Evidence(True, "the values agree")
    count, worst = int(wrong.sum()), apart.max().item()
    size = "" if got.dtype == torch.bool else f"; the largest error is {worst:.2g}"
    says = f"{count} of {got.numel()} entries are wrong{size}" if got.numel() > 1 else f"the value is wrong{size}"
    shown = picture(wrong if got.dtype == torch.bool else apart) if got.dim() else None
    return Evidence(False, says, shown, rows="row", columns="column")


def _entries(t: Tensor) -> str:
    return "bools" if t.dtype == torch.bool else "complex numbers" if t.is_complex() else "numbers"


def same(got: Any, base: Any, when: str, atol: float = SPELLING) -> Evidence:
    """Whether two answers of one solution are the same up to rounding. NaN may equal NaN here."""
    ones, others = tensors(got), tensors(base)
    if [t.shape for t in ones] != [t.shape for t in others]:
        return Evidence(False, f"{when}: the shape of the result changed")
    for one, other in zip(ones, others, strict=True):
        apart = (
            torch.where(one.isnan() & other.isnan(), 0.0, gap(one, other))
            if one.is_floating_point()
            else gap(one, other)
        )
        largest = apart.max().item() if apart.numel() else 0.0
        scale = max(1.0, other.double().abs().nan_to_num(0, 0, 0).max().item()) if other.numel() else 1.0
        if largest > atol * scale:
            return Evidence(
                False, f"{when}: the result changed by {largest:.2g}", picture(apart), rows="row", columns="column"
            )
    if not ones and got != base and not (got != got and base != base):
        return Evidence(False, f"{when}: the result changed")
    return Evidence(True, f"{when}: the same result")


def finite(value: Any) -> Evidence:
    """Whether an answer has tensors of floats, and all their entries are finite."""
    floats = [t for t in tensors(value) if t.is_floating_point()]
    if not floats:
        return Evidence(False, f"the answer is {kind_of(value)}, not a tensor of floats")
    for t in floats:
        if not t.isfinite().all():
            return Evidence(
                False, "the answer contains inf or NaN", picture(~t.isfinite()), rows="row", columns="column"
            )
    return Evidence(True, "every entry is finite")


def rows_sum_to_one(weights: Any, atol: float = ATOL) -> Evidence:
    """Whether an answer is attention weights: floats of shape (..., N, M), none negative, each row summing to one."""
    if not (isinstance(weights, Tensor) and weights.dim() >= 2 and weights.is_floating_point()):
        return Evidence(False, f"the weights are {kind_of(weights)}, not a matrix of floats")
    if weights.isnan().any():
        return Evidence(False, "the weights contain NaN", picture(weights.isnan()), rows="query", columns="key")
    if (weights < 0).any():
        return Evidence(
            False, f"a weight is negative: {weights.min():.3g}", picture(weights < 0), rows="query", columns="key"
        )
    sums = weights.double().sum(-1)  # (..., N)
    wrong = (sums - 1).abs() > atol
    if wrong.any():
        says = f"the weights of a query sum to {sums[wrong][0]:.4g}, not to 1"
        columns = (weights.double().sum(-2) - 1).abs() <= atol
        if columns.all() and weights.shape[-2] > 1:
            says += "; it is the columns that do"
        return Evidence(False, says, picture(weights), rows="query", columns="key")
    return Evidence(True, "each row of the weights sums to one")
