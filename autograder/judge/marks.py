"""The marks of a hidden test: which exercise it belongs to, what it is worth, and what a student may see of it."""

from __future__ import annotations

import pytest


def exercise(name: str) -> pytest.MarkDecorator:
    """Class decorator: the tests of this class belong to the exercise `name`, a function or class of the student's."""
    return pytest.mark.exercise(name)


def points(worth: float, *, reveals: str, name: str | None = None) -> pytest.MarkDecorator:
    """A hidden test is worth this many points; `reveals` is all that a student sees of it beside its message.

    `name` is the test's name in verdicts and in grading.toml; by default the function's, without `test_`.
    """
    return pytest.mark.points(worth, reveals=reveals, name=name)
