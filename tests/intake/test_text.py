"""The bytes of a source file become text as its author saw it, whatever editor and system wrote them."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.intake.text import Unreadable, decode
from tests.intake.samples import UNITS, find_submissions, put


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
        (b"x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        (b"x = 1\ry = 2\r", "x = 1\ny = 2\n"),
        ("# -*- coding: cp1251 -*-\nx = 'ж'\n".encode("cp1251"), "# -*- coding: cp1251 -*-\nx = 'ж'\n"),
        (
            "#!/usr/bin/python\n# coding=latin-1\nx = 'é'\n".encode("latin-1"),
            "#!/usr/bin/python\n# coding=latin-1\nx = 'é'\n",
        ),
        (b"# coding: nonsense\nx = 1\n", "# coding: nonsense\nx = 1\n"),
        ("x = '😀'\n".encode(), "x = '😀'\n"),
        (b"if 1:\n\tx = 1\n", "if 1:\n\tx = 1\n"),
    ],
)
def test_every_usual_encoding_and_line_end_is_read_without_a_word(data, text):
    assert decode(data, "attention.py") == (text, [])


@pytest.mark.parametrize(
    ("data", "note"), [("x = 'é'\n".encode("latin-1"), "Latin-1"), ("x = 'é'\n".encode("utf-16"), "UTF-16")]
)
def test_a_guessed_encoding_is_told(data, note):
    text, (told,) = decode(data, "attention.py")
    assert text == "x = 'é'\n" and note in told


def test_a_byte_order_mark_counts_more_than_what_the_file_declares():
    text, notes = decode(codecs.BOM_UTF8 + "# mine\n# coding: latin-1\nx = 'é'\n".encode(), "attention.py")
    assert text == "# mine\n# coding: latin-1\nx = 'é'\n" and not notes


@pytest.mark.parametrize("start", ["import os\n", "# mine\r'''\r"])
def test_a_declaration_counts_only_where_python_looks_for_it(start):
    """Python looks at the first two lines, at the second only below a comment or an empty line."""
    data = f"{start}# coding: cp1251\nx = 'é'\n".encode()
    assert "'é'" in decode(data, "attention.py")[0]


@pytest.mark.parametrize("encoding", ["punycode", "idna", "undefined", "unicode_escape", "rot13", "zlib", "utf-16"])
def test_a_declared_encoding_that_no_editor_writes_is_not_used(encoding):
    """punycode takes minutes for two megabytes; utf-16 would make Chinese of a plain file."""
    source = f"# coding: {encoding}\nx = '\\x41-b'\n"
    assert decode(source.encode(), "attention.py") == (source, [])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        *((b"", "is empty"), (b" \n\t\n", "is empty"), (codecs.BOM_UTF8, "is empty"), (b"x\0y", "NUL")),
        *((b"#" * (3 << 20), "larger than 2 MiB"), (codecs.BOM_UTF16_LE + b"x", "UTF-16")),
    ],
)
def test_a_file_that_is_no_source_is_a_problem_of_that_unit_alone(tmp_path, data, says):
    put(tmp_path / "student01" / "attention.py", data)
    put(tmp_path / "student01" / "masks.py")
    first, second = find_submissions(tmp_path, UNITS)
    assert says in first.problem and first.source == "" and second.problem is None


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([b"", b"# coding: hz\n", b"# coding: utf-8-sig\n", codecs.BOM_UTF16_BE]))
def test_any_bytes_become_text_or_one_clear_line(data, start):
    try:
        text, _ = decode(start + data, "attention.py")
    except Unreadable as error:
        assert "\n" not in str(error)
    else:
        assert "\r" not in text and "\0" not in text
        text.encode()  # no half characters
