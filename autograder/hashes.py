"""What a verdict depends on, in two numbers: it holds for as long as neither changes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.course import Course
from autograder.intake import Submission


def submission_hash(submission: Submission) -> str:
    """Of the unit's source, the student's other units, and what intake said."""
    parts = [submission.source, submission.problem or "", *submission.notes]
    parts += [f"{unit}\n{text}" for unit, text in sorted(submission.others.items())]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def grader_hashes(course: Course, units: Sequence[str], device: str, sandbox: bool) -> dict[str, str]:
    """Per unit, of all that can change a verdict: engine, hidden tests, grading.toml, versions, device, sandbox."""
    engine = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        engine.update(path.read_bytes())
    versions = [importlib.metadata.version(name) for name in ("torch", "numpy", "pytest")]
    common = [engine.hexdigest(), sys.version, *versions, device, str(sandbox), repr(course.limits)]
    hashes = {}
    for unit in units:
        path = course.hidden_tests(unit)
        own = [path.read_text("utf-8") if path.is_file() else "", repr(course.units[unit])]
        hashes[unit] = hashlib.sha256("\0".join(common + own).encode()).hexdigest()
    return hashes
