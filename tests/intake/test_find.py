"""Each student's file for each unit is found; nothing is executed, and no student's folder harms another's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from autograder.intake import IntakeError
from autograder.intake.search import Search
from tests.intake.samples import CODE, UNITS, by_unit, find_submissions, notebook, only, put, zipped


@pytest.mark.parametrize(
    "where",
    [
        "student01/attention.py",
        "student01/Attention.PY",
        "student01/attention (1).py",
        "student01/attention-2.py",
        "student01/attention - Copy (2).py",
        "student01/attention_final.py",
        "student01/lastname_12345_67890_attention.py",
        "student01/attention_student01.py",
        "student01/hw1/part a/attention.py",
    ],
)
def test_a_file_is_found_under_the_names_that_people_and_platforms_give_it(tmp_path, where):
    put(tmp_path / where)
    found = only(tmp_path)
    assert (found.student, found.unit, found.source, found.problem) == ("student01", "attention", CODE, None)


@pytest.mark.parametrize(
    "name", ["test_attention.py", "attention.py.txt", "attention.pyc", "notes.md", "my_attentions.py"]
)
def test_other_files_are_not_taken_for_the_unit(tmp_path, name):
    put(tmp_path / "student01" / name)
    put(tmp_path / "student01" / "masks.py")
    assert only(tmp_path).unit == "masks" and not only(tmp_path).notes


def test_a_name_that_only_contains_the_units_is_told(tmp_path):
    put(tmp_path / "student01" / "attention_smith.py")
    assert "attention_smith.py was taken for attention" in only(tmp_path).notes[0]


@pytest.mark.parametrize("student", ["student 01", "Стюдент", "学生01", "student01 😀", "=cmd()", "a'b\"c"])
def test_students_may_be_called_what_they_like(tmp_path, student):
    put(tmp_path / student / "attention.py")
    assert only(tmp_path).student == student


def test_submissions_are_sorted_by_student_and_then_in_the_order_of_the_units(tmp_path):
    for student in ("b", "a"):
        for unit in ("masks", "attention"):
            put(tmp_path / student / f"{unit}.py")
    found = [(s.student, s.unit) for s in find_submissions(tmp_path, UNITS)]
    assert found == [("a", "attention"), ("a", "masks"), ("b", "attention"), ("b", "masks")]


@pytest.mark.parametrize(
    ("taken", "left", "reason"),
    [
        ("deep/down/attention.py", "attention (1).py", "closer to the unit's"),
        ("deep/attention.ipynb", "work.zip", "not in a zip"),
        ("deep/attention.py", "attention.ipynb", "before a notebook"),
        ("attention.py", "a/attention.py", "less deep"),
        ("b/attention.py", "a/attention.py", "newer"),
    ],
)
def test_of_two_candidates_one_is_taken_by_a_rule_that_is_told(tmp_path, taken, left, reason):
    contents = {".py": "this = 1\n", ".ipynb": notebook("this = 1")}
    path = put(tmp_path / "student01" / taken, contents[Path(taken).suffix])
    other = tmp_path / "student01" / left
    if left.endswith(".zip"):
        zipped(other, {"attention.py": "that = 2\n"})
    else:
        put(other, "that = 2\n")
    os.utime(path, (2e9, 2e9))
    os.utime(other, (1e9, 1e9))
    found = only(tmp_path)
    assert "this = 1" in found.source and found.path == path
    assert f"{taken} was taken, not {left}" in found.notes[0] and reason in found.notes[0]


def test_a_candidate_that_cannot_be_read_gives_way_to_the_next(tmp_path):
    put(tmp_path / "student01" / "attention.py", b"")
    put(tmp_path / "student01" / "attention.ipynb", notebook("x = 4"))
    found = only(tmp_path)
    assert "x = 4" in found.source and found.notes == ("attention.py is empty",)


def test_candidates_that_cannot_be_read_are_tried_a_few_times_only(tmp_path):
    """A thousand notebooks, each made to take seconds, would stop everybody's grading."""
    for number in range(5):
        put(tmp_path / "student01" / f"attention{number}.py", b"")
    assert only(tmp_path).problem.endswith("attention2.py is empty; 2 more files for this unit were not tried")


def test_a_students_other_units_come_along_for_imports(tmp_path):
    put(tmp_path / "student01" / "attention.py", "a = 1\n")
    put(tmp_path / "student01" / "masks.py", "b = 2\n")
    first, second = find_submissions(tmp_path, UNITS)
    assert first.others == {"masks": "b = 2\n"} and second.others == {"attention": "a = 1\n"}


LEFT_BEHIND = (
    *("._attention.py", ".ipynb_checkpoints/attention.ipynb", "__pycache__/attention.py", "__MACOSX/._attention.py"),
    *(".venv/masks.py", "env/lib/site-packages/masks.py", ".DS_Store"),
)


def test_what_systems_leave_behind_is_passed_over(tmp_path):
    put(tmp_path / "student01" / "attention.py")
    for name in LEFT_BEHIND:
        put(tmp_path / "student01" / name, b"\0")
    zipped(tmp_path / "student02.zip", {"attention.py": CODE, **dict.fromkeys(LEFT_BEHIND, b"\0")})
    put(tmp_path / ".DS_Store", b"\0")
    put(tmp_path / "__MACOSX" / "student01" / "attention.py", b"\0")
    found = find_submissions(tmp_path, UNITS)
    assert [(s.student, s.source, s.notes) for s in found] == [("student01", CODE, ()), ("student02", CODE, ())]


# -- links ------------------------------------------------------------------------------------------------------------
def test_a_link_out_of_the_students_folder_is_not_followed(tmp_path):
    """Else a student hands in the grader's files, or another student's, as output of their own."""
    secret = put(tmp_path / "secret.py", "password = 1\n")
    (tmp_path / "in" / "student01").mkdir(parents=True)
    (tmp_path / "in" / "student01" / "attention.py").symlink_to(secret)
    (tmp_path / "in" / "student01" / "masks.py").symlink_to("/dev/zero")
    (tmp_path / "in" / "student02").mkdir()
    (tmp_path / "in" / "student02" / "attention.py").symlink_to("../student03/attention.py")
    put(tmp_path / "in" / "student03" / "attention.py")
    *linked, last = find_submissions(tmp_path / "in", UNITS)
    assert len(linked) == 3 and last.problem is None
    assert all("leads out" in s.problem and s.source == "" for s in linked)


def test_a_student_folder_that_is_a_link_out_of_the_folder_is_not_followed_and_not_forgotten(tmp_path):
    put(tmp_path / "elsewhere" / "attention.py")
    zipped(tmp_path / "elsewhere" / "work.zip", {"attention.py": CODE})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "student01").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "student02.zip").symlink_to(tmp_path / "elsewhere" / "work.zip")
    found = find_submissions(tmp_path / "in", UNITS)
    assert {s.student for s in found} == {"student01", "student02"} and not any(s.source for s in found)
    assert all("leads out" in s.problem for s in found)


def test_a_link_within_the_students_folder_is_followed(tmp_path):
    put(tmp_path / "student01" / "code" / "mine.py")
    (tmp_path / "student01" / "attention.py").symlink_to("code/mine.py")
    assert only(tmp_path).source == CODE


def test_links_in_circles_end_however_many_there_are(tmp_path):
    """Forty links to one's own folder are 40 ** 6 paths."""
    put(tmp_path / "student01" / "attention.py")
    for number in range(40):
        (tmp_path / "student01" / f"again{number}").symlink_to(".")
    (tmp_path / "student01" / "itself").symlink_to("itself")
    (tmp_path / "student01" / "masks.py").symlink_to("masks.py")
    found = by_unit(tmp_path)
    assert found["attention"].source == CODE and "masks.py cannot be read" in found["masks"].problem


# -- what is no file, and too much of it ------------------------------------------------------------------------------
def test_a_pipe_or_a_folder_with_a_units_name_does_not_stop_the_run(tmp_path):
    (tmp_path / "student01").mkdir()
    os.mkfifo(tmp_path / "student01" / "attention.py")
    put(tmp_path / "student01" / "masks.py" / "inner.py")
    first, second = find_submissions(tmp_path, UNITS)
    assert "no regular file" in first.problem and "is a folder" in second.problem


def test_what_may_not_be_read_says_so_and_costs_no_other_student(tmp_path, monkeypatch):
    """Root may read everything, so the refusal is made here."""
    closed = put(tmp_path / "student01" / "attention.py").parent
    put(tmp_path / "student02" / "masks.py").chmod(0)
    real = os.scandir

    def scandir(path):
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(type(closed), "open", lambda path, mode: scandir(closed))
    first, _, last = find_submissions(tmp_path, UNITS)
    assert first.problem == "student01 cannot be read: Permission denied"
    assert last.student == "student02" and last.problem == "masks.py cannot be read: Permission denied"


def test_a_folder_full_of_other_things_does_not_hide_the_submission(tmp_path):
    put(tmp_path / "student01" / "masks.py")
    for number in range(60):
        put(tmp_path / "student01" / f"{number}.png", b"")
        put(tmp_path / "student01" / "a" / f"{number}.py", b"")
    found = Search(tmp_path, UNITS, files_left=50)
    found.look_through(tmp_path / "student01")
    assert "masks" in found.candidates and found.remarks == [
        "there are more than 5,000 files; the rest was not searched"
    ]


def test_folders_deeper_than_the_limit_are_told(tmp_path):
    put(tmp_path / "student01" / "attention.py")
    put(tmp_path / "student01" / "/".join("abcdefgh") / "masks.py")
    assert "deeper than 6" in only(tmp_path).notes[0]


def test_a_name_never_breaks_a_line(tmp_path):
    """Problems and notes are lines of a table, a terminal and a page."""
    put(tmp_path / "student01" / "x\n\x1b[31m" / "attention.py")
    put(tmp_path / "student01" / os.fsdecode(b"y\xff") / "attention.py")
    (note,) = only(tmp_path).notes
    assert note.isprintable() and note.encode()


def test_a_folder_that_is_not_there_or_empty_or_a_file_is_a_clear_line(tmp_path):
    for path, says in (
        (tmp_path / "none", "no such folder"),
        (tmp_path, "holds no submission"),
        (put(tmp_path / "f"), "is a file"),
    ):
        with pytest.raises(IntakeError, match=says):
            find_submissions(path, UNITS)


def test_nothing_of_a_submission_is_executed_or_written(tmp_path):
    put(tmp_path / "student01" / "attention.py", "raise SystemExit(3)\nopen('written', 'w')\n")
    put(tmp_path / "student01" / "masks.ipynb", notebook("import os\nos._exit(3)\nx = __import__('os')"))
    before = sorted(p for p in tmp_path.rglob("*"))
    assert len(find_submissions(tmp_path, UNITS)) == 2 and sorted(tmp_path.rglob("*")) == before
    assert "attention" not in sys.modules
