"""The duty to work where the input lies: without a GPU, a pretended one finds what would crash on a real one.

It costs marks only where it blames the device by name: a failure of its own is no verdict, and the duty counts as done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from autograder.judge.contract import Contract
from autograder.judge.errors import StudentError
from autograder.judge.student import Student
from autograder.judge.workers import Limit, WorkerDied


@dataclass(frozen=True)
class OnDevice:
    """Fails where a tensor of the exercise's stays on the CPU while its input lies on the GPU."""

    exercise: str
    contracts: Mapping[str, Contract]  # of the whole unit: they share one frame
    reveals: ClassVar[str] = "It works where its input lies, on a GPU too"

    def __call__(self, student: Student) -> None:
        if "device" not in student._shared:
            student._shared["device"] = self.ask(student)
        outcome = student._shared["device"].get(self.exercise)
        if isinstance(outcome, StudentError):
            raise outcome
        assert outcome is None, outcome

    def ask(self, student: Student) -> dict[str, Any]:
        asked = {name: c for name, c in self.contracts.items() if "device" not in c.skip}
        cases = [[c.construct, name, c.draw()] for name, c in asked.items()]
        try:
            outcomes = student._question("device", student._device, cases)
        except (Limit, WorkerDied):  # our own machinery's failure, as far as anyone knows
            return {}
        return dict(zip(asked, outcomes, strict=True))
