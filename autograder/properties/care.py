"""What any function on tensors owes its caller: it leaves inputs alone, keeps dtypes, takes views, repeats itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.properties.calling import Function, kind_of, tensors
from autograder.properties.comparison import same
from autograder.properties.evidence import Evidence


def keeps_inputs(f: Function, args: Sequence[Any]) -> Evidence:
    """Whether a call leaves its arguments as they were; `f` runs in this process."""
    given = [a.clone() if isinstance(a, Tensor) else a for a in args]
    f(*given)
    return unchanged(args, given)


def unchanged(before: Sequence[Any], after: Sequence[Any]) -> Evidence:
    """Whether the tensors among two lists of arguments are bit for bit the same."""
    for i, (old, new) in enumerate(zip(before, after, strict=True), 1):
        if isinstance(old, Tensor) and not (
            isinstance(new, Tensor) and old.shape == new.shape and torch.equal(old, new)
        ):
            return Evidence(False, f"argument {i} was changed in place")
    return Evidence(True, "the arguments are as they were")


def keeps_dtype(
    f: Function, args: Sequence[Any], dtypes: Sequence[torch.dtype] = (torch.float64, torch.float32)
) -> Evidence:
    """Whether the result has the dtype of the float arguments, for each of these dtypes."""
    for dtype in dtypes:
        wrong = of_dtype(f(*[a.to(dtype) if _floats(a) else a for a in args]), dtype)
        if not wrong:
            return wrong
    return Evidence(True, "the dtype is kept")


def of_dtype(value: Any, dtype: torch.dtype) -> Evidence:
    """Whether the float tensors of an answer, at least one, have this dtype."""
    floats = [t for t in tensors(value) if t.is_floating_point()]
    if not floats:
        return Evidence(False, f"the answer is {kind_of(value)}, not a tensor of floats")
    for t in floats:
        if t.dtype != dtype:
            return Evidence(False, f"{str(dtype)[6:]} went in, {str(t.dtype)[6:]} came out")
    return Evidence(True, "the dtype is kept")


def any_layout(f: Function, args: Sequence[Any]) -> Evidence:
    """Whether transposed views and slices of larger tensors give the same as contiguous arguments of float64."""
    base = f(*args)
    for when, change in LAYOUTS.items():
        found = same(f(*[change(a) if _floats(a) else a for a in args]), base, when)
        if not found:
            return found
    return Evidence(True, "any memory layout gives the same")


def transposed(t: Tensor) -> Tensor:
    """The same values as a transposed view."""
    return t.mT.contiguous().mT if t.dim() > 1 else t


def sliced(t: Tensor) -> Tensor:
    """The same values as every second entry of a larger tensor."""
    return torch.stack([t, t + 1], -1)[..., 0]


LAYOUTS = {
    "with arguments that are transposed views": transposed,
    "with arguments that are slices of larger tensors": sliced,
}


def repeatable(f: Function, args: Sequence[Any], others: Sequence[Any] = ()) -> Evidence:
    """Whether the result depends neither on global random state nor on a call with other arguments between."""
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        results.append(f(*args))
        if others:
            f(*others)
    return same(results[1], results[0], "called again with the same arguments")


def _floats(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
