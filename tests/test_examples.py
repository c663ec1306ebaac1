"""The example submissions are graded as examples/README.md says: the one run that every newcomer sees."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest

from tests.ordinary_user import ROOT, hw

SUBMISSIONS = ROOT / "examples" / "submissions"
FULL, PART, NOTHING, MISSING = "full", "part", "nothing", "missing"
EXPECTED = {  # student: attention, masks, heads
    "student01": (FULL, FULL, FULL),
    "student02": (FULL, FULL, FULL),
    "student03": (FULL, FULL, FULL),
    "student04": (FULL, FULL, FULL),
    "student05": (PART, PART, PART),
    "student06": (PART, PART, PART),
    "student07": (NOTHING, NOTHING, NOTHING),
    "student08": (NOTHING, NOTHING, FULL),
    "student09": (PART, PART, PART),
    "student10": (PART, PART, PART),
    "student11": (NOTHING, NOTHING, NOTHING),
    "student12": (PART, PART, MISSING),
    "student13": (FULL, FULL, NOTHING),
    "student14": (PART, PART, PART),
}
NAMED = [  # a mistake that a student made, and the hidden test that names it
    ("student05", "attention", "rows_sum_to_one"),
    ("student05", "masks", "own_key"),
    ("student05", "heads", "split_keeps_tokens_apart"),
    ("student06", "attention", "scale"),
    ("student06", "masks", "dead_query"),
    ("student06", "heads", "forbidden_keys"),
    ("student10", "attention", "attention_device"),
    ("student10", "masks", "to_blocked_keeps_inputs"),
    ("student14", "masks", "gradients_of_a_dead_query"),
    ("student14", "heads", "fused_future_leak"),
]


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("examples") / "grades"
    command = [str(part) for part in hw("grade", SUBMISSIONS, "--out", out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def verdict(graded: Path, student: str, unit: str) -> dict:
    return json.loads((graded / student / f"{unit}.json").read_text("utf-8"))


def worth(graded: Path, student: str, unit: str) -> str:
    if not (graded / student / f"{unit}.json").exists():
        return MISSING
    given = verdict(graded, student, unit)
    return FULL if given["score"] == given["max_score"] else PART if given["score"] > 0 else NOTHING


def test_every_student_gets_what_the_table_says(graded):
    got = {s: tuple(worth(graded, s, unit) for unit in ("attention", "masks", "heads")) for s in EXPECTED}
    assert got == EXPECTED
    assert [row["student"] for row in csv.DictReader((graded / "grades.csv").open(encoding="utf-8"))] == list(EXPECTED)


@pytest.mark.parametrize(("student", "unit", "test"), NAMED)
def test_a_mistake_is_named_by_its_own_test(graded, student, unit, test):
    tests = {t["name"]: t for exercise in verdict(graded, student, unit)["exercises"] for t in exercise["tests"]}
    assert not tests[test]["passed"] and (tests[test]["message"] or tests[test]["title"])


def test_nobody_who_solved_nothing_is_given_anything(graded):
    for student in ("student07", "student11"):
        for unit in ("attention", "masks", "heads"):
            given = verdict(graded, student, unit)
            assert not any(t["points"] for exercise in given["exercises"] for t in exercise["tests"])


def test_every_example_is_in_the_readme_s_table():
    table = (ROOT / "examples" / "README.md").read_text("utf-8")
    students = {path.name for path in SUBMISSIONS.iterdir()}
    assert students == set(EXPECTED) and all(student in table for student in students)
