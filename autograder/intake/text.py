"""Bytes of a source file as text: encodings, byte-order marks, line ends."""

from __future__ import annotations

import codecs
import re

MAX_SOURCE = 2 << 20  # bytes of one source file
COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.MULTILINE)
WIDE_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Unreadable(Exception):
    """A file that cannot be graded; the text is one line for student and instructor."""


def decode(data: bytes, name: str) -> tuple[str, list[str]]:
    """The text with \\n line ends and without a byte-order mark, and notes on what was guessed. Raises Unreadable."""
    if len(data) > MAX_SOURCE:
        raise Unreadable(f"{name} is larger than {MAX_SOURCE >> 20} MiB")
    text, notes = _decode(data, name)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise Unreadable(f"{name} is empty")
    if "\0" in text:
        raise Unreadable(f"{name} holds NUL bytes: it is no text; was another file renamed?")
    return text, notes


def _decode(data: bytes, name: str) -> tuple[str, list[str]]:
    for mark, encoding in WIDE_MARKS.items():
        if data.startswith(mark):
            try:
                return data.decode(encoding), [f"{name} was read as {encoding.upper()}"]
            except UnicodeDecodeError:
                raise Unreadable(f"{name} starts like UTF-16 but is not") from None
    cookie = COOKIE.search(b"\n".join(data.split(b"\n", 2)[:2]))
    if cookie:
        try:
            return data.decode(codecs.lookup(cookie.group(1).decode("ascii")).name), []
        except (LookupError, UnicodeDecodeError):
            pass  # the declaration is wrong; Python would refuse, we can do better
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError:
        return data.decode("latin-1"), [f"{name} is not UTF-8 and was read as Latin-1; save it as UTF-8"]
