"""The solutions that hidden tests are held against: references, stubs, other right ones, a fault for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.course import load_course
from autograder.intake import Submission
from autograder.release import UnitSource, read_source

ROOT = Path(__file__).parents[1]
COURSE = load_course(ROOT / "grading.toml")
CELL = re.compile(r"^# %% (caught_by|accepts): *(\S+)\n# title: *(.+)\n", re.MULTILINE)
NOT_ALONE = re.compile(r"^# not alone: *(\w+): *(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Variant:
    """The reference of a unit with one definition replaced."""

    unit: str
    about: str  # the test that must catch it, or the exercise that it solves
    title: str
    source: str

    def submission(self) -> Submission:
        return submission(self.unit, self.source, f"{self.about}: {self.title}")


def source_of(unit: str) -> UnitSource:
    return read_source(ROOT / "solutions" / f"{unit}.py")


def submission(unit: str, source: str, student: str) -> Submission:
    return Submission(student, unit, Path(f"{unit}.py"), source, (), None, {})


def faults(unit: str) -> list[Variant]:
    """One wrong solution for each hidden test that catches something alone."""
    return list(_variants(unit, "faults"))


def accepted(unit: str) -> list[Variant]:
    """Right solutions that differ in form from the reference."""
    return list(_variants(unit, "accepted"))


def not_alone(unit: str) -> dict[str, str]:
    """Hidden tests that catch nothing alone, and why they are there."""
    return dict(NOT_ALONE.findall((ROOT / "tests_hidden" / "faults" / f"{unit}.py").read_text("utf-8")))


def _variants(unit: str, kind: str) -> Iterator[Variant]:
    text = (ROOT / "tests_hidden" / kind / f"{unit}.py").read_text("utf-8")
    reference = source_of(unit).reference
    heads: Sequence[re.Match[str]] = list(CELL.finditer(text))
    for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(text)], strict=True):
        yield Variant(unit, head[2], head[3], reference + "\n\n" + text[head.end() : end])
