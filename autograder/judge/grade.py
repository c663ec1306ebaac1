"""Grade one submission: run the unit's hidden tests against its code in a worker, and write down what was decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.hashes import submission_hash
from autograder.intake import Submission
from autograder.judge.errors import StudentError
from autograder.judge.messages import explain, syntax_error
from autograder.judge.session import HiddenTest, Outcome, PreparedSession
from autograder.judge.student import Source, Student
from autograder.judge.workers import Limit, Worker, WorkerDied
from autograder.verdict import DUTY_ALONE, ExerciseResult, TestResult, Verdict

STRIKES = 2  # so many tests of an exercise may run out of time before the rest of its tests is not run
OUT_OF_TIME = "Not run: the time for the whole submission was used up by earlier tests."
TWO_STRIKES = "Not run: earlier tests of this exercise did not finish in time."


@dataclass(frozen=True)
class Settings:
    """What holds for a whole grading run."""

    seed: int
    grader_hashes: Mapping[str, str] = field(default_factory=dict)  # unit: hash
    device: str = "cpu"
    sandbox: tuple[str, ...] | None = ()
    seconds_per_test: float = 5.0
    seconds_per_submission: float = 60.0
    seconds_to_load: float = 5.0
    points: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # unit: {test: points}
    forbidden: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)  # unit: {exercise: names}


class Judge:
    """Grades submissions one after another; each gets a fresh worker."""

    def __init__(self, session: PreparedSession, settings: Settings, start_worker: Callable[[], Worker]) -> None:
        self.session, self.settings, self.start_worker = session, settings, start_worker
        self.known: dict[str, dict[str, bytes]] = {}  # unit: what its tests ask first, see Student
        self.odd = False  # something happened after which a fresh judge is the safer choice

    def grade(self, submission: Submission) -> Verdict:
        """The verdict on one submission, whatever its code does."""
        start = time.perf_counter()
        settings, tests = self.settings, self.session.units[submission.unit]
        source = Source(
            submission.unit, submission.source, submission.others, settings.forbidden.get(submission.unit, {})
        )
        known = self.known.setdefault(submission.unit, {})
        student = Student(self.start_worker, source, settings.seconds_to_load, settings.device, known)
        try:
            problem = submission.problem or self.open(student)
            if problem is None:
                outcomes = self.run(tests, student, source)
            else:
                outcomes = {t.name: self.failed(t, "") for t in tests}
        finally:
            student._drop()
        self.odd = bool(student._incidents)
        notes = [
            *submission.notes,
            *(f"Line {line} failed when the file was loaded: {e}" for line, e in student._load_failures),
        ]
        return Verdict(
            student=submission.student,
            unit=submission.unit,
            exercises=exercises(tests, outcomes),
            notes=tuple(notes),
            problem=problem,
            output=student._printed[:4000],
            limits=tuple(dict.fromkeys(student._incidents)),
            submission_hash=submission_hash(submission),
            grader_hash=settings.grader_hashes.get(submission.unit, ""),
            seed=settings.seed,
            device=settings.device,
            sandbox=settings.sandbox,
            torch=torch.__version__,
            milliseconds=round((time.perf_counter() - start) * 1e3, 2),
        )

    def open(self, student: Student) -> str | None:
        """Load the source; why that failed, or None."""
        try:
            student._live()
        except StudentError as error:
            return syntax_error(error, student._source)
        except Limit:
            seconds = self.settings.seconds_to_load
            return f"The file did not finish loading within {seconds:g} s. Is there a loop outside of a function?"
        except WorkerDied as error:
            return f"The file stopped while it was being loaded: {error}."
        return None

    def run(self, tests: list[HiddenTest], student: Student, source: Source) -> dict[str, TestResult]:
        deadline = time.monotonic() + self.settings.seconds_per_submission
        strikes: dict[str, int] = {}
        results = {}
        in_order = sorted(tests, key=lambda t: t.is_last)
        student._ask_ahead(t.name for t in in_order)
        for test in in_order:
            left = deadline - time.monotonic()
            if left <= 0 or strikes.get(test.exercise, 0) >= STRIKES:
                results[test.name] = self.failed(test, OUT_OF_TIME if left <= 0 else TWO_STRIKES)
                continue
            outcome = self.session.run(test, student, self.settings.seed, min(left, self.settings.seconds_per_test))
            if isinstance(outcome.error, Limit):
                strikes[test.exercise] = strikes.get(test.exercise, 0) + 1
            results[test.name] = self.result(test, outcome, student, source)
        return results

    def result(self, test: HiddenTest, outcome: Outcome, student: Student, source: Source) -> TestResult:
        if outcome.error is None:
            worth = self.worth(test)
            return TestResult(test.name, test.title, True, worth, worth, milliseconds=round(outcome.milliseconds, 3))
        if isinstance(outcome.error, (KeyboardInterrupt, SystemExit)):
            raise outcome.error
        message, evidence = explain(outcome.error, test.exercise, source, student._last_answer)
        return self.failed(test, message, evidence, outcome.milliseconds)

    def failed(
        self, test: HiddenTest, message: str, evidence: dict[str, Any] | None = None, milliseconds: float = 0.0
    ) -> TestResult:
        return TestResult(
            test.name, test.title, False, 0.0, self.worth(test), message, evidence, round(milliseconds, 3)
        )

    def worth(self, test: HiddenTest) -> float:
        return self.settings.points.get(test.unit, {}).get(test.name, test.worth)


def exercises(tests: list[HiddenTest], results: Mapping[str, TestResult]) -> tuple[ExerciseResult, ...]:
    """The results by exercise, in the order of the test file. Duties alone earn nothing: `return x` fulfils several."""
    names = list(dict.fromkeys(t.exercise for t in tests))
    made = []
    for name in names:
        own = [t for t in tests if t.exercise == name]
        earned = any(results[t.name].passed for t in own if not t.is_duty) or all(t.is_duty for t in own)
        made.append(
            ExerciseResult(
                name, tuple(results[t.name] if earned or not t.is_duty else _uncounted(results[t.name]) for t in own)
            )
        )
    return tuple(made)


def _uncounted(result: TestResult) -> TestResult:
    message = result.message if not result.passed else DUTY_ALONE
    return TestResult(result.name, result.title, False, 0.0, result.max_points, message)
