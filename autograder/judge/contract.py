"""An exercise's contract: how it is called. The generic duties of an exercise follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from _pytest.mark import ParameterSet

from autograder.judge.marks import exercise
from autograder.judge.student import Student


@dataclass(frozen=True)
class Contract:
    """How to call an exercise, and what its arguments are.

    `draw()` returns fresh arguments (a tuple) at one small size, floats in float64; positions refer to it. For a class,
    `construct` holds the constructor's arguments and `draw` those of the call.
    """

    draw: Callable[[], tuple[Any, ...]]
    floats: tuple[int, ...] = ()  # positions of float arguments with respect to which the output is differentiable
    batch: tuple[int, ...] = ()  # positions of arguments whose first dimension is a batch, which may be empty
    large: tuple[int, ...] = ()  # positions whose entries may be large without any output or gradient being inf or NaN
    construct: tuple[Any, ...] | None = None
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)
    by_hand: bool = False  # grading.toml forbids names for this exercise
    worth: float = 0.5  # points for each duty
    skip: tuple[str, ...] = ()  # duties that do not apply


def duty_case(name: str, duty: str, reveals: str, contract: Contract, run: Callable[[Student], None]) -> ParameterSet:
    """A parametrized case of `test_duties`, with its marks."""
    worth = pytest.mark.points(contract.worth, reveals=reveals, name=f"{name}_{duty}", duty=True)
    return pytest.param(run, id=f"{name}_{duty}", marks=(exercise(name), worth))
