"""Read files out of a zip without unpacking it: no path can climb out, and no header is believed."""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from autograder.intake.text import Unreadable

MAX_ENTRIES = 5000
MAX_UNPACKED = 300 << 20  # bytes that all entries together may claim
MAX_RATIO = 200  # of a single large entry


class Member:
    """One regular file of a zip."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, archive_name: str) -> None:
        self.archive, self.info, self.archive_name = archive, info, archive_name
        self.path = PurePosixPath(info.filename)

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes and one more, whatever the header says. Raises Unreadable."""
        try:
            with self.archive.open(self.info) as file:
                return file.read(limit + 1)
        except RuntimeError:
            raise Unreadable(
                f"{self.archive_name}: {self.path.name} is encrypted; hand in a zip without password"
            ) from None
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, ValueError):
            raise Unreadable(f"{self.archive_name}: {self.path.name} is damaged and cannot be unpacked") from None


def members(data: bytes | io.BufferedIOBase, name: str, remarks: list[str]) -> Iterator[Member]:
    """The regular files of a zip; what is refused is told in `remarks`. Raises Unreadable."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data)
        infos = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError):
        raise Unreadable(f"{name} is no readable zip") from None
    if len(infos) > MAX_ENTRIES:
        raise Unreadable(f"{name} has {len(infos):,} entries; at most {MAX_ENTRIES:,} are read")
    if sum(i.file_size for i in infos) > MAX_UNPACKED or any(_explodes(i) for i in infos):
        raise Unreadable(f"{name} unpacks to far more than its size (a zip bomb?); hand in your files only")
    seen: set[str] = set()
    for info in infos:
        path = info.filename
        if info.is_dir():
            continue
        if path.startswith("/") or "\\" in path or ".." in path.split("/") or ":" in path.split("/")[0]:
            remarks.append(f"{name}: the entry {path!r} points out of the zip and was passed over")
        elif stat.S_ISLNK(info.external_attr >> 16):
            remarks.append(f"{name}: the entry {path!r} is a link and was passed over")
        elif path in seen:
            remarks.append(f"{name}: the entry {path!r} is there twice: the first counts")
        else:
            seen.add(path)
            yield Member(archive, info, name)


def _explodes(info: zipfile.ZipInfo) -> bool:
    return info.file_size > 1 << 20 and info.file_size > MAX_RATIO * max(info.compress_size, 1)
