"""The prepared session decides as plain pytest does: it stands on private calls, so it must be shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.judge.session import HiddenTestsError, PreparedSession
from tests.judge.conftest import LAB, RIGHT, failed, submission
from tests.judge.faults import FAULTS

ROOT = Path(__file__).parents[2]
SOURCES = {"right": RIGHT, "empty": "x = 1\n"} | {name: RIGHT + "\n" + text for name, (text, _) in FAULTS.items()}


def plain_pytest(tmp_path: Path, source: str, *options: str) -> tuple[set[str], str]:
    """The names of the tests that plain pytest fails, and its output."""
    (tmp_path / "lab.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "autograder.judge.plugin", "-c", os.devnull, "-rA", "-q", *options]
    command += ["--submission", str(tmp_path / "lab.py"), "--seed", "1", str(LAB / "test_lab.py")]
    output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    names = re.findall(r"^FAILED .*?::(\w+)(?:\[(.*?)\])?(?: |$)", output, re.MULTILINE)
    return {case if test == "test_duties" else test.removeprefix("test_") for test, case in names}, output


@pytest.mark.parametrize("name", ["right", "in place", "no error", "overflow", "moved", "columns instead of rows"])
def test_plain_pytest_fails_the_same_tests(judge, tmp_path, name):
    assert plain_pytest(tmp_path, SOURCES[name])[0] == failed(judge.grade(submission(SOURCES[name])))


def test_the_author_sees_what_pytest_shows_anywhere(tmp_path):
    """Writing a hidden test must be as easy as any other: a failing assert shows both sides."""
    source = RIGHT.replace("sum(f(i) for i in range(1, n + 1))", "sum(f(i) for i in range(n))")
    _, output = plain_pytest(tmp_path, source, "-k", "callback")
    assert "assert (14 == 30" in output or "assert 14 == 30" in output, output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def test_a(student): pass\n", "needs @exercise"),
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
        ("x = 1\n", "cannot be collected"),
        (
            "from autograder.judge import exercise, points\n"
            "@exercise('f')\nclass TestF:\n    @points(1, reveals='a')\n    def test_a(self, student): pass\n"
            "@exercise('g')\nclass TestG:\n    @points(1, reveals='a')\n    def test_a(self, student): pass\n",
            "names must differ",
        ),
    ],
)
def test_a_mistake_in_hidden_tests_is_told_before_anything_is_graded(tmp_path, text, says):
    path = tmp_path / f"test_{abs(hash(text))}.py"  # pytest keeps modules by name
    path.write_text(text)
    with pytest.raises(HiddenTestsError, match=says):
        PreparedSession([path])


def test_hidden_tests_that_are_not_there_are_named(tmp_path):
    with pytest.raises(HiddenTestsError, match="test_nowhere"):
        PreparedSession([tmp_path / "test_nowhere.py"])


def test_cases_of_one_test_are_one_line_in_the_verdict(lab_session):
    tests = {t.name: t for t in lab_session.units["lab"]}
    assert len(tests["values"].items) == 2 and tests["values"].worth == 2
