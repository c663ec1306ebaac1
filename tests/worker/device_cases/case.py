"""A case is a solution named after its one idea: a function, or a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Solution = TypeVar("Solution", bound=Callable[..., Any])
Drive = Callable[[Any, str], Any]  # (solution, device) -> the tensors that belong on the device


@dataclass(frozen=True)
class Case:
    exercise: str
    idea: str
    is_right: bool
    load: Callable[[], Any]  # runs a module that holds the solution, returns the solution
    drive: Drive

    def __str__(self) -> str:
        return f"{self.exercise}-{self.idea}"

    def run(self, device: str) -> Any:
        return self.drive(self.load(), device)


class Exercise:
    """Collects the solutions of one exercise. Each method is a decorator that adds a case."""

    def __init__(self, name: str, drive: Drive) -> None:
        self.name, self.drive = name, drive
        self.cases: list[Case] = []

    def right(self, solution: Solution) -> Solution:
        return self._add(solution, True, lambda: solution)

    def wrong(self, solution: Solution) -> Solution:
        return self._add(solution, False, lambda: solution)

    def right_module(self, module: Solution) -> Solution:
        """For a module that looks at devices when it is loaded: calling it is loading it, and returns the solution."""
        return self._add(module, True, module)

    def wrong_module(self, module: Solution) -> Solution:
        return self._add(module, False, module)

    def _add(self, named: Solution, is_right: bool, load: Callable[[], Any]) -> Solution:
        self.cases.append(Case(self.name, named.__name__, is_right, load, self.drive))
        return named
