"""Right and wrong ways to treat devices, as people write them, in solutions of the eight core exercises.

Every solution answers on the CPU. A right one also works on a GPU and leaves its result there; a wrong one raises there,
or leaves a part of its result on the CPU. Nothing here knows whether the GPU is a real one or a pretended one.
A case is a function or a class named after its one idea.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Drive = Callable[[Any, str], Any]  # (solution, device name) -> the tensors that belong on the device
CASES: list[Case] = []


@dataclass(frozen=True)
class Case:
    exercise: str
    idea: str
    is_right: bool
    load: Callable[[], Any]  # runs the top of a module, returns the solution
    drive: Drive

    def __str__(self) -> str:
        return f"{self.exercise}-{self.idea}"

    def run(self, device: str) -> Any:
        return self.drive(self.load(), device)


class Exercise:
    """Collects the solutions of one exercise; each of the four methods is a decorator for a case."""

    def __init__(self, name: str, drive: Drive) -> None:
        self.name, self.drive = name, drive

    def right(self, solution: Any) -> Any:
        return self._add(solution.__name__, True, lambda: solution)

    def wrong(self, solution: Any) -> Any:
        return self._add(solution.__name__, False, lambda: solution)

    def right_module(self, top: Callable[[], Any]) -> Any:
        """For a module that does something with devices when it is loaded: `top` returns the solution."""
        return self._add(top.__name__, True, top)

    def wrong_module(self, top: Callable[[], Any]) -> Any:
        return self._add(top.__name__, False, top)

    def _add(self, idea: str, is_right: bool, load: Callable[[], Any]) -> None:
        CASES.append(Case(self.name, idea, is_right, load, self.drive))


from tests.worker.device_cases import (  # noqa: E402
    attention,
    beam,
    heads,
    masked_tokens,
    masks,
    multi_head,
    patches,
    positions,
)

__all__ = ["CASES", "Case", "Exercise"]
