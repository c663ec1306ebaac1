"""A judge over the lab's hidden tests, in this process, with real workers."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autograder.intake import Submission
from autograder.judge.grade import Judge, Settings
from autograder.judge.session import PreparedSession, on_alarm
from autograder.judge.workers import Worker
from autograder.verdict import TestResult, Verdict
from autograder.worker.process import ZygoteProcess

LAB = Path(__file__).parent / "lab"
RIGHT = (LAB / "right.py").read_text()


def submission(source: str, **fields: object) -> Submission:
    """A submission of the lab with this source."""
    given = {"student": "student01", "unit": "lab", "path": Path("lab.py"), "notes": (), "problem": None, "others": {}}
    return Submission(source=source, **{**given, **fields})  # type: ignore[arg-type]


def results(verdict: Verdict) -> dict[str, TestResult]:
    return {t.name: t for e in verdict.exercises for t in e.tests}


def failed(verdict: Verdict) -> set[str]:
    return {name for name, t in results(verdict).items() if not t.passed}


@pytest.fixture(scope="session")
def zygote() -> Iterator[ZygoteProcess]:
    process = ZygoteProcess(sandbox=True)
    process.wait_until_up()
    yield process
    process.close()


@pytest.fixture(scope="session")
def lab_session() -> PreparedSession:
    return PreparedSession([LAB / "test_lab.py"])


@pytest.fixture
def judge_with(zygote: ZygoteProcess, lab_session: PreparedSession) -> Iterator[Callable[..., Judge]]:
    """A maker of judges; its keyword arguments are those of Settings."""
    line = zygote.new_line()
    before = signal.signal(signal.SIGALRM, on_alarm)
    yield lambda **settings: Judge(lab_session, Settings(**{"seed": 1, **settings}), lambda: Worker(line).connected())
    signal.signal(signal.SIGALRM, before)
    line.close()


@pytest.fixture
def judge(judge_with: Callable[..., Judge]) -> Judge:
    return judge_with()
