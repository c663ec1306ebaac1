"""Bounds for random answers that right code crosses less than once in a thousand million times."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from autograder.properties.evidence import Evidence

FALSE_ALARM = 1e-9
SIGMAS = 6.2  # a normal variable lies further out with probability 5.6e-10, on both sides together
EXPONENT = math.log(2 / FALSE_ALARM)  # exp(-EXPONENT) is half of the false alarms: one side


def mean_within(values: Any, mean: float, deviation: float) -> Evidence:
    """Whether the mean of independent values with this standard deviation is `mean`, up to 6.2 standard errors.

    Right by the central limit theorem for some hundred values or more without heavy tails, exactly for normal ones.
    """
    values = torch.as_tensor(values, dtype=torch.float64).flatten()
    if len(values) < 2 or not values.isfinite().all():
        return Evidence(False, "there are too few values, or some are not finite")
    off = abs(values.mean().item() - mean)
    bound = SIGMAS * deviation / math.sqrt(len(values))
    return Evidence(off <= bound, f"the mean of {len(values)} values is off by {off:.3g}; chance explains {bound:.3g}")


def variance_within(variance: float, expected: float, n: int) -> Evidence:
    """Whether the sample variance (n - 1) of n independent normal values is `expected`.

    By the bounds of Laurent and Massart (2000) on chi-square variables, which hold for every n.
    """
    if not math.isfinite(variance):
        return Evidence(False, "the variance is not finite")
    k, ratio = n - 1, variance / expected
    low = 1 - 2 * math.sqrt(EXPONENT / k)
    high = 1 + 2 * math.sqrt(EXPONENT / k) + 2 * EXPONENT / k
    says = f"the variance of {n} values is {ratio:.3g} times what it should be"
    return Evidence(low <= ratio <= high, f"{says}; chance explains {max(low, 0):.3g} to {high:.3g}")


def frequency_within(hits: Tensor | float, n: int, probability: float) -> Evidence:
    """Whether `hits` of n independent events of this probability is a likely number, by Hoeffding's bound.

    For small probabilities Bernstein's bound is the sharper one and is used where it is.
    """
    count = float(hits.sum()) if isinstance(hits, Tensor) else float(hits)
    if not 0 <= count <= n:
        return Evidence(False, f"{count:g} of {n} cannot be")
    spread = probability * (1 - probability)
    hoeffding = math.sqrt(EXPONENT / (2 * n))
    bernstein = math.sqrt(2 * spread * EXPONENT / n) + 2 * EXPONENT / (3 * n)
    bound, off = min(hoeffding, bernstein), abs(count / n - probability)
    return Evidence(off <= bound, f"the share of {n} is off by {off:.3g}; chance explains {bound:.3g}")
