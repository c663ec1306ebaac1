"""Calling the function under test, one call after another or many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Function = Callable[..., Any]


class Batched:
    """A function of one tensor that is asked for many answers at once."""

    def __init__(self, answer_all: Callable[[list[Any]], Sequence[Any]]) -> None:
        self.answer_all = answer_all

    def __call__(self, x: Any) -> Any:
        return self.answer_all([x])[0]

    def each(self, calls: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        return self.answer_all([x for (x,) in calls])


def batched(answer_all: Callable[[list[Any]], Sequence[Any]]) -> Batched:
    """A function to check, from one that answers a list of inputs with a list of outputs.

    `batched(lambda xs: [out for out, _ in student.attention.each((q, x, x) for x in xs)])`
    """
    return Batched(answer_all)


def ask(f: Function, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The answers to these calls, in one go if `f` has an `each`. What `f` raises goes through."""
    each = getattr(f, "each", None)
    answers = each(calls) if each is not None else [f(*args) for args in calls]
    return [answers[i] for i in range(len(calls))]


def noise(t: Tensor) -> Tensor:
    """Normal noise of this shape and dtype, from torch's global generator."""
    return torch.randn(t.shape, dtype=torch.float64).to(t.dtype)


def tensors(value: Any) -> list[Tensor]:
    """Every tensor of an answer, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for part in value for t in tensors(part)] if isinstance(value, (list, tuple)) else []


def kind_of(value: Any) -> str:
    """What an answer is, in a few words and without its entries."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return "nothing (None)" if value is None else f"a {type(value).__name__}"
