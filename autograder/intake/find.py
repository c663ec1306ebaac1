"""Find each student's file for each unit, and say which was taken where there are several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.intake.cells import MAX_NOTEBOOK
from autograder.intake.names import CONTAINED, PASSED_OVER, ZIP, kind
from autograder.intake.notebook import definitions
from autograder.intake.search import RULES, File, Rank, Search
from autograder.intake.text import MAX_SOURCE, Unreadable, decode

MAX_TRIED = 3  # files for one unit; a notebook made to be slow takes seconds
MAX_NOTES = 20  # of one kind
MAX_LINE = 500  # characters


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


def find_submissions(folder: Path, units: Sequence[str]) -> list[Submission]:
    """All submissions below FOLDER, by student and then in the order of `units`. Raises IntakeError."""
    submissions: list[Submission] = []
    for student, entries in sorted(_by_student(folder).items()):
        submissions += _of_one_student(folder, student, entries, units)
    if not submissions:
        names = ", ".join(f"{unit}.py" for unit in units)
        raise IntakeError(f"{folder} holds no submission: expected STUDENT/UNIT.py, .ipynb or .zip in it, with {names}")
    return submissions


def _by_student(folder: Path) -> dict[str, list[Path]]:
    """Each student's entries of the folder: STUDENT/, STUDENT.zip, or both. Raises IntakeError."""
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        raise IntakeError(f"{folder}: there is no such folder") from None
    except NotADirectoryError:
        raise IntakeError(f"{folder} is a file; give the folder that holds the students' folders") from None
    except OSError as error:
        raise IntakeError(f"{folder} cannot be read: {error.strerror}") from None
    students: dict[str, list[Path]] = {}
    for entry in entries:
        is_folder = _is_folder(entry)
        is_zip = kind(entry.name) == ZIP and not is_folder
        if (is_folder or is_zip) and not PASSED_OVER.match(entry.name):
            students.setdefault(entry.stem if is_zip else entry.name, []).append(entry)
    return students


def _is_folder(entry: Path) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link into a place that is closed to us: the search will say so
        return True


def _of_one_student(folder: Path, student: str, entries: Sequence[Path], units: Sequence[str]) -> Iterator[Submission]:
    search = Search(folder, units)
    for entry in entries:
        search.look_through(entry)
    made = [submission for unit in units if (submission := _submission(search, student, unit))]
    for submission in made:
        others = {o.unit: o.source for o in made if o.unit != submission.unit and o.problem is None}
        yield replace(submission, others=others)


def _submission(search: Search, student: str, unit: str) -> Submission | None:
    """The best candidate, read; one that cannot be read gives way to the next."""
    candidates = sorted(search.candidates.get(unit, []), key=lambda candidate: candidate[0])
    failed = [(path, why) for of, path, why in search.broken if of == unit]
    # What may have held any unit is a problem where nothing else was handed in, and a remark otherwise.
    unnamed = [(path, why) for of, path, why in search.broken if of is None]
    remarks = list(search.remarks)
    if search.candidates:
        remarks += [why for _, why in unnamed]
    else:
        failed += unnamed
    for place, (_, file) in enumerate(candidates[:MAX_TRIED]):
        try:
            source, notes = _source(file)
        except Unreadable as error:
            failed.append((file.path, str(error)))
            continue
        whys = [why for _, why in failed]
        told = [*_few(_choice(candidates[place:], unit)), *_few(remarks), *_few(whys), *_few(notes)]
        return Submission(student, unit, file.path, source, tuple(told))
    if not failed:
        return None
    whys = _few([why for _, why in failed], MAX_TRIED)
    if untried := len(candidates[MAX_TRIED:]):
        whys.append(f"{untried:,} more files for this unit were not tried")
    problem = "; ".join(whys)
    return Submission(student, unit, failed[0][0], "", tuple(_few(remarks)), problem)


def _source(file: File) -> tuple[str, list[str]]:
    """A file's Python text, and notes. Raises Unreadable."""
    if kind(file.name) == ".ipynb":
        return definitions(file.read(MAX_NOTEBOOK), file.shown)
    return decode(file.read(MAX_SOURCE), file.shown)


def _choice(candidates: Sequence[tuple[Rank, File]], unit: str) -> list[str]:
    """Why the first was taken: by which rule it came before the second, or what its odd name was taken for."""
    (rank, taken), *rest = candidates
    if rest:
        rule = next((rule for rule, a, b in zip(RULES, rank, rest[0][0], strict=True) if a != b), RULES[-1])
        others = ", ".join(file.shown for _, file in rest[:3]) + (", ..." if len(rest) > 3 else "")
        return [f"several files for this unit: {taken.shown} was taken, not {others}: {rule}"]
    if rank[0] == CONTAINED:
        return [f"{taken.shown} was taken for {unit}; the name {unit}.py leaves no doubt"]
    return []


def _few(lines: Sequence[str], most: int = MAX_NOTES) -> list[str]:
    """As many lines, and as much of each, as somebody reads."""
    few = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} ..." for line in lines[:most]]
    return [*few, f"and {len(lines) - most:,} more like these"] if len(lines) > most else few
