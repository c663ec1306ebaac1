"""Find each student's file for each unit, and say which was taken where there are several."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder.intake.archive import members
from autograder.intake.notebook import MAX_NOTEBOOK, definitions
from autograder.intake.text import MAX_SOURCE, Unreadable, decode

MAX_DEPTH, MAX_FILES = 6, 3000  # of one student's folder
MAX_ZIP = 100 << 20  # bytes
PASSED_OVER = re.compile(r"^(\.|__MACOSX$|__pycache__$|node_modules$)")
# what browsers, learning platforms and people add to a file's name
ADDED = re.compile(r"[\s_\-.]*(\(\d+\)|\[\d+\]|copy|kopie|final|solution|v?\d+)$", re.IGNORECASE)
KINDS = {".py": 0, ".ipynb": 1}


class IntakeError(Exception):
    """The folder of submissions cannot be used; the text says why and what to do."""


@dataclass(frozen=True)
class Submission:
    """One student's work on one unit, as text."""

    student: str
    unit: str
    path: Path  # the file that was taken; for a file in a zip, the zip
    source: str  # empty where there is a problem
    notes: tuple[str, ...] = ()
    problem: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)  # the student's other units: {unit: source}


@dataclass(frozen=True)
class _Candidate:
    """A file that may be a unit's submission; the smallest `rank` is taken."""

    shown: str
    path: Path
    rank: tuple[int, int, int, int, float, str]
    read: Callable[[int], bytes]


@dataclass
class _Folder:
    """What was found of one student."""

    student: str
    candidates: dict[str, list[_Candidate]]
    remarks: list[str] = field(default_factory=list)
    broken: list[tuple[Path, str, str | None]] = field(default_factory=list)  # path, why, unit if its name tells


def find_submissions(folder: Path, units: Sequence[str]) -> list[Submission]:
    """All submissions below FOLDER, by student and then in the order of `units`. Raises IntakeError."""
    if not folder.is_dir():
        raise IntakeError(f"{folder}: there is no such folder" if not folder.exists() else f"{folder} is no folder")
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise IntakeError(f"{folder}: cannot be read: {error.strerror}") from None
    found: dict[str, _Folder] = {}
    for entry in entries:
        student = entry.stem if entry.suffix.lower() == ".zip" and not entry.is_dir() else entry.name
        if PASSED_OVER.match(entry.name) or not (entry.is_dir() or entry.suffix.lower() == ".zip"):
            continue
        mine = found.setdefault(student, _Folder(student, {u: [] for u in units}))
        _explore(entry, mine, units, entry if entry.is_dir() else folder, 0)
    submissions = [s for student in sorted(found) for s in _submissions(found[student], units)]
    if not submissions:
        names = ", ".join(f"{u}.py" for u in units)
        raise IntakeError(
            f"{folder} holds no submission: expected FOLDER/STUDENT/UNIT.py, .ipynb or .zip, with {names}"
        )
    return submissions


# -- looking ----------------------------------------------------------------------------------------------------------
def _explore(path: Path, mine: _Folder, units: Sequence[str], home: Path, depth: int) -> None:
    """Collect the candidates below a path. Links are followed only as far as the student's own folder."""
    name = str(path.relative_to(home)) if path != home else path.name
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(home.resolve()):
            return _refuse(mine, path, f"{name} is a link that leads out of the folder and was not followed", units)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            if depth > MAX_DEPTH:
                return mine.remarks.append(f"{name}: folders deeper than {MAX_DEPTH} were not searched")
            if _unit_of(path.name, units) and path.suffix in KINDS:
                _refuse(mine, path, f"{name} is a folder, not a file", units)
            for count, entry in enumerate(sorted(p.name for p in path.iterdir())):
                if count >= MAX_FILES:
                    return mine.remarks.append(f"{name}: more than {MAX_FILES} files; the rest was not searched")
                if not PASSED_OVER.match(entry):
                    _explore(path / entry, mine, units, home, depth + 1)
        elif not stat.S_ISREG(mode):
            _refuse(mine, path, f"{name} is no regular file", units)
        elif path.suffix.lower() == ".zip":
            _explore_zip(path, name, mine, units, depth)
        else:
            _add(mine, units, PurePosixPath(name), path, False, depth, lambda limit: _read(path, limit))
    except (OSError, RuntimeError) as error:
        _refuse(mine, path, f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}", units)


def _explore_zip(path: Path, name: str, mine: _Folder, units: Sequence[str], depth: int) -> None:
    named = _unit_of(path.name, units)
    try:
        found = False
        for member in members(_read(path, MAX_ZIP), name, mine.remarks):
            if any(PASSED_OVER.match(part) for part in member.path.parts) or len(member.path.parts) > MAX_DEPTH:
                continue
            shown = PurePosixPath(f"{name}:{member.path}")
            found |= _add(mine, units, shown, path, True, depth + len(member.path.parts), member.read)
        if not found and named:
            raise Unreadable(f"{name} holds no {named[0]}.py and no {named[0]}.ipynb")
    except Unreadable as error:
        mine.broken.append((path, str(error), named[0] if named else None))


def _refuse(mine: _Folder, path: Path, why: str, units: Sequence[str]) -> None:
    named = _unit_of(path.name, units)
    if named and (path.suffix.lower() in KINDS or path.suffix.lower() == ".zip"):
        mine.broken.append((path, why, named[0]))
    else:
        mine.remarks.append(why)


def _read(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"{path.name} is larger than {limit >> 20} MiB")
    return data


def _add(
    mine: _Folder,
    units: Sequence[str],
    shown: PurePosixPath,
    path: Path,
    in_zip: bool,
    depth: int,
    read: Callable[[int], bytes],
) -> bool:
    suffix = shown.suffix.lower()
    named = _unit_of(shown.name.rpartition(":")[2], units) if suffix in KINDS else None
    if named is None:
        return False
    unit, variant = named
    rank = (variant, int(in_zip), KINDS[suffix], depth, -path.stat().st_mtime, str(shown))
    mine.candidates[unit].append(_Candidate(str(shown), path, rank, read))
    return True


def _unit_of(name: str, units: Sequence[str]) -> tuple[str, int] | None:
    """(unit, 0 for its exact name, 1 for one with additions, 2 for one behind a prefix), or None."""
    stem = PurePosixPath(name).stem
    if stem in units:
        return stem, 0
    bare, shorter = stem.lower(), ADDED.sub("", stem.lower())
    while shorter and shorter != bare:
        bare, shorter = shorter, ADDED.sub("", shorter)
    for unit in units:
        if bare == unit.lower():
            return unit, 1
    for unit in units:
        if re.search(rf"[\s_\-.]{re.escape(unit.lower())}$", bare) and not bare.startswith("test_"):
            return unit, 2
    return None


# -- reading ----------------------------------------------------------------------------------------------------------
def _submissions(mine: _Folder, units: Sequence[str]) -> Iterator[Submission]:
    made = [s for unit in units if (s := _submission(mine, unit)) is not None]
    for s in made:
        others = {o.unit: o.source for o in made if o.unit != s.unit and o.problem is None}
        yield Submission(s.student, s.unit, s.path, s.source, s.notes, s.problem, others)


def _submission(mine: _Folder, unit: str) -> Submission | None:
    """The best candidate, read; one that cannot be read gives way to the next."""
    candidates = sorted(mine.candidates[unit], key=lambda c: c.rank)
    notes = [*mine.remarks, *_choice(candidates)]
    broken = [(path, why) for path, why, of in mine.broken if of in (unit, None)]
    for candidate in candidates:
        name = PurePosixPath(candidate.shown).name
        try:
            if name.lower().endswith(".ipynb"):
                source, read_notes = definitions(candidate.read(MAX_NOTEBOOK), name)
            else:
                source, read_notes = decode(candidate.read(MAX_SOURCE), name)
        except (Unreadable, OSError) as error:
            broken.append((candidate.path, str(error)))
            continue
        return Submission(mine.student, unit, candidate.path, source, (*notes, *(w for _, w in broken), *read_notes))
    if not broken:
        return None
    return Submission(mine.student, unit, broken[0][0], "", tuple(notes), "; ".join(why for _, why in broken))


def _choice(candidates: Sequence[_Candidate]) -> list[str]:
    """Which of several files is taken, and by which rule it came first."""
    if len(candidates) < 2:
        return []
    taken, second = candidates[0], candidates[1]
    rules = (
        *("its name is the unit's", "it is not in a zip", "a .py file goes before a notebook"),
        *("it lies less deep", "it is newer", "its name comes first"),
    )
    rule = next((r for r, a, b in zip(rules, taken.rank, second.rank, strict=True) if a != b), rules[-1])
    rest = ", ".join(c.shown for c in candidates[1:4]) + (", ..." if len(candidates) > 4 else "")
    return [f"several files for this unit: {taken.shown} was taken, not {rest}, for {rule}"]
