"""`hw check`, as a student uses it: each mistake is told in a few plain lines, with their own code in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ordinary_user import hw

TESTS = '''"""Public tests."""
import pytest
from unit import double, halve
from autograder.properties import agrees, permutation_equivariance, require
import torch


@pytest.mark.parametrize("n", [1, 2])
def test_double(n):
    """Two times a number."""
    assert double(n) == 2 * n


def test_halves_add_up():
    require(agrees(halve(torch.ones(3)), torch.full((3,), 0.5)))
'''
RIGHT = "def double(n):\n    return n + n\n\n\ndef halve(x):\n    return x / 2\n"


@pytest.fixture
def check(tmp_path: Path):
    """Check this source in a folder of its own; the exit code and what was told."""

    def run(source: str, *arguments: str, where: str = "") -> tuple[int, str]:
        (tmp_path / "unit").mkdir(exist_ok=True)
        (tmp_path / "unit" / "unit.py").write_text(source)
        (tmp_path / "unit" / "test_unit.py").write_text(TESTS)
        command = [str(a) for a in hw("check", *arguments)]
        done = subprocess.run(command, cwd=tmp_path / where, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("where", ["", "unit"])
def test_a_right_solution_passes_from_its_folder_and_from_the_one_above(check, where):
    code, told = check(RIGHT, where=where)
    assert code == 0 and "✓ Two times a number" in told and "✓ halves add up" in told and "2 of 2" in told


def test_a_stub_is_told_as_not_done_and_the_next_step_is_named(check):
    code, told = check(RIGHT.replace("return n + n", "raise NotImplementedError('double: replace this line')"))
    assert code == 1 and "· Two times a number: not done yet" in told and "next: Two times a number" in told
    assert "1 of 2" in told  # the two cases of one test count once


def test_a_failed_property_is_told_in_words_with_a_picture(check):
    code, told = check(RIGHT.replace("x / 2", "x / 4"))
    assert code == 1 and "✗ halves add up" in told and "3 of 3 entries are wrong" in told and "column →" in told


def test_an_exception_is_shown_with_the_students_own_line(check):
    code, told = check(RIGHT.replace("return x / 2", "return x @ x.new_ones(7)"))
    assert code == 1 and "RuntimeError" in told and "return x @ x.new_ones(7)" in told and "pytest" not in told


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (RIGHT + "def f(:\n", "SyntaxError"),
        ("import nothing_of_this_name\n" + RIGHT, "No module named 'nothing_of_this_name'"),
        (RIGHT.replace("def halve", "def half"), "unit.py does not define `halve`"),
        (RIGHT + "raise SystemExit(0)\n", "SystemExit"),
        ("", "does not define `double`"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(check, source, says):
    code, told = check(source)
    assert code == 1 and says in told


def test_what_is_not_there_is_a_usage_mistake(check, tmp_path):
    assert check(RIGHT, "other") == (2, "hw: there is no unit 'other' here; there is unit\n")
    (tmp_path / "empty").mkdir()
    code, told = check(RIGHT, where="empty")
    assert code == 2 and "there is no unit" in told


def test_terminal_escapes_in_a_message_do_not_reach_the_terminal(check):
    _, told = check(RIGHT.replace("return x / 2", "raise ValueError('\\x1b[31mred')"))
    assert "\x1b" not in told and "red" in told
