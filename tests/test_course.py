"""grading.toml: every mistake gets a line that says where, what, and what would be right; all at once."""

from __future__ import annotations

import pytest

from autograder.course import CourseError, load_course
from tests.ordinary_user import ROOT

GOOD = '[course]\ntitle = "A"\n[units.attention]\ntitle = "Attention"\n'


def problems(tmp_path, text: str | bytes) -> list[str]:
    path = tmp_path / "grading.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CourseError) as caught:
        load_course(path)
    return str(caught.value).splitlines()


def test_the_courses_own_file_is_read():
    course = load_course(ROOT / "grading.toml")
    assert list(course.units) == ["attention", "masks", "heads"] and course.root == ROOT
    assert course.hidden_tests("masks") == ROOT / "tests_hidden" / "test_masks.py"


def test_what_is_left_out_has_a_sensible_value(tmp_path):
    (tmp_path / "grading.toml").write_text(GOOD)
    course = load_course(tmp_path / "grading.toml")
    assert course.limits.seconds_per_test == 5 and course.units["attention"].points == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD + "points = { future_leak = -2 }", "units.attention.points.future_leak: must be at least 0, is -2"),
        (GOOD + 'points = { a = "3" }', "units.attention.points.a: must be a number, is '3'"),
        (GOOD + "points = { a = nan }", "units.attention.points.a: must be a finite number, is nan"),
        (GOOD + "ponits = { a = 1 }", "units.attention.ponits: is not known here; did you mean 'points'?"),
        (GOOD + 'forbidden = { attention = "sdpa" }', "units.attention.forbidden.attention: must be a list, is 'sdpa'"),
        (GOOD + "deadline = 5", "units.attention.deadline: must be a date and time, is 5"),
        (GOOD + "[limits]\nseconds_per_test = 0", "limits.seconds_per_test: must be above 0, is 0"),
        (GOOD + "[limits]\nmemory_mb = 1.5", "limits.memory_mb: must be a whole number, is 1.5"),
        (GOOD + "[limit]\n", "limit: is not known here; did you mean 'limits'?"),
        (GOOD.replace("title", "titel", 1), "course.title: is missing"),
        ('[course]\ntitle = "A"\n', "units: is missing"),
        ('[course]\ntitle = "A"\n[units]\n', "units: must be a table with an entry, is {}"),
        (GOOD.replace('"A"\n', '"A"\nfeedback = "all"\n'), "course.feedback: must be one of"),
    ],
)
def test_a_mistake_gets_a_line_with_its_place_and_what_would_be_right(tmp_path, text, line):
    assert any(told.startswith(f"grading.toml: {line}") for told in problems(tmp_path, text))


def test_all_mistakes_are_told_at_once(tmp_path):
    assert len(problems(tmp_path, GOOD + "points = { a = -1, b = -1 }\n[limits]\nmemory_mb = 1\n")) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [("[course\n", "not TOML"), (GOOD + GOOD, "not TOML"), (b"\xff\xfe", "is not UTF-8"), ("", "missing")],
)
def test_a_file_that_is_no_toml_says_so(tmp_path, text, says):
    assert says in problems(tmp_path, text)[0]


def test_a_file_that_is_not_there_or_a_folder_says_so(tmp_path):
    for path, says in ((tmp_path / "none.toml", "no such file"), (tmp_path, "cannot be read")):
        with pytest.raises(CourseError, match=says):
            load_course(path)


def test_points_and_forbidden_names_are_held_against_the_hidden_tests(tmp_path):
    text = GOOD + "points = { future_leek = 1 }\nforbidden = { atention = ['f'], scale = ['g'] }\n"
    (tmp_path / "grading.toml").write_text(text)
    course = load_course(tmp_path / "grading.toml")
    lines = course.check_tests("attention", ["future_leak"], {"attention": True, "scale": False})
    assert lines == [
        "grading.toml: units.attention.points.future_leek: there is no such test; did you mean 'future_leak'?",
        "grading.toml: units.attention.forbidden.atention: there is no such exercise; did you mean 'attention'?",
        "grading.toml: units.attention.forbidden.scale: no hidden test looks: set by_hand=True in its Contract",
        "grading.toml: units.attention.forbidden.attention: its by_hand duty needs the names that are forbidden",
    ]
