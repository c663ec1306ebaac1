"""How many parameters a module has, as a function of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autograder.properties.evidence import Evidence


def parameter_count(
    count: Callable[..., Any], formula: Callable[..., int], sizes: Sequence[Mapping[str, Any]]
) -> Evidence:
    """Whether `count(**size)` is `formula(**size)` at each of several sizes: at one alone, many formulas pass."""
    for size in sizes:
        got, want = count(**size), formula(**size)
        if got != want:
            given = ", ".join(f"{name}={value}" for name, value in size.items())
            much = f"{got - want:+,}" if isinstance(got, int) and not isinstance(got, bool) else repr(got)[:40]
            return Evidence(False, f"with {given} the number of parameters is off by {much}")
    return Evidence(True, "the number of parameters is right at every size")
