"""Look through what one student handed in for files that may be a unit's submission."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder.intake.archive import members
from autograder.intake.names import KINDS, PASSED_OVER, ZIP, has_kind, kind, unit_of
from autograder.intake.text import Unreadable, printable

# Of one student: enough for any homework, and an end to whatever else is handed in.
MAX_DEPTH = 6  # folders in folders
MAX_FILES = 5000  # folders, Python files, notebooks, zips and what is in them
MAX_ZIPPED = 100 << 20  # bytes of all zips together
MAX_NESTING = 2  # a zip, and a zip in it

Rank = tuple[int, int, int, int, float, str]
# Why one file comes before another, by the first place in their ranks that tells them apart.
RULES = (
    *("its name is closer to the unit's", "it is not in a zip", "a .py file goes before a notebook"),
    *("it lies less deep", "it is newer", "its name comes first"),
)


@dataclass(frozen=True)
class File:
    """A file on disk or in a zip."""

    name: str
    shown: str  # below the student's folder: `hw/attention.py`, `work.zip:attention.py`
    path: Path  # on disk: a file in a zip has the zip's
    depth: int
    written: float  # comparable among files on disk, and among files in zips
    read: Callable[[int], bytes]  # at most so many bytes and one more. Raises Unreadable
    nesting: int = 0  # zips around it

    def rank(self, fit: int) -> Rank:
        """The smallest is taken; `fit` says how well the name fits the unit's."""
        return fit, self.nesting, KINDS[kind(self.name)], self.depth, -self.written, self.shown


@dataclass
class Search:
    """What was found of one student; several searches (STUDENT/ and STUDENT.zip) add up."""

    folder: Path  # of all submissions
    units: Sequence[str]
    candidates: dict[str, list[tuple[Rank, File]]] = field(default_factory=dict)
    broken: list[tuple[str | None, Path, str]] = field(default_factory=list)  # unit (None: any of them), path, why
    remarks: list[str] = field(default_factory=list)
    files_left: int = MAX_FILES
    bytes_left: int = MAX_ZIPPED
    visited: set[tuple[int, int]] = field(default_factory=set)  # folders, by device and inode

    def look_through(self, entry: Path) -> None:
        """Search a student's folder or zip, breadth first: where it is too much, the files at the top were seen."""
        waiting = deque([(entry, 0)])
        while waiting and self._counted():
            path, depth = waiting.popleft()
            home = entry if depth else self.folder
            name = printable(str(path.relative_to(home)))
            try:
                waiting.extend((below, depth + 1) for below in self._look_at(path, name, depth, home))
            except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
                why = getattr(error, "strerror", None) or "links in a circle"
                self._refuse(path.name, path, f"{name} cannot be read: {why}", depth)

    def _counted(self) -> bool:
        """Count one more file; False once there are too many."""
        self.files_left -= 1
        if self.files_left == -1:
            self.remarks.append(f"there are more than {MAX_FILES:,} files; the rest was not searched")
        return self.files_left >= 0

    def _look_at(self, path: Path, name: str, depth: int, home: Path) -> list[Path]:
        """Take a file; return what lies in a folder. A link is followed only if it stays within `home`."""
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            if not path.resolve().is_relative_to(home.resolve()):
                self._refuse(path.name, path, f"{name} is a link that leads out of the folder: not followed", depth)
                return []
            status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return self._below(path, name, depth, status)
        if stat.S_ISREG(status.st_mode):
            self._take(File(path.name, name, path, depth, status.st_mtime, lambda limit: _read(path, name, limit)))
        elif has_kind(path.name):
            self._refuse(path.name, path, f"{name} is no regular file", depth)
        return []

    def _below(self, path: Path, name: str, depth: int, status: os.stat_result) -> list[Path]:
        """What is worth looking at in a folder; nothing where a link leads back to it."""
        if (status.st_dev, status.st_ino) in self.visited:
            return []
        self.visited.add((status.st_dev, status.st_ino))
        if depth > MAX_DEPTH:
            self.remarks.append(f"{name}: folders deeper than {MAX_DEPTH} were not searched")
            return []
        if depth and kind(path.name) in KINDS:
            self._refuse(path.name, path, f"{name} is a folder, not a file", depth)
        with os.scandir(path) as entries:
            names = [e.name for e in entries if has_kind(e.name) or e.is_symlink() or e.is_dir()]
        return [path / inner for inner in sorted(names) if not PASSED_OVER.match(inner)]

    def _take(self, file: File) -> None:
        named = unit_of(file.name, self.units)
        if kind(file.name) == ZIP:
            self._look_into(file)
        elif kind(file.name) in KINDS and named:
            unit, fit = named
            self.candidates.setdefault(unit, []).append((file.rank(fit), file))

    def _look_into(self, file: File) -> None:
        """Take the files of a zip, and say why it gives none for the unit that it is named after."""
        named = unit_of(file.name, self.units) if file.depth else None  # STUDENT.zip is named after the student
        try:
            for member in members(self._unzippable(file), file.shown):
                parts, name = member.path.parts, member.path.name
                if not has_kind(name) or any(PASSED_OVER.match(part) for part in parts):
                    continue
                if not self._counted():
                    return
                depth, refusal = file.depth + len(parts), member.refusal()
                if depth > MAX_DEPTH + 1 or refusal:
                    why = refusal or f"{member.shown} lies in more than {MAX_DEPTH} folders and was passed over"
                    self._refuse(name, file.path, why, depth)
                    continue
                if member.twice:
                    self.remarks.append(f"{member.shown} is in the zip more than once: the last counts")
                inside = File(name, member.shown, file.path, depth, member.written, member.read, file.nesting + 1)
                self._take(inside)
            if named and named[0] not in self.candidates:
                raise Unreadable(f"{file.shown} holds no {named[0]}.py and no {named[0]}.ipynb")
        except Unreadable as error:
            self._refuse(file.name, file.path, str(error), file.depth)

    def _unzippable(self, file: File) -> bytes:
        """A zip's bytes, where the student's share of them allows it. Raises Unreadable."""
        if file.nesting >= MAX_NESTING:
            raise Unreadable(f"{file.shown} is a zip in a zip in a zip; hand in your files only")
        data = file.read(self.bytes_left)
        if len(data) > self.bytes_left:
            raise Unreadable(f"{file.shown} is too large: at most {MAX_ZIPPED >> 20} MiB of zips are read")
        self.bytes_left -= len(data)
        return data

    def _refuse(self, name: str, path: Path, why: str, depth: int) -> None:
        """Remember what was not read, and for which unit it may have been."""
        named = unit_of(name, self.units) if depth and has_kind(name) else None
        if named or not depth or kind(name) == ZIP:
            self.broken.append((named[0] if named else None, path, why))
        else:
            self.remarks.append(why)


def _read(path: Path, name: str, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}") from None
