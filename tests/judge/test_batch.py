"""Many submissions: order and company change nothing, a judge that dies costs one verdict, memory stays flat."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from autograder.judge import batch
from autograder.judge.batch import Batch
from autograder.judge.grade import Settings
from autograder.verdict import Verdict
from tests.judge.conftest import RIGHT, submission
from tests.judge.faults import FAULTS


def mebibytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) / 256


def told(text: str | None) -> object:
    assert text is not None
    verdict = Verdict.from_json(text)
    return [(t.name, t.passed, t.message) for e in verdict.exercises for t in e.tests]


@pytest.fixture
def make_batch(zygote, lab_session):
    return lambda **settings: Batch(lab_session, Settings(**{"seed": 1, **settings}), zygote)


def test_the_verdicts_are_the_same_with_one_job_and_with_three(make_batch):
    sources = {"right": RIGHT} | {name: RIGHT + "\n" + text for name, (text, _) in FAULTS.items()}
    submissions = [submission(source, student=name) for name, source in sources.items()]
    one = {s.student: told(text) for s, text in make_batch().grade(submissions, 1)}
    three = {s.student: told(text) for s, text in make_batch().grade(submissions[::-1], 3)}
    assert one == three and len(one) == len(sources)


def test_a_judge_that_is_killed_costs_one_verdict_and_leaves_no_worker(make_batch, zygote):
    """The zygote owns the workers and kills them when their judge's line hangs up, however the judge ended."""
    sleeper = submission(RIGHT.replace("return x.clone()", "import time; time.sleep(60)"), student="sleeper")
    made = make_batch(seconds_per_test=30.0)
    others = [submission(RIGHT, student=f"student{i:02}") for i in range(3)]
    verdicts = made.grade([sleeper, *others], 2)
    first = next(verdicts)
    assert first[0].student == "student00" and first[1] is not None
    judge = next(j for j in made.busy.values() if j.index == 0)
    os.kill(judge.pid, signal.SIGKILL)
    rest = {s.student: text for s, text in verdicts}
    assert rest.pop("sleeper") is None
    assert all(rest.values()) and set(rest) == {"student01", "student02"}
    assert no_children(zygote.process.pid)


def test_a_judge_that_hangs_is_killed_and_reported(make_batch, monkeypatch):
    monkeypatch.setattr(batch, "GRACE", 0.5)
    monkeypatch.setattr(batch.Judge, "grade", lambda self, submission: time.sleep(60))
    [(_, text)] = make_batch(seconds_per_submission=0.5, seconds_per_test=0.2, seconds_to_load=0.2).grade(
        [submission(RIGHT)], 1
    )
    assert text is None


def test_stopping_half_way_leaves_no_judge_and_no_worker(make_batch, zygote):
    verdicts = make_batch().grade([submission(RIGHT, student=f"student{i:02}") for i in range(20)], 2)
    next(verdicts)
    verdicts.close()
    assert no_children(zygote.process.pid)
    with pytest.raises(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:  # the zygote itself is our only child
            pass
        if not any(pid != zygote.process.pid for pid in children(os.getpid())):
            raise ChildProcessError


def test_the_memory_of_the_zygote_and_of_the_grader_stays_flat(make_batch, zygote):
    submissions = [submission(RIGHT, student=f"student{i:03}") for i in range(60)]
    list(make_batch().grade(submissions[:20], 2))
    before = mebibytes(zygote.process.pid), mebibytes(os.getpid())
    list(make_batch().grade(submissions, 2))
    after = mebibytes(zygote.process.pid), mebibytes(os.getpid())
    # measured: 0.0 MiB; a leak of one worker's pages would be 20 MiB
    assert after[0] - before[0] < 2 and after[1] - before[1] < 8


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def no_children(pid: int) -> bool:
    """Whether a process has no living child, within two seconds."""
    for _ in range(40):
        if not children(pid):
            return True
        time.sleep(0.05)
    return False
