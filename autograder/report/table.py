"""grades.csv: a row for each student, a column for each unit."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from autograder.verdict import Verdict

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run a cell that starts so


def grades_csv(by_student: Mapping[str, Sequence[Verdict]], units: Mapping[str, str]) -> str:
    """RFC 4180; what was not handed in is blank, and counts as nothing in the total."""
    most = {
        unit: max((v.max_score for own in by_student.values() for v in own if v.unit == unit), default=0.0)
        for unit in units
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(["student", *units, "total", "max_total"])
    for student, own in sorted(by_student.items()):
        scores = {v.unit: v.score for v in own}
        row = [number(scores[unit]) if unit in scores else "" for unit in units]
        writer.writerow([plain(student), *row, number(sum(scores.values())), number(sum(most.values()))])
    return text.getvalue()


def plain(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return "'" + name if name.startswith(FORMULA) else name


def number(value: float) -> str:
    """Points as people write them: 3, 2.5, 0.33."""
    return f"{round(value, 2):g}"
