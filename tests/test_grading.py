"""The real command over real folders: what an instructor sees and finds, also after mistakes, kills and second runs."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.verdict import Verdict
from tests.ordinary_user import ROOT, hw

TOY = ROOT / "tests" / "hostile" / "course"
RIGHT = "def negate(x):\n    return -x\ndef double(x):\n    return 2 * x\n"
WRONG = "def negate(x):\n    return -x\ndef double(x):\n    return x\n"


def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(a) for a in hw(*arguments)], capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of one unit, `toy`, with a folder of two submissions."""
    shutil.copytree(TOY, tmp_path / "course")
    for student, source in {"student01": RIGHT, "student02": WRONG}.items():
        hand_in(tmp_path / "course", student, source)
    return tmp_path / "course"


def hand_in(course: Path, student: str, source: str) -> None:
    (course / "in" / student).mkdir(parents=True, exist_ok=True)
    (course / "in" / student / "toy.py").write_text(source)


def verdict(course: Path, student: str) -> Verdict:
    return Verdict.from_json((course / "out" / student / "toy.json").read_text("utf-8"))


def test_a_folder_becomes_verdicts_a_table_and_pages(course):
    done = run("grade", "in", "--out", "out", cwd=course)
    assert done.returncode == 0, done.stderr
    assert "out/index.html" in done.stdout and "2 graded" in done.stdout
    assert verdict(course, "student01").score == 3 and verdict(course, "student02").score == 1
    rows = list(csv.DictReader((course / "out" / "grades.csv").open(encoding="utf-8")))
    assert [(r["student"], r["toy"], r["total"], r["max_total"]) for r in rows] == [
        ("student01", "3", "3", "3"),
        ("student02", "1", "1", "3"),
    ]
    assert (course / "out" / "index.html").is_file() and (course / "out" / "student02" / "feedback.html").is_file()


def test_a_verdict_has_the_fields_that_other_tools_read(course):
    run("grade", "in", "--out", "out", cwd=course)
    tree = json.loads((course / "out" / "student02" / "toy.json").read_text("utf-8"))
    assert {"student", "unit", "score", "max_score", "exercises"} <= set(tree)
    exercise = next(e for e in tree["exercises"] if e["name"] == "double")
    assert {"name", "score", "max_score", "tests", "diagnosis"} <= set(exercise) and exercise["diagnosis"] is None
    assert {"name", "title", "passed", "points", "max_points", "message"} <= set(exercise["tests"][0])
    assert {"submission_hash", "grader_hash", "device", "seed", "torch", "limits", "milliseconds"} <= set(tree)
    assert (exercise["score"], exercise["max_score"], tree["score"], tree["max_score"]) == (0, 2, 1, 3)


def test_a_second_run_grades_only_what_changed(course):
    run("grade", "in", "--out", "out", cwd=course)
    before = verdict(course, "student01")
    hand_in(course, "student02", RIGHT)
    done = run("grade", "in", "--out", "out", cwd=course)
    assert "1 graded, 1 unchanged" in done.stdout
    assert verdict(course, "student02").score == 3 and verdict(course, "student01") == before


def test_a_change_of_the_hidden_tests_grades_all_anew(course):
    run("grade", "in", "--out", "out", cwd=course)
    tests = course / "tests_hidden" / "test_toy.py"
    tests.write_text(tests.read_text() + "\n# another version\n")
    assert "2 graded, 0 unchanged" in run("grade", "in", "--out", "out", cwd=course).stdout


def test_a_file_that_is_no_verdict_is_graded_over(course):
    run("grade", "in", "--out", "out", cwd=course)
    (course / "out" / "student01" / "toy.json").write_text('{"student": "student01"')
    assert "1 graded, 1 unchanged" in run("grade", "in", "--out", "out", cwd=course).stdout
    assert verdict(course, "student01").score == 3


def test_a_seed_reproduces_a_run_and_without_one_every_folder_has_its_own(course):
    for out in ("a", "b"):
        run("grade", "in", "--out", out, cwd=course)
    seeds = [json.loads((course / out / "run.json").read_text())["seed"] for out in ("a", "b")]
    assert seeds[0] != seeds[1]
    run("grade", "in", "--out", "out", "--seed", str(seeds[0]), cwd=course)
    assert verdict(course, "student01").seed == seeds[0]


def test_ctrl_c_keeps_finished_verdicts_leaves_no_process_and_the_next_run_goes_on(course):
    for i in range(3, 7):
        hand_in(course, f"student{i:02}", RIGHT.replace("return 2 * x", "import time; time.sleep(30)"))
    command = [str(a) for a in hw("grade", "in", "--out", "out", "--jobs", "1")]
    process = subprocess.Popen(command, cwd=course, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(600):
        if (course / "out" / "student02" / "toy.json").is_file():
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone in the foreground
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130 and "goes on from here" in said and "Traceback" not in said
    assert verdict(course, "student01").score == 3
    time.sleep(0.5)
    assert not processes_of(process.pid)
    for i in range(3, 7):
        hand_in(course, f"student{i:02}", RIGHT)
    assert "4 graded, 2 unchanged" in run("grade", "in", "--out", "out", cwd=course).stdout


def test_a_grader_that_is_killed_leaves_no_process(course):
    hand_in(course, "student01", RIGHT.replace("return 2 * x", "import time; time.sleep(30)"))
    command = [str(a) for a in hw("grade", "in", "--out", "out", "--jobs", "1")]
    process = subprocess.Popen(command, cwd=course, stderr=subprocess.DEVNULL, start_new_session=True)
    for _ in range(600):
        if len(processes_of(process.pid)) >= 3:  # grader, zygote, judge; workers have sessions of their own
            break
        time.sleep(0.05)
    time.sleep(0.5)
    process.kill()
    process.wait()
    time.sleep(1.5)
    assert not processes_of(process.pid)


def processes_of(session: int) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "sess,stat,args"], capture_output=True, text=True).stdout.splitlines()
    return [line for line in listed if line.split()[0] == str(session) and "Z" not in line.split()[1]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere", "--out", "out"], "nowhere: there is no such folder"),
        (["empty", "--out", "out"], "holds no submission"),
        (["in", "--out", "grading.toml"], "is a file"),
        (["in", "--out", "out", "--unit", "toys"], "no unit 'toys'"),
        (["in", "--out", "out", "--device", "gpu"], "must be cpu or cuda"),
        (["in", "--out", "out", "--sandbox", "off"], "must be on or none"),
        (["in", "--out", "out", "--device", "cuda"], "there is no GPU here"),
        (["in", "--out", "out", "--jobs", "0"], "jobs"),
        (["in", "--out", "out", "--course", "other.toml"], "there is no such file"),
        (["in"], "--out"),
    ],
)
def test_a_usage_mistake_is_one_clear_line_and_exit_code_2(course, arguments, says):
    (course / "empty").mkdir()
    done = run("grade", *arguments, cwd=course)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_mistakes_in_grading_toml_are_all_told_before_anything_is_graded(course):
    text = (
        course / "grading.toml"
    ).read_text() + '\npoints = { test_one = 1 }\nforbidden = { dubble = ["torch.add"] }\n'
    (course / "grading.toml").write_text(text)
    done = run("grade", "in", "--out", "out", cwd=course)
    assert done.returncode == 2 and not list((course / "out").glob("student*"))
    assert "grading.toml: units.toy.points.test_one: there is no such test" in done.stderr
    assert "units.toy.forbidden.dubble: there is no such exercise; did you mean 'double'?" in done.stderr


def test_broken_hidden_tests_are_told_in_a_few_lines(course):
    (course / "tests_hidden" / "test_toy.py").write_text("import nothing_of_this_name\n")
    done = run("grade", "in", "--out", "out", cwd=course)
    assert done.returncode == 2 and "nothing_of_this_name" in done.stderr


def test_without_a_sandbox_every_verdict_and_the_page_say_so(course):
    done = run("grade", "in", "--out", "out", "--sandbox", "none", cwd=course)
    assert done.returncode == 0 and "no sandbox" in done.stderr
    assert verdict(course, "student01").sandbox is None
    assert "without a sandbox" in (course / "out" / "index.html").read_text()


def test_a_missing_layer_is_named_and_nothing_is_run(course):
    """Landlock taken away from the kernel, as far as the zygote can see: it must refuse, not go on with less."""
    code = (
        "import autograder.worker.process as p; make = p.ZygoteProcess.command\n"
        "p.ZygoteProcess.command = lambda self, *a: [part.replace('import main;', 'import main; "
        "from autograder.worker import landlock; landlock.CREATE_RULESET = 999;') for part in make(self, *a)]\n"
        "from autograder.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "grade", "in", "--out", "out"]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Landlock" in done.stderr and "--sandbox=none" in done.stderr and "Traceback" not in done.stderr
    assert not list((course / "out").glob("student*"))


@pytest.mark.parametrize("command", [[], ["grade"], ["check"], ["release"]])
def test_help_shows_an_example(command):
    done = run(*command, "--help")
    assert done.returncode == 0 and (not command or "Example:" in done.stdout)
