"""Calls of the student's code that go to the worker in one frame, and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from autograder.judge.errors import StudentError


@dataclass(frozen=True)
class Call:
    """The arguments of one call among many; see `each`."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    op: str = "call"
    options: Mapping[str, Any] = field(default_factory=dict)


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of one call, for `each`: `student.causal_mask.each([call(4), call(4, device="meta")])`."""
    return Call(args, kwargs)


class Answers(Sequence[Any]):
    """The answers of one frame; an answer that is an error raises when it is read."""

    def __init__(self, outcomes: list[Any]) -> None:
        self._outcomes = outcomes

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Any]:
        """The inherited way would take a student's IndexError for the end of the answers."""
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Answers: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Answers(self._outcomes[index])
        outcome = self._outcomes[index]
        if isinstance(outcome, StudentError):
            raise outcome.with_traceback(None)
        return outcome
