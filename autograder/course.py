"""The course as its grading.toml describes it: units, points, limits, forbidden functions."""

from __future__ import annotations

import datetime
import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Points = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class CourseError(Exception):
    """grading.toml has mistakes; the text has a line for each: where, what, and what would be right."""


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Limits(Model):
    """What a submission may use before it is stopped."""

    seconds_per_test: Annotated[float, Field(gt=0, le=600)] = 5.0
    seconds_per_submission: Annotated[float, Field(gt=0, le=3600)] = 60.0
    seconds_to_load: Annotated[float, Field(gt=0, le=600)] = 5.0
    memory_mb: Annotated[int, Field(ge=64, le=1 << 20)] = 512


class Unit(Model):
    """One unit: its title, points that differ from the tests' own, and names that an exercise may not use."""

    title: Annotated[str, Field(min_length=1)]
    points: Mapping[str, Points] = {}
    forbidden: Mapping[str, list[str]] = {}
    deadline: datetime.datetime | None = None


class About(Model):
    title: Annotated[str, Field(min_length=1)]
    feedback: Literal["property", "example", "hint"] = "example"


class Content(Model):
    course: About
    limits: Limits = Limits()
    units: Annotated[Mapping[str, Unit], Field(min_length=1)]


class Course:
    """A course: the folder of its grading.toml, and what that file says."""

    def __init__(self, root: Path, content: Content) -> None:
        self.root, self.content = root, content
        self.title, self.limits, self.units = content.course.title, content.limits, content.units

    def hidden_tests(self, unit: str) -> Path:
        return self.root / "tests_hidden" / f"test_{unit}.py"

    def check_tests(self, unit: str, tests: Sequence[str], exercises: Mapping[str, bool]) -> list[str]:
        """Lines for what grading.toml says of tests and exercises that are not there.

        `exercises` says of each exercise whether its hidden tests look for forbidden names.
        """
        told, lines = self.units[unit], []
        where = f"grading.toml: units.{unit}"
        for name in told.points:
            if name not in tests:
                lines.append(f"{where}.points.{name}: there is no such test{nearest(name, tests)}")
        for name in told.forbidden:
            if name not in exercises:
                lines.append(f"{where}.forbidden.{name}: there is no such exercise{nearest(name, list(exercises))}")
            elif not exercises[name]:
                lines.append(f"{where}.forbidden.{name}: no hidden test looks: set by_hand=True in its Contract")
        for name, looks in exercises.items():
            if looks and not told.forbidden.get(name):
                lines.append(f"{where}.forbidden.{name}: its by_hand duty needs the names that are forbidden")
        return lines


def load_course(path: Path) -> Course:
    """Read a grading.toml. Raises CourseError with one line for each mistake."""
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CourseError(f"{path}: there is no such file") from None
    except UnicodeDecodeError as error:
        raise CourseError(f"{path.name}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise CourseError(f"{path}: cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path.name}: not TOML: {error}") from None
    try:
        return Course(path.resolve().parent, Content.model_validate(tree))
    except ValidationError as error:
        raise CourseError("\n".join(f"{path.name}: {line}" for line in _lines(error))) from None


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean "..."?`, or what there is if nothing is near."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _lines(error: ValidationError) -> Iterator[str]:
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        yield f"{where}: {_what(problem)}"


def _what(problem: Mapping[str, Any]) -> str:
    kind, context, given = problem["type"], problem.get("ctx", {}), problem["input"]
    if kind == "extra_forbidden":
        return f"is not known here{nearest(str(problem['loc'][-1]), _fields(problem['loc'][:-1]))}"
    if kind == "missing":
        return "is missing"
    bounds = {
        "greater_than_equal": ("at least", "ge"),
        "greater_than": ("above", "gt"),
        "less_than_equal": ("at most", "le"),
    }
    if kind in bounds:
        words, key = bounds[kind]
        return f"must be {words} {context[key]:g}, is {given!r}"
    if kind == "literal_error":
        return f"must be one of {context['expected']}, is {given!r}"
    types = {"float_type": "a number", "int_type": "a whole number", "string_type": "a text", "list_type": "a list"}
    types |= {"datetime_type": "a date and time", "finite_number": "a finite number", "string_too_short": "a text"}
    types |= {"mapping_type": "a table", "model_type": "a table", "too_short": "a table with an entry"}
    return f"must be {types[kind]}, is {given!r}" if kind in types else f"{problem['msg']}, is {given!r}"


def _fields(place: Sequence[Any]) -> list[str]:
    """The names that are known in this place of the file."""
    model: type[BaseModel] = Content
    if place:
        model = {"course": About, "limits": Limits, "units": Unit}.get(str(place[0]), Content)  # type: ignore[assignment]
    return list(model.model_fields)
