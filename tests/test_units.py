"""Each unit's hidden tests, held against code whose worth is known.

Right code must pass whatever its form and the draw, a stub must get nothing, and for each test there is a fault that it
alone catches, or a reason why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from autograder.grading import prepare
from autograder.intake import Submission
from autograder.judge.batch import Batch
from autograder.judge.grade import Settings
from autograder.verdict import DUTY_ALONE, ExerciseResult, Verdict
from autograder.worker.process import ZygoteProcess
from tests import catalogue
from tests.catalogue import COURSE, submission

UNITS = list(COURSE.units)
SEEDS = 12
Grade = Callable[..., dict[str, Verdict]]


@pytest.fixture(scope="module")
def grade() -> Iterator[Grade]:
    """Grade these submissions; the verdicts by student."""
    zygote = ZygoteProcess(sandbox=True)
    session = prepare(COURSE, UNITS)
    zygote.wait_until_up()
    forbidden = {name: unit.forbidden for name, unit in COURSE.units.items()}

    def run(submissions: list[Submission], seed: int = 1) -> dict[str, Verdict]:
        batch = Batch(session, Settings(seed=seed, forbidden=forbidden), zygote)
        verdicts = {s.student: Verdict.from_json(text) for s, text in batch.grade(submissions, 2) if text is not None}
        assert len(verdicts) == len(submissions)
        return verdicts

    yield run
    zygote.close()


def failed(exercises: tuple[ExerciseResult, ...]) -> dict[str, str]:
    return {t.name: t.message for e in exercises for t in e.tests if not t.passed and t.message != DUTY_ALONE}


@pytest.mark.parametrize("unit", UNITS)
def test_the_reference_gets_full_marks_on_every_seed(grade, unit):
    reference = catalogue.source_of(unit).reference
    for seed in range(SEEDS):
        verdict = grade([submission(unit, reference, "student01")], seed)["student01"]
        assert verdict.problem is None and not failed(verdict.exercises), f"seed {seed}"
        assert not verdict.notes and not verdict.limits


LATE_IMPORTS = """
import sys as _sys
class _Late:
    def find_spec(self, name, path=None, target=None):
        print("late import:", name)
_sys.meta_path.insert(0, _Late())
"""


@pytest.mark.parametrize("unit", UNITS)
def test_a_worker_imports_nothing_late(grade, unit):
    """What the zygote has not imported, each worker would import anew: the meta device alone cost a second so."""
    source = catalogue.source_of(unit).reference + LATE_IMPORTS
    assert "late import" not in grade([submission(unit, source, "student01")])["student01"].output


@pytest.mark.parametrize("unit", UNITS)
def test_the_stub_gets_nothing_and_hears_for_each_exercise_that_it_is_not_done(grade, unit):
    verdict = grade([submission(unit, catalogue.source_of(unit).stub, "student01")])["student01"]
    assert verdict.score == 0 and verdict.max_score > 0 and verdict.problem is None
    for exercise in verdict.exercises:
        assert any("not done yet" in t.message.lower() for t in exercise.tests), exercise


@pytest.mark.parametrize("unit", UNITS)
def test_other_right_solutions_get_full_marks(grade, unit):
    """Whatever the form: loops, einsum, ready-made functions where they are allowed, a repair after the fact."""
    variants = catalogue.accepted(unit)
    assert {v.about for v in variants} <= {e.name for e in grade([variants[0].submission()]).popitem()[1].exercises}
    for seed in (1, 2, 3):
        wrong = {name: failed(v.exercises) for name, v in grade([v.submission() for v in variants], seed).items()}
        assert not {name: tests for name, tests in wrong.items() if tests}, f"seed {seed}"


@pytest.mark.parametrize("unit", UNITS)
def test_each_hidden_test_catches_a_fault_that_no_other_test_of_its_exercise_catches(grade, unit):
    variants = catalogue.faults(unit)
    verdicts = grade([v.submission() for v in variants])
    wrong = {}
    for variant in variants:
        verdict = verdicts[variant.submission().student]
        own = next((e for e in verdict.exercises if any(t.name == variant.about for t in e.tests)), None)
        assert own is not None, f"{variant.about}: there is no such hidden test"
        if set(failed((own,))) != {variant.about}:
            wrong[f"{variant.about}: {variant.title}"] = failed((own,))
    assert not wrong


@pytest.mark.parametrize("unit", UNITS)
def test_each_hidden_test_has_its_fault_or_a_reason_why_there_is_none(grade, unit):
    verdict = grade([submission(unit, catalogue.source_of(unit).reference, "student01")])["student01"]
    tests = {t.name for e in verdict.exercises for t in e.tests}
    caught, excused = {v.about for v in catalogue.faults(unit)}, catalogue.not_alone(unit)
    assert caught | set(excused) == tests
    assert not caught & set(excused)


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_test_reveals_is_a_sentence_of_its_own(grade, unit):
    verdict = grade([submission(unit, catalogue.source_of(unit).reference, "student01")])["student01"]
    for exercise in verdict.exercises:
        titles = [t.title for t in exercise.tests]
        assert len(set(titles)) == len(titles), f"{exercise.name}: two tests reveal the same"
        assert all(len(title) > 15 and title[0].isupper() for title in titles), titles
