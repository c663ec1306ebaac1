"""Submissions that attack the grader: each gets a verdict with a clear line, gains nothing and leaves nothing behind.

All are graded by the real command, once as root and once as an ordinary user; the tests then read what it left.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from autograder.verdict import Verdict
from tests.hostile.attacks import AT_LOAD, IN_CALL, NEGATE
from tests.ordinary_user import NOBODY, WHO, hw, run_as

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HONEST = NEGATE + "def double(x):\n    return 2 * x\n"
# these return a right answer in a form that cannot be told from a plain one, or do their damage beside a right answer
REACHES_OUT = ["walks_frames_and_gc", "kills_the_grader", "reads_files", "looks_into_proc", "writes_files"]
REACHES_OUT += ["uses_the_network", "starts_processes", "raises_its_limits"]


class Graded:
    """What one run of `hw grade` over all attacks left behind."""

    def __init__(self, who: str, folder: Path) -> None:
        self.submissions, self.out, self.outside = folder / "submissions", folder / "out", folder / "outside"
        self.outside.mkdir(mode=0o777)
        self.outside.chmod(0o777)
        course = folder / "course"
        shutil.copytree(HERE / "course", course)
        self.listener = socket.create_server(("127.0.0.1", 0))
        places = {"{root}": ROOT, "{submissions}": self.submissions, "{outside}": self.outside}
        places["{port}"] = self.listener.getsockname()[1]
        sources = {name: NEGATE + text for name, text in IN_CALL.items()} | AT_LOAD
        for name, source in {**sources, "student01": HONEST, "student02": HONEST}.items():
            for place, value in places.items():
                source = source.replace(place, str(value))
            (self.submissions / name).mkdir(parents=True)
            (self.submissions / name / "toy.py").write_text(source)
        self.before = {p: p.read_bytes() for p in self.submissions.rglob("*.py")}
        if who == "ordinary user" and os.geteuid() == 0:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
        command = hw("grade", self.submissions, "--out", self.out, "--course", course / "grading.toml", "--jobs", "2")
        self.run = run_as(who, command, COURSE_SECRET="not for students")
        self.left = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout
        self.listener.close()

    def verdict(self, name: str) -> Verdict:
        return Verdict.from_json((self.out / name / "toy.json").read_text())

    def score(self, name: str, exercise: str) -> float:
        return next(e.score for e in self.verdict(name).exercises if e.name == exercise)


@pytest.fixture(scope="module", params=WHO)
def graded(request, tmp_path_factory) -> Graded:
    folder = tmp_path_factory.mktemp("hostile")
    for path in (folder, *list(folder.parents)[:3]):
        path.chmod(path.stat().st_mode | 0o755)  # an ordinary user must reach what lies below
    return Graded(request.param, folder)


def test_every_submission_gets_a_verdict_and_the_command_ends_as_if_nothing_had_happened(graded):
    assert graded.run.returncode == 0, graded.run.stderr
    for name in [*IN_CALL, *AT_LOAD]:
        assert graded.verdict(name).student == name


@pytest.mark.parametrize("name", [*IN_CALL, *AT_LOAD])
def test_no_attack_gains_a_mark(graded, name):
    assert graded.score(name, "double") == 0, graded.verdict(name)


@pytest.mark.parametrize("name", [n for n in IN_CALL if not n.startswith("patched_")])
def test_an_attack_in_one_exercise_does_not_cost_the_marks_of_another(graded, name):
    assert graded.score(name, "negate") == 1, graded.verdict(name)


@pytest.mark.parametrize("name", REACHES_OUT)
def test_nothing_outside_of_the_worker_can_be_reached(graded, name):
    printed = graded.verdict(name).output
    assert "BREACH" not in printed, printed
    assert "TRIED" in printed, f"the attack did not run: {printed}"


@pytest.mark.parametrize("name", AT_LOAD)
def test_a_file_that_cannot_be_loaded_says_why(graded, name):
    problem = graded.verdict(name).problem
    assert problem and ("toy.py" in problem or "file" in problem)


def test_the_honest_students_keep_full_marks_beside_the_attacks(graded):
    for name in ("student01", "student02"):
        assert graded.verdict(name).score == graded.verdict(name).max_score == 3


def test_no_file_was_changed_or_made(graded):
    assert {p: p.read_bytes() for p in graded.submissions.rglob("*.py")} == graded.before
    assert list(graded.outside.iterdir()) == []


def test_no_process_is_left_behind(graded):
    assert "autograder.worker.zygote" not in graded.left, graded.left


def test_the_verdict_says_which_layers_held(graded):
    layers = graded.verdict("student01").sandbox
    assert layers is not None and {"Landlock", "seccomp", "no new privileges", "resource limits"} <= set(layers)


def test_the_secret_of_the_course_is_in_nothing_that_a_student_sees(graded):
    for page in graded.out.rglob("*.html"):
        assert "the hidden test of double" not in page.read_text()
