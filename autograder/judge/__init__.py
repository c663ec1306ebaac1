"""The trusted side: hidden tests, and what decides. What a hidden test imports is here; see docs/writing-tests.md."""

from autograder.judge.calls import call
from autograder.judge.contract import Contract
from autograder.judge.duties import duties
from autograder.judge.errors import StudentError
from autograder.judge.marks import exercise, points

__all__ = ["Contract", "StudentError", "call", "duties", "exercise", "points"]
