"""What people read: grades.csv, a page for the instructor, a page for each student. All derived from verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from autograder.files import write_atomically
from autograder.report.feedback import feedback_page
from autograder.report.index import index_page
from autograder.report.table import grades_csv
from autograder.verdict import Verdict

__all__ = ["write_reports"]


def write_reports(verdicts: Sequence[Verdict], out: Path, course: str, units: Mapping[str, str]) -> None:
    """Write OUT/grades.csv, OUT/index.html and OUT/STUDENT/feedback.html; `units` are {name: title}, in order."""
    by_student: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_student[verdict.student].append(verdict)
    for student, own in by_student.items():
        write_atomically(out / student / "feedback.html", feedback_page(student, own, course, units))
    write_atomically(out / "grades.csv", grades_csv(by_student, units))
    write_atomically(out / "index.html", index_page(by_student, course, units))
