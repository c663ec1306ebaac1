"""Linearity, and whether a gradient is the derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.properties.calling import Function, ask, kind_of, noise
from autograder.properties.comparison import gap, picture
from autograder.properties.evidence import Evidence

LINEAR = {torch.float64: 1e-10, torch.float32: 1e-4}  # relative; right code: 4e-16 and 3e-7
STEP = 1e-5  # of the central difference, in float64
GRADIENT = 1e-6  # relative: right solutions stay below 1e-10, no wrong one came below 1


def linearity(f: Function, x: Tensor) -> Evidence:
    """Whether f(a x + b y) = a f(x) + b f(y) for fresh y, a and b, up to rounding."""
    y, (a, b) = noise(x), (torch.rand(2) + 0.5).tolist()
    of_both, of_x, of_y = ask(f, [(a * x + b * y,), (x,), (y,)])
    for got in (of_both, of_x, of_y):
        if not isinstance(got, Tensor) or got.shape != of_both.shape:
            return Evidence(False, f"the answer is {kind_of(got)}, not a tensor of one shape")
    right = a * of_x + b * of_y
    if right.isnan().any() or of_both.isnan().any():
        return Evidence(False, "the answer contains NaN", picture(of_both.isnan()), rows="row", columns="column")
    apart = gap(of_both, right)
    if apart.numel() and apart.max() > LINEAR.get(of_both.dtype, 0.05) * max(1.0, right.abs().max().item()):
        says = f"f(ax + by) and a f(x) + b f(y) lie up to {apart.max():.2g} apart"
        return Evidence(False, says, picture(apart), rows="row", columns="column")
    return Evidence(True, "linear")


def gradient_check(f: Function, x: Tensor, vjp: Callable[[Tensor, Tensor], Any] | None = None) -> Evidence:
    """Whether the gradient of <f(x), c> is its derivative, in a random direction and for a random c; x in float64.

    `vjp(x, c)` returns that gradient; without it autograd goes through `f` in this process. `f` must be smooth at x.
    """
    direction = noise(x)
    base, plus, minus = ask(f, [(x,), (x + STEP * direction,), (x - STEP * direction,)])
    if not isinstance(base, Tensor) or not base.is_floating_point():
        return Evidence(False, f"the answer is {kind_of(base)}, not a tensor of floats")
    cotangent = noise(base)
    slope = ((plus - minus).detach() * cotangent).sum().item() / (2 * STEP)
    grad = vjp(x, cotangent) if vjp is not None else _autograd(f, x, cotangent)
    if not isinstance(grad, Tensor):
        return Evidence(abs(slope) < 1e-9, "no gradient reaches the input")
    if grad.shape != x.shape:
        return Evidence(False, f"the gradient has shape {tuple(grad.shape)}, not {tuple(x.shape)}")
    terms = grad * direction
    if not abs(terms.sum().item() - slope) <= GRADIENT * max(1e-3, abs(slope), terms.abs().sum().item()):
        return Evidence(
            False, "the gradient is not the derivative of the output", picture(grad), rows="row", columns="column"
        )
    return Evidence(True, "the gradient is the derivative")


def _autograd(f: Function, x: Tensor, cotangent: Tensor) -> Tensor | None:
    leaf = x.detach().clone().requires_grad_()
    out = f(leaf)
    if not out.requires_grad:
        return None
    return torch.autograd.grad(out, leaf, cotangent, allow_unused=True)[0]
