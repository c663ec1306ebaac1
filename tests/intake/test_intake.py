"""Whatever students hand in becomes text or a clear line; nothing is executed, no student's file harms another's."""

from __future__ import annotations

import json
import os
import stat
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.intake import IntakeError, Submission, find_submissions
from autograder.intake.notebook import definitions
from autograder.intake.text import Unreadable

UNITS = ["attention", "masks"]
CODE = "def attention(q, k, v):\n    return q\n"


def put(path: Path, content: str | bytes = CODE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(path: Path, **entries: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "source": cell.splitlines(True), "metadata": {}, "outputs": []} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def only(folder: Path) -> Submission:
    (found,) = find_submissions(folder, UNITS)
    return found


@pytest.mark.parametrize(
    "where",
    [
        "student01/attention.py",
        "student01/Attention.py",
        "student01/attention (1).py",
        "student01/attention-2.py",
        "student01/attention_final.py",
        "student01/lastname_12345_67890_attention.py",
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
    assert only(tmp_path).unit == "masks"


@pytest.mark.parametrize("student", ["student 01", "Стюдент", "学生01", "student01 😀", "=cmd()", "a'b\"c"])
def test_students_may_be_called_what_they_like(tmp_path, student):
    put(tmp_path / student / "attention.py")
    assert only(tmp_path).student == student


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n", ""),
        (b"x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n", ""),
        (b"x = 1\ry = 2\r", "x = 1\ny = 2\n", ""),
        ("x = 'é'\n".encode("latin-1"), "x = 'é'\n", "Latin-1"),
        ("# -*- coding: cp1251 -*-\nx = 'ж'\n".encode("cp1251"), "# -*- coding: cp1251 -*-\nx = 'ж'\n", ""),
        (b"# coding: nonsense\nx = 1\n", "# coding: nonsense\nx = 1\n", ""),
        ("x = 1\n".encode("utf-16"), "x = 1\n", "UTF-16"),
        ("x = '😀'\n".encode(), "x = '😀'\n", ""),
        (b"if 1:\n\tx = 1\n", "if 1:\n\tx = 1\n", ""),
    ],
)
def test_every_usual_encoding_and_line_end_is_read(tmp_path, data, text, note):
    put(tmp_path / "student01" / "attention.py", data)
    found = only(tmp_path)
    assert found.source == text and found.problem is None
    assert note in " ".join(found.notes) and bool(found.notes) == bool(note)


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", "is empty"), (b" \n\t\n", "is empty"), (b"x\0y", "NUL"), (b"#" * (3 << 20), "larger than 2 MiB")],
)
def test_a_file_that_is_no_source_is_a_problem_of_that_unit_alone(tmp_path, data, says):
    put(tmp_path / "student01" / "attention.py", data)
    put(tmp_path / "student01" / "masks.py")
    first, second = find_submissions(tmp_path, UNITS)
    assert says in first.problem and first.source == "" and second.problem is None


def test_of_two_candidates_the_plainer_one_is_taken_and_the_choice_is_told(tmp_path):
    put(tmp_path / "student01" / "attention (1).py", "x = 1\n")
    put(tmp_path / "student01" / "old" / "attention.py", "x = 2\n")
    put(tmp_path / "student01" / "attention.py", "x = 3\n")
    put(tmp_path / "student01" / "attention.ipynb", notebook("x = 4"))
    zipped(tmp_path / "student01" / "attention.zip", **{"attention.py": "x = 5\n"})
    found = only(tmp_path)
    assert found.source == "x = 3\n"
    assert "attention.py was taken, not" in found.notes[0] and "for " in found.notes[0]


def test_of_two_files_alike_the_newer_is_taken(tmp_path):
    for name, age in {"a": 100, "b": 0}.items():
        path = put(tmp_path / "student01" / name / "attention.py", f"x = '{name}'\n")
        os.utime(path, (1e9 - age, 1e9 - age))
    assert only(tmp_path).source == "x = 'b'\n" and "newer" in only(tmp_path).notes[0]


def test_a_candidate_that_cannot_be_read_gives_way_to_the_next(tmp_path):
    put(tmp_path / "student01" / "attention.py", b"")
    put(tmp_path / "student01" / "attention.ipynb", notebook("x = 4"))
    found = only(tmp_path)
    assert "x = 4" in found.source and any("is empty" in note for note in found.notes)


def test_a_students_other_units_come_along_for_imports(tmp_path):
    put(tmp_path / "student01" / "attention.py", "a = 1\n")
    put(tmp_path / "student01" / "masks.py", "b = 2\n")
    first, second = find_submissions(tmp_path, UNITS)
    assert first.others == {"masks": "b = 2\n"} and second.others == {"attention": "a = 1\n"}


def test_what_systems_leave_behind_is_passed_over(tmp_path):
    put(tmp_path / "student01" / "attention.py")
    for name in (
        "._attention.py",
        ".ipynb_checkpoints/attention.ipynb",
        "__pycache__/attention.py",
        "__MACOSX/attention.py",
    ):
        put(tmp_path / "student01" / name, b"\0")
    put(tmp_path / ".DS_Store", b"\0")
    found = only(tmp_path)
    assert found.source == CODE and not found.notes


# -- zips -------------------------------------------------------------------------------------------------------------
def test_a_zip_may_stand_for_a_file_or_for_a_folder(tmp_path):
    zipped(tmp_path / "student01.zip", **{"hw/attention.py": CODE, "hw/masks.ipynb": notebook("x = 1")})
    zipped(tmp_path / "student02" / "work.zip", **{"attention.py": CODE})
    found = find_submissions(tmp_path, UNITS)
    assert [(s.student, s.unit) for s in found] == [
        ("student01", "attention"),
        ("student01", "masks"),
        ("student02", "attention"),
    ]


def test_a_zip_bomb_is_refused_unread_and_only_for_its_student(tmp_path):
    zipped(tmp_path / "student01" / "attention.zip", **{"attention.py": b"0" * (400 << 20)})
    put(tmp_path / "student02" / "attention.py")
    first, second = find_submissions(tmp_path, UNITS)
    assert "bomb" in first.problem and second.problem is None


def test_a_zip_that_lies_about_its_size_is_read_no_further_than_the_limit(tmp_path):
    path = zipped(
        tmp_path / "student01" / "attention.zip", **{"attention.py": b"# " + os.urandom(3 << 20).hex().encode()}
    )
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        size = archive.infolist()[0].file_size
    small = (100).to_bytes(4, "little")
    path.write_bytes(data.replace(size.to_bytes(4, "little"), small))
    found = find_submissions(tmp_path, UNITS)[0]
    assert found.problem is not None or len(found.source) <= 100


def test_a_zip_that_climbs_out_of_its_folder_is_refused_entry_by_entry(tmp_path):
    entries = {
        "../masks.py": CODE,
        "/etc/masks.py": CODE,
        "a\\masks.py": CODE,
        "C:/masks.py": CODE,
        "attention.py": CODE,
    }
    zipped(tmp_path / "student01" / "work.zip", **entries)
    found = only(tmp_path)
    assert found.unit == "attention" and sum("points out of the zip" in note for note in found.notes) >= 3
    assert not (tmp_path / "student01" / "masks.py").exists() and not (tmp_path / "masks.py").exists()


def test_a_link_in_a_zip_is_passed_over(tmp_path):
    info = zipfile.ZipInfo("masks.py")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "student01.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
        archive.writestr("attention.py", CODE)
    assert "is a link" in only(tmp_path).notes[0]


@pytest.mark.parametrize(
    "damage", [lambda d: b"PK nonsense", lambda d: d[: len(d) // 2], lambda d: b"", lambda d: d[:-5]]
)
def test_a_damaged_zip_says_so(tmp_path, damage):
    path = zipped(tmp_path / "student01" / "attention.zip", **{"attention.py": CODE * 50})
    path.write_bytes(damage(path.read_bytes()))
    assert "zip" in find_submissions(tmp_path, UNITS)[0].problem


def test_an_encrypted_zip_asks_for_one_without_password(tmp_path):
    path = zipped(tmp_path / "student01" / "attention.zip", **{"attention.py": CODE})
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1  # the flag of encryption, in the entry's two headers
    path.write_bytes(data)
    assert "encrypted" in only(tmp_path).problem


def test_the_same_name_twice_in_a_zip_is_told(tmp_path):
    (tmp_path / "student01").mkdir()
    with zipfile.ZipFile(tmp_path / "student01" / "work.zip", "w") as archive, pytest.warns(UserWarning):
        archive.writestr("attention.py", "x = 1\n")
        archive.writestr("attention.py", "x = 2\n")
    assert only(tmp_path).source == "x = 1\n" and "twice" in only(tmp_path).notes[0]


# -- what is no file --------------------------------------------------------------------------------------------------
def test_a_link_out_of_the_students_folder_is_not_followed(tmp_path):
    secret = put(tmp_path / "secret.py", "password = 1\n")
    (tmp_path / "in" / "student01").mkdir(parents=True)
    (tmp_path / "in" / "student01" / "attention.py").symlink_to(secret)
    (tmp_path / "in" / "student01" / "masks.py").symlink_to("/dev/zero")
    found = find_submissions(tmp_path / "in", UNITS)
    assert all("leads out" in s.problem and s.source == "" for s in found) and len(found) == 2


def test_a_link_within_the_students_folder_is_followed(tmp_path):
    put(tmp_path / "student01" / "code" / "mine.py")
    (tmp_path / "student01" / "attention.py").symlink_to("code/mine.py")
    assert only(tmp_path).source == CODE


def test_links_in_a_circle_end(tmp_path):
    put(tmp_path / "student01" / "attention.py")
    (tmp_path / "student01" / "again").symlink_to(".")
    (tmp_path / "student01" / "itself").symlink_to("itself")
    assert only(tmp_path).source == CODE


def test_a_pipe_or_a_folder_with_a_units_name_does_not_stop_the_run(tmp_path):
    (tmp_path / "student01").mkdir()
    os.mkfifo(tmp_path / "student01" / "attention.py")
    put(tmp_path / "student01" / "masks.py" / "inner.py")
    first, second = find_submissions(tmp_path, UNITS)
    assert "no regular file" in first.problem and "is a folder" in second.problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_says_so(tmp_path):
    put(tmp_path / "student01" / "attention.py").chmod(0)
    assert "cannot be read" in only(tmp_path).problem


def test_a_folder_that_is_not_there_or_empty_or_a_file_is_a_clear_line(tmp_path):
    for path, says in (
        (tmp_path / "none", "no such folder"),
        (tmp_path, "holds no submission"),
        (put(tmp_path / "f"), "no folder"),
    ):
        with pytest.raises(IntakeError, match=says):
            find_submissions(path, UNITS)


# -- notebooks --------------------------------------------------------------------------------------------------------
CELLS = (
    "%matplotlib inline\n!pip install einops\nimport torch\nfrom torch import nn",
    "RATE = 3e-4\nSIZES = [2 * 4, -1]\nmodel = nn.Linear(2, 2)\nx, y = 1, 2",
    "def f(x):\n    '''%s of !'''\n    return (x\n% 2)\n\n@torch.no_grad()\ndef g(): ...\nprint(f(1))",
    "class Net(nn.Module):\n    pass\n\nfor i in range(10):\n    train(i)\nplt.plot([1])",
    "try:\n    import einops\nexcept ImportError:\n    einops = None\nnet?\n%%time",
    "%%bash\nrm -rf /",
    "half a cell (",
    "if torch.cuda.is_available():\n    launch()",
)


def test_a_notebook_gives_its_definitions_and_nothing_else():
    source, notes = definitions(notebook(*CELLS).encode(), "attention.ipynb")
    for kept in (
        "import torch",
        "RATE = 3e-4",
        "SIZES",
        "x, y = 1, 2",
        "def f(x)",
        "% 2)",
        "@torch.no_grad()",
        "class Net",
        "einops = None",
    ):
        assert kept in source, kept
    for dropped in ("matplotlib", "pip", "nn.Linear", "print", "train", "plot", "rm -rf", "launch", "half"):
        assert dropped not in source, dropped
    compile(source, "attention.py", "exec")
    assert any("code cell 7 is not Python" in note for note in notes) and any("were not run" in note for note in notes)


def test_a_name_that_is_defined_twice_is_told_and_the_later_counts():
    source, notes = definitions(notebook("def f(): return 1", "def f(): return 2").encode(), "attention.ipynb")
    names: dict[str, object] = {}
    exec(source, names)
    assert names["f"]() == 2 and "cells 1 and 2" in notes[0]


def test_format_3_is_read_too():
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["def f():\n", "    return 1\n"]}]}], "nbformat": 3}
    assert "def f()" in definitions(json.dumps(old).encode(), "attention.ipynb")[0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing",
        b"[]",
        b"{}",
        b'{"cells": 3}',
        b'{"cells": [3, null, {"cell_type": "code"}]}',
        b"[" * 100_000,
        b"\xff\xfe\0",
    ],
)
def test_what_is_no_notebook_says_so(data):
    with pytest.raises(Unreadable, match=r"attention\.ipynb"):
        definitions(data, "attention.ipynb")


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
KEYS = st.sampled_from(["cells", "cell_type", "source", "worksheets", "input", "code"])
JSON = st.recursive(LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(KEYS, x, max_size=4), max_leaves=12)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_no_json_breaks_the_reading_of_notebooks(tree):
    with suppress(Unreadable):
        definitions(json.dumps(tree).encode(), "a.ipynb")


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab=()[]{}:'\"#%!? \n\tdefclass@0\\", max_size=60))
def test_no_cell_breaks_the_reading_of_notebooks(cell):
    with suppress(Unreadable):
        source, _ = definitions(notebook(cell).encode(), "a.ipynb")
        compile(source, "a.py", "exec")


def test_nothing_of_a_submission_is_executed_or_written_and_torch_is_not_needed(tmp_path):
    put(tmp_path / "student01" / "attention.py", "raise SystemExit(3)\nopen('written', 'w')\n")
    put(tmp_path / "student01" / "masks.ipynb", notebook("import os\nos._exit(3)\nx = __import__('os')"))
    before = sorted(p for p in tmp_path.rglob("*"))
    assert len(find_submissions(tmp_path, UNITS)) == 2 and sorted(tmp_path.rglob("*")) == before
    assert "attention" not in sys.modules
