"""Reports show what verdicts say and nothing else, and a student's text never acts in them."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest

from autograder.report import write_reports
from autograder.report.page import shown
from autograder.report.svg import matrix_svg
from autograder.report.table import grades_csv
from autograder.verdict import Diagnosis, ExerciseResult, TestResult, Verdict

UNITS = {"attention": "Attention", "masks": "Masks"}
NASTY = "<script>alert(1)</script>\"'&\u202e\x1b[31m\x00"
PICTURE = {
    "picture": [[1.0, 0.5], [0.0, 2.0]],
    "allowed": [[True, False], [True, True]],
    "rows": "output",
    "columns": "input",
}
VOID = {"meta", "link", "br", "img", "rect", "path"}


def verdict(student="student01", unit="attention", passed=(True, False), message="it moved", **fields):
    tests = tuple(
        TestResult(
            f"secret_test_{i}",
            f"Property {i} holds",
            ok,
            float(ok),
            1.0,
            "" if ok else message,
            None if ok else PICTURE,
        )
        for i, ok in enumerate(passed)
    )
    given = {"seed": 123456789, "submission_hash": "a1b2c3", "grader_hash": "d4e5f6", "output": "printed secrets"}
    return Verdict(student, unit, (ExerciseResult("attention", tests),), **{**given, **fields})


class Balance(HTMLParser):
    """Counts open tags; any that is closed out of order is a mistake."""

    def __init__(self):
        super().__init__()
        self.open, self.scripts = [], 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script" or any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, tag


def well_formed(text: str) -> None:
    parser = Balance()
    parser.feed(text)
    parser.close()
    assert not parser.open and not parser.scripts


def pages(tmp_path, *verdicts):
    write_reports(verdicts, tmp_path, "A <course>", UNITS)
    return {p.relative_to(tmp_path).as_posix(): p.read_text("utf-8") for p in tmp_path.rglob("*") if p.is_file()}


def test_a_verdict_survives_its_json():
    full = verdict(notes=("a",), limits=("b",), sandbox=("Landlock",))
    full = Verdict.from_json(full.to_json())
    assert full == verdict(notes=("a",), limits=("b",), sandbox=("Landlock",))
    assert Verdict.from_json(verdict(sandbox=None).to_json()).sandbox is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"student": "a"}', "null"])
def test_what_is_no_verdict_is_refused(text):
    with pytest.raises(ValueError, match="not a verdict"):
        Verdict.from_json(text)


def test_everything_is_derived_and_well_formed(tmp_path):
    made = pages(
        tmp_path, verdict(), verdict("student02", passed=(True, True)), verdict("student02", "masks", (False, False))
    )
    assert set(made) == {"grades.csv", "index.html", "student01/feedback.html", "student02/feedback.html"}
    for name, text in made.items():
        if name.endswith(".html"):
            well_formed(text)
    assert "1 of 2" in made["student01/feedback.html"] and "not handed in" in made["index.html"]
    assert "Property 1 holds" in made["student01/feedback.html"] and "it moved" in made["student01/feedback.html"]


def test_the_table_is_read_back_and_blank_where_nothing_was_handed_in():
    text = grades_csv({"student01": [verdict()], "student02": [verdict("student02", "masks")]}, UNITS)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [r["attention"] for r in rows] == ["1", ""] and [r["total"] for r in rows] == ["1", "1"]
    assert {r["max_total"] for r in rows} == {"4"}


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_name_is_no_formula_in_a_spreadsheet(name):
    assert grades_csv({name: [verdict(name)]}, UNITS).splitlines()[1].lstrip('"').startswith("'")


def test_names_with_commas_quotes_and_line_ends_stay_one_cell():
    name = 'a,"b"\nc'
    assert list(csv.reader(io.StringIO(grades_csv({name: [verdict(name)]}, UNITS))))[1][0] == name


def test_nothing_that_a_student_writes_acts_in_a_page(tmp_path):
    made = pages(
        tmp_path,
        verdict("a'b\"<i>", message=NASTY, notes=(NASTY,)),
        verdict("student02", problem=NASTY, limits=(NASTY,)),
    )
    for name, text in made.items():
        if name.endswith(".html"):
            well_formed(text)
            assert "<script>alert" not in text and "\x1b" not in text and "\u202e" not in text and "\0" not in text
            assert "default-src 'none'" in text


def test_what_would_be_invisible_is_made_visible():
    assert shown("a\u202eb\x1b\n") == "a⟨202E⟩b⟨1B⟩\n"


def test_links_to_students_hold_whatever_their_names(tmp_path):
    made = pages(tmp_path, verdict("a b#?é%"))
    assert 'href="a%20b%23%3F%C3%A9%25/feedback.html"' in made["index.html"]


def test_the_students_page_tells_no_test_name_seed_hash_or_output(tmp_path):
    text = pages(tmp_path, verdict())["student01/feedback.html"]
    for hidden in ("secret_test", "123456789", "a1b2c3", "d4e5f6", "printed secrets"):
        assert hidden not in text


def test_one_cause_for_all_tests_of_an_exercise_is_told_once(tmp_path):
    text = pages(tmp_path, verdict(passed=(False,) * 5, message="Not done yet."))["student01/feedback.html"]
    assert text.count("Not done yet.") == 1


def test_a_diagnosis_is_shown_with_its_hint(tmp_path):
    base = verdict()
    exercise = ExerciseResult(
        "attention", base.exercises[0].tests, Diagnosis("axis", "Softmax over the queries.", "Which axis?")
    )
    text = pages(tmp_path, Verdict("student01", "attention", (exercise,)))["student01/feedback.html"]
    assert "Softmax over the queries." in text and "Which axis?" in text


def test_a_problem_stands_in_place_of_the_exercises_and_first_on_the_instructors_page(tmp_path):
    made = pages(tmp_path, verdict(problem="Python cannot read line 2", passed=(False, False), message=""))
    assert (
        "Python cannot read line 2" in made["student01/feedback.html"]
        and "Property 0" not in made["student01/feedback.html"]
    )
    assert made["index.html"].index("Python cannot read line 2") < made["index.html"].index("Scores")


def test_a_run_without_sandbox_is_told_on_the_instructors_page(tmp_path):
    assert "without a sandbox" in pages(tmp_path, verdict(sandbox=None))["index.html"]
    assert "without a sandbox" not in pages(tmp_path / "b", verdict(sandbox=("Landlock",)))["index.html"]


def test_a_picture_says_in_words_and_shape_what_it_shows():
    """Not by colour alone: a cross marks what should be zero, and the label says where."""
    picture = matrix_svg(PICTURE)
    assert (
        'role="img"' in picture
        and "Should be zero and is not: (0, 1)." in picture
        and picture.count('class="cross"') == 1
    )
    well_formed(picture)
    assert matrix_svg({}) == "" and matrix_svg({"picture": None}) == ""
