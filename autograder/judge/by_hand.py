"""The duty to write an exercise by hand: names that grading.toml forbids may be neither written nor called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from autograder.judge.calls import Call
from autograder.judge.contract import Contract
from autograder.judge.student import Student


@dataclass(frozen=True)
class ByHand:
    """Fails where the exercise's code names a forbidden function, or calls one however it got hold of it."""

    exercise: str
    contract: Contract
    reveals: ClassVar[str] = "It is written by hand, without the ready-made function"

    def __call__(self, student: Student) -> None:
        function = getattr(student, self.exercise)
        forbidden = student._source.forbidden.get(self.exercise, ())
        watch = Call(self.contract.draw(), op="watch", options={"names": list(forbidden)})
        if self.contract.construct is not None:
            function = function(*self.contract.construct)
            function.to(torch.float64)
        (used,) = function.each([watch])
        for exercise, name, line in student._forbidden_uses or ():
            assert exercise != self.exercise, (
                f"line {line} uses `{name}`, which this exercise asks you to write yourself"
            )
        assert not used, f"it calls `{used[0]}`, which this exercise asks you to write yourself"
