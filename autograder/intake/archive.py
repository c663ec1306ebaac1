"""Read files out of a zip without unpacking it: no path can climb out, and no header is believed."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import PurePosixPath

from autograder.intake.text import Unreadable, printable

MAX_ENTRIES = 5000
MAX_UNPACKED = 300 << 20  # bytes that all entries together may claim
MAX_RATIO = 200  # of a single large entry
ENTRY_MARK = b"PK\x01\x02"  # opens each entry of the directory
# The others (bzip2, LZMA) unpack a whole block at once: gigabytes, before a limit could stop them.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Member:
    """One file of a zip."""

    twice = False  # an earlier entry has the same path

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, archive_name: str) -> None:
        name = info.filename.replace("\\", "/")  # as old Windows programs write it
        self.archive, self.info = archive, info
        self.is_folder = name.endswith("/")
        self.path = PurePosixPath(name)
        self.shown = f"{archive_name}:{printable(name)}"
        self.written = float("".join(f"{part:02}" for part in info.date_time))  # YYYYMMDDhhmmss

    def refusal(self) -> str | None:
        """Why this entry is not read, if so."""
        if self.path.is_absolute() or ".." in self.path.parts or ":" in self.path.parts[0]:
            return f"{self.shown} points out of the zip and was passed over"
        if stat.S_ISLNK(self.info.external_attr >> 16):
            return f"{self.shown} is a link and was passed over"
        return None

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes and one more, whatever the header says. Raises Unreadable."""
        if self.info.flag_bits & 1:
            raise Unreadable(f"{self.shown} is encrypted; hand in a zip without password")
        if self.info.compress_type not in METHODS:
            raise Unreadable(f"{self.shown} is packed in an unusual way; make an ordinary zip")
        try:
            with self.archive.open(self.info) as file:
                return file.read(limit + 1)
        except Exception:  # damage comes as struct.error, OverflowError, zlib.error and half a dozen others
            raise Unreadable(f"{self.shown} is damaged and cannot be unpacked") from None


def members(data: bytes, name: str) -> list[Member]:
    """The files of a zip; of entries with the same path the last, as unpacking would leave it. Raises Unreadable."""
    if data.count(ENTRY_MARK) > MAX_ENTRIES:  # before zipfile makes an object of each
        raise Unreadable(f"{name} has more than {MAX_ENTRIES:,} entries; hand in your files only")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except Exception:  # as above
        raise Unreadable(f"{name} is no readable zip") from None
    infos = archive.infolist()
    if sum(i.file_size for i in infos) > MAX_UNPACKED or any(_explodes(i) for i in infos):
        raise Unreadable(f"{name} unpacks to far more than its size (a zip bomb?); hand in your files only")
    last: dict[PurePosixPath, Member] = {}
    for info in infos:
        member = Member(archive, info, name)
        if member.path.parts and not member.is_folder:
            member.twice = member.path in last
            last[member.path] = member
    return list(last.values())


def _explodes(info: zipfile.ZipInfo) -> bool:
    return info.file_size > 1 << 20 and info.file_size > MAX_RATIO * max(info.compress_size, 1)
