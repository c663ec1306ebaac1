"""What a student is told of a failed test: plain words, their own lines, never an expected value or a hidden input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from autograder.judge.errors import NotDefined, StudentError
from autograder.judge.student import Source
from autograder.judge.workers import Limit, WorkerDied
from autograder.properties.evidence import PropertyFailed

MAX_MESSAGE = 1500
INTROSPECTION = re.compile(r"^assert ", re.MULTILINE)  # pytest's own words would show what was expected
NEVER_RAISED = re.compile(r"DID NOT RAISE .*?(\w+)'?>?\)?$")


def explain(error: BaseException, exercise: str, source: Source, answer: Any) -> tuple[str, dict[str, Any] | None]:
    """A message for the student and the evidence beside it. `answer` is what the student's code returned last."""
    if isinstance(error, PropertyFailed):
        return error.evidence.says[:MAX_MESSAGE], error.evidence.to_json()
    return _words(error, exercise, source, answer)[:MAX_MESSAGE], None


def _words(error: BaseException, exercise: str, source: Source, answer: Any) -> str:
    if isinstance(error, NotDefined):
        reason = f" Line {error.line} should have defined it, but failed: {error}" if error.line else ""
        return f"`{exercise}` is not defined in your file.{reason}"
    if isinstance(error, StudentError):
        return _raised(error, exercise, source)
    if isinstance(error, Limit):
        return "Your code did not finish in time. Is there a loop that never ends?"
    if isinstance(error, WorkerDied):
        return f"Your code stopped while it was running: {error}."
    if isinstance(error, AssertionError):
        return INTROSPECTION.split(str(error), maxsplit=1)[0].rstrip()
    if isinstance(error, pytest.fail.Exception):
        match = NEVER_RAISED.search(str(error))
        return f"No {match.group(1)} was raised." if match else str(error)
    return f"Your code returned {describe(answer)}: this is not what the exercise asks for."


def _raised(error: StudentError, exercise: str, source: Source) -> str:
    if error.kind == "NotImplementedError":
        where = error.frames[-1][2] if error.frames else exercise
        own = where in (exercise, "forward", "__init__")
        return "Not done yet." if own else f"It calls `{where}`, which is not done yet."
    lines = [f"Your code raised {error.kind}: {error}" if str(error) else f"Your code raised {error.kind}."]
    return "\n".join(lines + frame_lines(error, source))


def frame_lines(error: StudentError, source: Source) -> list[str]:
    """The student's own frames as Python prints them, from the source text that was handed in."""
    lines = []
    for unit, number, function in error.frames:
        text = (source.text if unit == source.unit else source.others.get(unit, "")).splitlines()
        code = text[number - 1].strip()[:160] if 0 < number <= len(text) else ""
        lines += [f"  {unit}.py, line {number}, in {function[:80]}"] + [f"    {code}"] * bool(code)
    return lines


def syntax_error(error: StudentError, source: Source) -> str:
    """The line and a caret, as Python shows them."""
    _, number, _ = error.frames[0] if error.frames else (source.unit, 1, "1")
    column = int(error.frames[0][2]) if error.frames and error.frames[0][2].isdigit() else 1
    text = source.text.splitlines()
    code = text[number - 1] if 0 < number <= len(text) else ""
    shown, indent = code.strip()[:160], len(code) - len(code.lstrip())
    caret = " " * min(max(column - 1 - indent, 0), 160) + "^"
    return f"Python cannot read line {number} of {source.unit}.py:\n    {shown}\n    {caret}\nSyntaxError: {error}"


def describe(value: Any) -> str:
    """What kind of value this is, without its entries."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and dtype {str(value.dtype)[6:]}"
    if isinstance(value, np.ndarray):
        return f"a numpy array of shape {value.shape}"
    if isinstance(value, (tuple, list)):
        inside = ", ".join(describe(v) for v in value[:3]) + (", ..." if len(value) > 3 else "")
        return f"a {type(value).__name__} of {len(value)} ({inside})"
    return "nothing (None)" if value is None else f"a value of type {type(value).__name__}"
