"""Look through what one student handed in for files that may be a unit's submission. Nothing is unpacked to disk."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder.intake.archive import members
from autograder.intake.names import KINDS, PASSED_OVER, ZIP, has_kind, unit_of
from autograder.intake.text import Unreadable, printable

# of one student; enough for any homework, and an end to whatever else is handed in
MAX_DEPTH = 6  # folders in folders
MAX_FILES = 5000  # folders, Python files, notebooks and zips, inside of zips too
MAX_ZIPPED = 100 << 20  # bytes of all zips together
MAX_NESTING = 2  # a zip, and a zip in it


@dataclass(frozen=True)
class Candidate:
    """A file that may be a unit's submission; the smallest `rank` is taken."""

    shown: str
    path: Path
    rank: tuple[int, int, int, int, float, str]  # in the order of RULES
    read: Callable[[int], bytes]  # at most so many bytes and one more. Raises Unreadable, OSError


# why one candidate comes before another, by the place in their ranks that tells them apart
RULES = (
    *("its name is closer to the unit's", "it is not in a zip", "a .py file goes before a notebook"),
    *("it lies less deep", "it is newer", "its name comes first"),
)


@dataclass
class Search:
    """A search of one student's folder, of STUDENT.zip, or of both; `candidates` and what went wrong add up."""

    folder: Path  # of all submissions
    units: Sequence[str]
    candidates: dict[str, list[Candidate]] = field(init=False)
    broken: list[tuple[str | None, Path, str]] = field(default_factory=list)  # unit (None: any), path, why
    remarks: list[str] = field(default_factory=list)
    files_left: int = MAX_FILES
    bytes_left: int = MAX_ZIPPED

    def __post_init__(self) -> None:
        self.candidates = {unit: [] for unit in self.units}
        self._visited: set[tuple[int, int]] = set()

    def look_through(self, entry: Path) -> None:
        """Search the student's folder or zip breadth first: if it is too much, the files at the top were seen."""
        waiting = deque([(entry, 0)])
        while waiting and self._counts():
            path, depth = waiting.popleft()
            name = printable(str(path.relative_to(entry if depth else self.folder)))
            try:
                below = self._look_at(path, name, depth, home=entry if depth else self.folder)
                waiting.extend((inner, depth + 1) for inner in below)
            except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
                why = getattr(error, "strerror", None) or "links in a circle"
                self._refuse(path, f"{name} cannot be read: {why}", whole=not depth)

    def _counts(self) -> bool:
        """Count one more file; False once there were too many."""
        self.files_left -= 1
        if self.files_left == -1:
            self.remarks.append(f"there are more than {MAX_FILES:,} files; the rest was not searched")
        return self.files_left >= 0

    def _look_at(self, path: Path, name: str, depth: int, home: Path) -> Iterator[Path]:
        """Take what is a candidate; return what lies below a folder. Links lead no further than `home`."""
        if path.is_symlink() and not path.resolve(strict=True).is_relative_to(home.resolve()):
            self._refuse(path, f"{name} is a link that leads out of the folder and was not followed", whole=not depth)
            return
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            yield from self._look_into(path, name, depth, status)
        elif not stat.S_ISREG(status.st_mode):
            self._refuse(path, f"{name} is no regular file")
        elif path.suffix.lower() == ZIP:
            self._look_into_zip(lambda limit: read(path, limit), path, path.name, name, depth, 1)
        else:
            self._add(name, path, (0, depth, status.st_mtime), lambda limit: read(path, limit))

    def _look_into(self, path: Path, name: str, depth: int, status: os.stat_result) -> Iterator[Path]:
        if depth > MAX_DEPTH:
            self.remarks.append(f"{name}: folders deeper than {MAX_DEPTH} were not searched")
            return
        if path.suffix.lower() in KINDS:
            self._refuse(path, f"{name} is a folder, not a file")
        if (status.st_dev, status.st_ino) not in self._visited:  # a link may lead back here
            self._visited.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                names = [e.name for e in entries if not PASSED_OVER.match(e.name) and (has_kind(e.name) or e.is_dir())]
            yield from (path / inner for inner in sorted(names))

    def _look_into_zip(
        self, read_zip: Callable[[int], bytes], path: Path, own_name: str, name: str, depth: int, nesting: int
    ) -> None:
        named = unit_of(own_name, self.units)
        unit = named[0] if named and depth else None  # FOLDER/STUDENT.zip: the name is the student's
        try:
            if nesting > MAX_NESTING:
                raise Unreadable(f"{name} is a zip in a zip in a zip; hand in your files only")
            data = read_zip(self.bytes_left)
            if len(data) > self.bytes_left:
                raise Unreadable(f"{name}: zips larger than {MAX_ZIPPED >> 20} MiB in all are not read")
            self.bytes_left -= len(data)
            ...
        except Unreadable as error:
            self.broken.append((unit, path, str(error)))
