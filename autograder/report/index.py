"""The instructor's page: everyone's scores, what went wrong, and how each test did."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from autograder.report.page import bar, page, score, shown
from autograder.report.table import number
from autograder.verdict import DUTY_ALONE, TestResult, Verdict

ByStudent = Mapping[str, Sequence[Verdict]]


def index_page(by_student: ByStudent, course: str, units: Mapping[str, str]) -> str:
    """The whole page."""
    everyone = [v for own in by_student.values() for v in own]
    body = f"<h1>{shown(course)}</h1><p class='soft'>{len(by_student)} students, {len(everyone)} submissions. "
    body += '<a href="grades.csv">grades.csv</a></p>'
    if any(v.sandbox is None for v in everyone):
        body += '<p class="bad"><b>Some submissions were run without a sandbox.</b></p>'
    body += _problems(everyone) + _scores(by_student, units)
    for unit, title in units.items():
        own = [v for v in everyone if v.unit == unit]
        if own:
            body += _unit(title, own)
    return page(course, body, wide=True)


def _link(student: str) -> str:
    return f'<a href="{quote(student)}/feedback.html">{shown(student)}</a>'


def _problems(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for v in verdicts:
        if v.problem or v.limits:
            what = shown(v.problem or "; ".join(dict.fromkeys(v.limits)))
            unit = f"<td class='short'>{shown(v.unit)}</td>"
            rows.append(f"<tr><td class='name'>{_link(v.student)}</td>{unit}<td>{what}</td></tr>")
    if not rows:
        return ""
    return _table("Look at these first", ["student", "unit", "what happened"], rows)


def _scores(by_student: ByStudent, units: Mapping[str, str]) -> str:
    rows = []
    everyone = [v for own in by_student.values() for v in own]
    most = sum(max((v.max_score for v in everyone if v.unit == unit), default=0.0) for unit in units)
    for student, own in sorted(by_student.items()):
        verdicts = {v.unit: v for v in own}
        cells = "".join(_score_cell(verdicts.get(unit)) for unit in units)
        total = sum(v.score for v in own)
        rows.append(f"<tr><td class='name'>{_link(student)}</td>{cells}<td class='num'>{score(total, most)}</td></tr>")
    return _table("Scores", ["student", *units.values(), "#total"], rows)


def _score_cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "<td class='soft'>not handed in</td>"
    return f"<td>{score(verdict.score, verdict.max_score)}{bar(verdict.score, verdict.max_score)}</td>"


def _unit(title: str, verdicts: Sequence[Verdict]) -> str:
    scores = [v.score for v in verdicts]
    spread = statistics.pstdev(scores)
    figures = (
        f"mean {statistics.mean(scores):.1f}, median {statistics.median(scores):.1f}, standard deviation {spread:.1f}, "
    )
    figures += (
        f"of {number(verdicts[0].max_score)} points; {statistics.median(v.milliseconds for v in verdicts):.0f} ms each"
    )
    return f"<h2>{shown(title)}</h2><p class='soft'>{figures}</p>" + _tests(verdicts) + _clusters(verdicts)


def _tests(verdicts: Sequence[Verdict]) -> str:
    """How many pass each test, and whether those who do are the better ones: the test's correlation with the score."""
    rows = []
    for e, exercise in enumerate(verdicts[0].exercises):
        for t, test in enumerate(exercise.tests):
            results = [(_result(v, e, t), v.score) for v in verdicts]
            passed = [float(r.passed) for r, _ in results if r is not None]
            rate = statistics.mean(passed)
            discrimination = _correlation(passed, [s for r, s in results if r is not None])
            told = "–" if discrimination is None else f"{discrimination:.2f}"
            rows.append(
                f"<tr><td><code>{shown(exercise.name)}</code></td><td>{shown(test.title)}</td>"
                f"<td class='num'>{rate:.0%}{bar(rate, 1)}</td><td class='num'>{told}</td></tr>"
            )
    table = _table("", ["exercise", "property", "#pass", "#discrimination"], rows)
    return f"<details><summary>Every test: how many pass it</summary>{table}</details>"


def _result(verdict: Verdict, exercise: int, test: int) -> TestResult | None:
    try:
        return verdict.exercises[exercise].tests[test]
    except IndexError:  # a verdict of an earlier version of the tests
        return None


def _correlation(passed: Sequence[float], scores: Sequence[float]) -> float | None:
    if len(passed) < 3 or len(set(passed)) < 2 or len(set(scores)) < 2:
        return None
    return statistics.correlation(passed, scores)


def _clusters(verdicts: Sequence[Verdict]) -> str:
    """The same failure of the same exercise, with everyone who has it: one comment may serve them all."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for v in verdicts:
        for exercise in v.exercises:
            for test in exercise.tests:
                if not test.passed and v.problem is None:
                    if test.message == DUTY_ALONE:
                        continue
                    key = (
                        exercise.name,
                        test.title if test.message.startswith("Your code") else test.message or test.title,
                    )
                    if v.student not in alike[key]:
                        alike[key].append(v.student)
    largest = sorted(alike.items(), key=lambda item: -len(item[1]))[:25]
    rows = [
        f"<tr><td><code>{shown(name)}</code></td><td>{shown(what[:300])}</td><td class='num'>{len(students)}</td>"
        f"<td>{', '.join(_link(s) for s in students[:12])}{', …' if len(students) > 12 else ''}</td></tr>"
        for (name, what), students in largest
    ]
    if not rows:
        return ""
    table = _table("", ["exercise", "failure", "#students", "who"], rows)
    return f"<details open><summary>Failures, the most frequent first</summary>{table}</details>"


def _table(title: str, columns: Sequence[str], rows: Sequence[str]) -> str:
    """A table; a column's name that starts with # is one of numbers."""
    head = "".join(f"<th{' class=num' if c.startswith('#') else ''}>{shown(c.removeprefix('#'))}</th>" for c in columns)
    name = f"<h2>{shown(title)}</h2>" if title else ""
    return (
        f'{name}<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )
