"""A student's page: what holds, what does not yet, what was seen. No test's name, source, input or expected value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autograder.report.page import bar, page, score, shown, told
from autograder.report.svg import matrix_svg
from autograder.verdict import DUTY_ALONE, ExerciseResult, TestResult, Verdict


def feedback_page(student: str, verdicts: Sequence[Verdict], course: str, units: Mapping[str, str]) -> str:
    """The whole page of one student, all units."""
    total, most = sum(v.score for v in verdicts), sum(v.max_score for v in verdicts)
    body = f'<p class="soft">{shown(course)}</p><h1>{shown(student)}</h1>'
    body += f"<p>{score(total, most)} points</p>{bar(total, most)}"
    body += "".join(_unit(v, units.get(v.unit, v.unit)) for v in verdicts)
    return page(f"{student}: feedback", body)


def _unit(verdict: Verdict, title: str) -> str:
    body = f'<h2>{shown(title)} <span class="soft">{score(verdict.score, verdict.max_score)}</span></h2>'
    if verdict.notes:
        body += "<details><summary>About your file</summary><ul>"
        body += "".join(f"<li>{shown(note)}</li>" for note in verdict.notes[:20]) + "</ul></details>"
    if verdict.problem is not None:
        return body + f'<div class="card"><p><b>Nothing could be graded yet.</b></p>{told(verdict.problem)}</div>'
    return body + "".join(_exercise(e) for e in verdict.exercises)


def _exercise(exercise: ExerciseResult) -> str:
    failed = [t for t in exercise.tests if not t.passed]
    passed = [t for t in exercise.tests if t.passed]
    mark = '<span class="mark bad">✗</span>' if failed else '<span class="mark good">✓</span>'
    body = f'<div class="head"><h3>{mark}<code>{shown(exercise.name)}</code></h3>'
    body += f'<span class="soft">{score(exercise.score, exercise.max_score)}</span></div>'
    if exercise.diagnosis is not None:
        body += f"<p><b>{shown(exercise.diagnosis.title)}</b> {shown(exercise.diagnosis.hint)}</p>"
    messages = {t.message for t in failed} - {DUTY_ALONE}
    if failed and not passed and len(messages) == 1 and (message := messages.pop()):
        body += told(message)  # one cause for all: not done yet, not defined, an exception
        return f'<section class="card">{body}</section>'
    body += "".join(_failure(t) for t in failed)
    if passed:
        held = "".join(f'<li><span class="good">✓</span> {shown(t.title)}</li>' for t in passed)
        body += f"<details><summary>{len(passed)} of {len(exercise.tests)} hold</summary><ul>{held}</ul></details>"
    return f'<section class="card">{body}</section>'


def _failure(test: TestResult) -> str:
    points = score(0, test.max_points)
    body = f'<p><span class="mark bad">✗</span>{shown(test.title)} <span class="soft">({points})</span></p>'
    if test.message:
        body += told(test.message)
    return f'<div class="test">{body}{matrix_svg(test.evidence or {})}</div>'
