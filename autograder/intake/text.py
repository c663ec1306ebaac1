"""Bytes of a source file as text: encodings, byte-order marks, line ends."""

from __future__ import annotations

import codecs
import re

MAX_SOURCE = 2 << 20  # bytes of one source file
LINE_END = re.compile(rb"\r\n|\r|\n")
COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
# Python knows some more, which no editor writes and some of which take hours for a megabyte
ENCODINGS = re.compile(
    r"ascii|utf[-_]?8|latin|iso|cp\d|windows|mac|koi8|kz|ptcp|gb|hz|big5|euc|shift|johab|tis", re.IGNORECASE
)


class Unreadable(Exception):
    """A file that cannot be graded; the text is one line for student and instructor."""


def printable(name: str) -> str:
    """A file's name as it can stand in a line: no line ends, no control characters, no broken Unicode."""
    return "".join(c if c.isprintable() else "\ufffd" for c in name)


def decode(data: bytes, name: str) -> tuple[str, list[str]]:
    """The text with \\n line ends and without a byte-order mark, and notes on what was guessed. Raises Unreadable."""
    if len(data) > MAX_SOURCE:
        raise Unreadable(f"{name} is larger than {MAX_SOURCE >> 20} MiB")
    text, notes = _decode(data, name)
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise Unreadable(f"{name} is empty")
    if "\0" in text:
        raise Unreadable(f"{name} holds NUL bytes: it is no text; was another file renamed?")
    return text, notes


def _decode(data: bytes, name: str) -> tuple[str, list[str]]:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16"), [f"{name} was read as UTF-16; save it as UTF-8"]
        except UnicodeDecodeError:
            raise Unreadable(f"{name} starts like UTF-16 but is not") from None
    for encoding in (_declared(data), "utf-8"):
        try:
            return data.decode(encoding), []
        except (LookupError, UnicodeError):
            continue  # the declaration is wrong; Python would refuse, we can do better
    return data.decode("latin-1"), [f"{name} is not UTF-8 and was read as Latin-1; save it as UTF-8"]


def _declared(data: bytes) -> str:
    """The encoding that one of the first two lines declares (PEP 263); a byte-order mark settles it before."""
    if not data.startswith(codecs.BOM_UTF8):
        for line in LINE_END.split(data, maxsplit=2)[:2]:
            if cookie := COOKIE.match(line):
                encoding = cookie.group(1).decode("ascii")
                return encoding if ENCODINGS.match(encoding) else "utf-8"
            if line.strip() and not line.lstrip().startswith(b"#"):
                break
    return "utf-8"
