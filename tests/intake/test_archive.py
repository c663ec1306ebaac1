"""A zip is read in memory, a file at a time: nothing is unpacked, and its headers are not believed."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.intake.archive import MAX_ENTRIES, members
from autograder.intake.search import Search
from autograder.intake.text import Unreadable
from tests.intake.samples import CODE, UNITS, by_unit, find_submissions, notebook, only, put, zipped


def zip_bytes(entries: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_a_zip_may_stand_for_a_file_or_for_a_folder(tmp_path):
    zipped(tmp_path / "student01.zip", {"hw/attention.py": CODE, "hw/masks.ipynb": notebook("x = 1")})
    zipped(tmp_path / "student02" / "work.zip", {"attention.py": CODE})
    zipped(tmp_path / "student03" / "masks.ZIP", {"top/Masks (1).py": CODE})
    found = find_submissions(tmp_path, UNITS)
    assert [(s.student, s.unit, s.problem) for s in found] == [
        ("student01", "attention", None),
        ("student01", "masks", None),
        ("student02", "attention", None),
        ("student03", "masks", None),
    ]
    assert found[2].path == tmp_path / "student02" / "work.zip"


def test_a_folder_and_a_zip_of_the_same_student_add_up(tmp_path):
    zipped(tmp_path / "student01.zip", {"attention.py": CODE})
    put(tmp_path / "student01" / "masks.py")
    first, second = find_submissions(tmp_path, UNITS)
    assert first.student == second.student and first.others == {"masks": CODE}


def test_a_zip_in_a_zip_is_read_and_no_further(tmp_path):
    """Platforms put each student's upload, a zip already, into one of their own."""
    inner = zip_bytes({"attention.py": CODE})
    zipped(tmp_path / "student01.zip", {"attention.zip": inner})
    zipped(tmp_path / "student02.zip", {"a.zip": zip_bytes({"attention.zip": inner})})
    first, second = find_submissions(tmp_path, UNITS)
    assert first.source == CODE and "zip in a zip in a zip" in second.problem


def test_a_zip_without_the_file_it_is_named_after_says_so(tmp_path):
    zipped(tmp_path / "student01" / "attention.zip", {"homework.py": CODE})
    assert "holds no attention.py" in only(tmp_path).problem


def test_of_two_files_in_a_zip_the_newer_is_taken(tmp_path):
    with zipfile.ZipFile(tmp_path / "student01.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("a/attention.py", (2024, 1, 1, 0, 0, 0)), "x = 'old'\n")
        archive.writestr(zipfile.ZipInfo("b/attention.py", (2024, 1, 2, 0, 0, 0)), "x = 'new'\n")
    assert "new" in only(tmp_path).source and "newer" in only(tmp_path).notes[0]


def test_the_same_name_twice_in_a_zip_is_told_and_the_last_counts_as_when_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "student01.zip", "w") as archive, pytest.warns(UserWarning):
        archive.writestr("attention.py", "x = 1\n")
        archive.writestr("attention.py", "x = 2\n")
    assert only(tmp_path).source == "x = 2\n" and "more than once" in only(tmp_path).notes[0]


def test_two_names_that_print_alike_are_two_files(tmp_path):
    zipped(tmp_path / "student01.zip", {"\n/attention.py": CODE, "\t/attention.py": CODE})
    assert only(tmp_path).source == CODE and only(tmp_path).notes[0].isprintable()


# -- hostile ones -----------------------------------------------------------------------------------------------------
def test_a_zip_bomb_is_refused_unread_and_only_for_its_student(tmp_path):
    zipped(tmp_path / "student01" / "attention.zip", {"attention.py": b"0" * (10 << 20)})
    put(tmp_path / "student02" / "attention.py")
    first, second = find_submissions(tmp_path, UNITS)
    assert "bomb" in first.problem and second.problem is None


def test_a_zip_of_very_many_files_is_refused(tmp_path):
    zipped(tmp_path / "student01.zip", {f"{number}.txt": b"" for number in range(MAX_ENTRIES + 1)})
    assert all("more than 5,000 entries" in s.problem for s in find_submissions(tmp_path, UNITS))


def test_zips_are_read_up_to_a_limit_for_all_of_a_students_together(tmp_path):
    for name in ("a", "b", "c"):
        zipped(tmp_path / "student01" / f"{name}.zip", {f"{name}/attention.py": os.urandom(600)})
    found = Search(tmp_path, UNITS, bytes_left=2000)
    found.look_through(tmp_path / "student01")
    assert len(found.candidates["attention"]) == 2
    assert [why for _, _, why in found.broken] == ["c.zip is too large: at most 100 MiB of zips are read"]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_zip_that_lies_about_its_size_is_read_no_further_than_the_limit(tmp_path, method):
    content = b"# " + os.urandom(3 << 19).hex().encode()
    path = zipped(tmp_path / "student01" / "attention.zip", {"attention.py": content}, method)
    true, small = (struct.pack("<L", size) for size in (len(content), 100))
    path.write_bytes(path.read_bytes().replace(true, small))
    assert "damaged" in only(tmp_path).problem
    (member,) = members(zip_bytes({"attention.py": content}, method), "attention.zip")
    assert len(member.read(1000)) == 1001


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_that_cannot_be_stopped_at_a_limit_is_not_used(tmp_path, method):
    """zipfile unpacks bzip2 a chunk at a time, and a chunk of 2 MiB may hold a terabyte."""
    zipped(tmp_path / "student01" / "attention.zip", {"attention.py": CODE}, method)
    assert "make an ordinary zip" in only(tmp_path).problem


@pytest.mark.parametrize("name", ["../masks.py", "a/../../masks.py", "/etc/masks.py", "..\\masks.py", "C:/masks.py"])
def test_an_entry_that_climbs_out_of_the_zip_is_refused_and_the_rest_is_read(tmp_path, name):
    zipped(tmp_path / "in" / "student01.zip", {name: CODE, "attention.py": CODE})
    before = sorted(tmp_path.rglob("*"))
    found = by_unit(tmp_path / "in")
    assert found["attention"].source == CODE and "points out of the zip" in found["masks"].problem
    assert sorted(tmp_path.rglob("*")) == before


def test_windows_separators_are_separators(tmp_path):
    zipped(tmp_path / "student01.zip", {"hw1\\": b"", "hw1\\attention.py": CODE, "__MACOSX\\masks.py": b"\0"})
    assert only(tmp_path).source == CODE and not only(tmp_path).notes


def test_a_link_in_a_zip_is_passed_over(tmp_path):
    info = zipfile.ZipInfo("masks.py")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "student01.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
        archive.writestr("attention.py", CODE)
    found = by_unit(tmp_path)
    assert "is a link" in found["masks"].problem and found["attention"].problem is None


def test_an_encrypted_zip_asks_for_one_without_password(tmp_path):
    path = zipped(tmp_path / "student01" / "attention.zip", {"attention.py": CODE})
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1  # the flag of encryption, in the entry's two headers
    path.write_bytes(data)
    assert "encrypted" in only(tmp_path).problem


@pytest.mark.parametrize(
    "damage", [lambda d: b"PK nonsense", lambda d: d[: len(d) // 2], lambda d: b"", lambda d: d[:-5]]
)
@pytest.mark.parametrize("where", ["student01/attention.zip", "student01/work.zip", "student01.zip"])
def test_a_damaged_zip_says_so(tmp_path, damage, where):
    path = zipped(tmp_path / where, {"attention.py": CODE * 50})
    path.write_bytes(damage(path.read_bytes()))
    assert "is no readable zip" in find_submissions(tmp_path, UNITS)[0].problem


def test_a_damaged_zip_beside_a_submission_is_only_remarked(tmp_path):
    put(tmp_path / "student01" / "attention.py")
    put(tmp_path / "student01" / "data.zip", b"PK nonsense")
    found = only(tmp_path)
    assert found.source == CODE and found.notes == ("data.zip is no readable zip",)


WHOLE = zip_bytes({"attention.py": CODE, "a/masks.ipynb": notebook("x = 1"), "é.py": "x"})


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_no_damage_breaks_the_reading_of_zips(damage):
    data = bytearray(WHOLE)
    for place, value in damage:
        data[place] = value
    with suppress(Unreadable):
        for member in members(bytes(data), "a.zip"):
            assert member.refusal() or "\n" not in member.shown
            with suppress(Unreadable):
                assert len(member.read(100)) <= 101
