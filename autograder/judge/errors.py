"""What the student's code raised, as an exception of the judge's."""

from __future__ import annotations

from typing import Any

PLAIN_ERRORS = {
    error.__name__: error
    for error in (
        *(ValueError, TypeError, RuntimeError, NotImplementedError, AssertionError, IndexError, KeyError),
        *(AttributeError, NameError, ZeroDivisionError, OverflowError, RecursionError, MemoryError),
    )
}


class StudentError(Exception):
    """The student's code raised. It is also of the built-in class of that name, so pytest.raises(ValueError) works.

    `frames` are the student's own frames: (unit, line, function), outermost first.
    """

    kind = "Exception"
    frames: tuple[tuple[str, int, str], ...] = ()


class NotDefined(StudentError):
    """The submission does not define the name; `line` says which of its statements failed to, if any."""

    kind = "NotDefined"
    line = 0


def student_error(kind: Any, text: Any, frames: Any, plain: Any) -> StudentError:
    """The exception for what a worker reports; whatever it sends, this is a StudentError."""
    kind, text = str(kind)[:100], str(text)[:1000]
    base = PLAIN_ERRORS.get(str(plain))
    bases = (StudentError,) if base is None else (StudentError, base)
    error: StudentError = type(kind if kind.isidentifier() else "Error", bases, {})(text)
    error.kind = kind
    error.frames = tuple(
        (str(f[0]), f[1], str(f[2]))
        for f in frames[:10]
        if len(f) == 3 and type(f[1]) is int and type(f[2]) is not dict
    )
    return error
