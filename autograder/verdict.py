"""A verdict: what the judge decided on one submission, and its JSON form, which other tools read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

DUTY_ALONE = "This counts as soon as one of the tests above passes."  # the message of a duty that was fulfilled alone


@dataclass(frozen=True)
class TestResult:
    """One hidden test's outcome. `title` and `message` are all that a student may see of it."""

    __test__ = False  # not a pytest class, whatever its name says

    name: str
    title: str
    passed: bool
    points: float
    max_points: float
    message: str = ""
    evidence: dict[str, Any] | None = None  # see properties.Evidence.to_json
    milliseconds: float = 0.0


@dataclass(frozen=True)
class Diagnosis:
    """The misconception that explains an exercise's failures."""

    misconception: str
    title: str
    hint: str


@dataclass(frozen=True)
class ExerciseResult:
    """An exercise (one function or class of the student's) with its tests."""

    name: str
    tests: tuple[TestResult, ...]
    diagnosis: Diagnosis | None = None

    @property
    def score(self) -> float:
        return sum(t.points for t in self.tests)

    @property
    def max_score(self) -> float:
        return sum(t.max_points for t in self.tests)


@dataclass(frozen=True)
class Verdict:
    """What the judge decided on one submission of one unit."""

    student: str
    unit: str
    exercises: tuple[ExerciseResult, ...]
    notes: tuple[str, ...] = ()  # for student and instructor: which file was taken, cells dropped, imports that failed
    problem: str | None = None  # the submission as a whole could not be read or run: one plain sentence, or a few lines
    output: str = ""  # what the student's code printed, cut; for the instructor only
    limits: tuple[str, ...] = ()  # limits that were hit, in words
    submission_hash: str = ""
    grader_hash: str = ""
    seed: int = 0
    device: str = "cpu"
    sandbox: tuple[str, ...] | None = ()  # names of the layers; None: no sandbox at all
    torch: str = ""
    milliseconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return sum(e.score for e in self.exercises)

    @property
    def max_score(self) -> float:
        return sum(e.max_score for e in self.exercises)

    def to_json(self) -> str:
        """The verdict as JSON text; `from_json` reads it back."""
        tree = asdict(self)
        tree |= {"score": self.score, "max_score": self.max_score}
        for exercise, written in zip(self.exercises, tree["exercises"], strict=True):
            written |= {"score": exercise.score, "max_score": exercise.max_score}
        first = ("student", "unit", "score", "max_score", "problem", "exercises")
        return json.dumps({k: tree[k] for k in first} | tree, indent=1, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Verdict:
        """Read a verdict. Raises ValueError if the text is not one."""
        try:
            tree = json.loads(text)
            for derived in ("score", "max_score"):
                del tree[derived]
            tree["exercises"] = tuple(_exercise(e) for e in tree["exercises"])
            for name in ("notes", "limits"):
                tree[name] = tuple(tree[name])
            tree["sandbox"] = None if tree["sandbox"] is None else tuple(tree["sandbox"])
            return Verdict(**tree)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a verdict: {error!r}") from None


def _exercise(tree: dict[str, Any]) -> ExerciseResult:
    diagnosis = tree["diagnosis"]
    return ExerciseResult(
        tree["name"],
        tuple(TestResult(**t) for t in tree["tests"]),
        None if diagnosis is None else Diagnosis(**diagnosis),
    )
