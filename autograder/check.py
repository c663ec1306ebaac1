"""`hw check`: a student's own work against the public tests, in this process, told test by test as they end."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pytest

MARKS = {"passed": ("✓", typer.colors.GREEN), "failed": ("✗", typer.colors.RED), "todo": ("·", typer.colors.YELLOW)}
MAX_LINES, MAX_COLUMNS = 24, 200
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CheckError(Exception):
    """There is nothing to check here; the text says what to do."""


def check_units(folder: Path, units: Sequence[str]) -> int:
    """Check these units, or all that lie here. Returns the exit code. Raises CheckError."""
    found = find_units(folder)
    if not found:
        here = folder.resolve()
        raise CheckError(f"there is no unit in {here}: a unit is a file like attention.py beside its test_attention.py")
    for name in units:
        if name not in found:
            raise CheckError(f"there is no unit {name!r} here; there is {', '.join(found)}")
    results = [check_unit(name, found[name]) for name in units or found]
    return 0 if all(results) else 1


def find_units(folder: Path) -> dict[str, Path]:
    """Unit names and their folders: here, one folder down, or in assignments/."""
    found: dict[str, Path] = {}
    for place in (folder, *sorted(folder.glob("*/")), *sorted(folder.glob("assignments/*/"))):
        for test in sorted(place.glob("test_*.py")):
            unit = test.stem.removeprefix("test_")
            if (place / f"{unit}.py").is_file():
                found.setdefault(unit, place)
    return found


def check_unit(unit: str, place: Path) -> bool:
    """Run one unit's public tests and tell how each ended; true if all passed."""
    typer.secho(f"{unit}", bold=True)
    sys.stdout.flush()
    teller = Teller(place, unit)
    if not teller.can_import():
        return teller.summary()
    import pytest

    names = "terminal logging warnings cacheprovider unraisableexception threadexception faulthandler".split()
    silence = [argument for name in names for argument in ("-p", f"no:{name}")]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # its own root, and no configuration of the folders above
    where = ["-c", os.devnull, "--rootdir", str(place), "--import-mode=prepend"]
    pytest.main([*silence, *where, str(place / f"test_{unit}.py")], plugins=[teller])
    return teller.summary()


class Teller:
    """A pytest plugin that tells a student how each test ended."""

    def __init__(self, place: Path, unit: str) -> None:
        self.place, self.unit = place.resolve(), unit
        self.counts = {"passed": 0, "failed": 0, "todo": 0}
        self.next_step = ""
        self.function: str | None = None  # the test that is running, over all its cases
        self.title, self.outcome, self.explanation = "", "passed", ""
        self.running, self.interrupted = "", False

    def can_import(self) -> bool:
        """Import the student's file before pytest does: if that fails, it is told with their own lines."""
        sys.path.insert(0, str(self.place))
        sys.modules.pop(self.unit, None)
        try:
            importlib.import_module(self.unit)
        except (Exception, SystemExit) as error:
            self.tell("failed", f"{self.unit}.py cannot be imported", self.explain(error))
            return False
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """The student's file could be imported, so this is a name that the tests import from it."""
        if report.failed:
            missing = re.search(r"cannot import name '(\w+)'", str(report.longrepr))
            text = f"{self.unit}.py does not define `{missing.group(1)}`" if missing else str(report.longrepr)
            self.tell("failed", text)

    def pytest_runtest_makereport(self, item: Any, call: pytest.CallInfo[None]) -> None:
        """Called for setup, call and teardown of each test; the cases of a parametrized test are told as one."""
        if call.excinfo is None and call.when != "call":
            return
        function = getattr(item, "originalname", item.name)
        if self.function not in (None, function):
            self.tell_function()
        if self.function is None:
            self.function, self.title = function, title(item)
        if call.excinfo is not None and not self.explanation:
            error = call.excinfo.value
            self.outcome = "todo" if isinstance(error, NotImplementedError) else "failed"
            self.explanation = self.explain(error)

    def pytest_sessionfinish(self) -> None:
        if self.function is not None:
            self.tell_function()

    def pytest_keyboard_interrupt(self) -> None:
        """Stopped by hand, most likely in a loop that never ends: the test that was running has not passed."""
        self.interrupted = True

    def pytest_runtest_setup(self, item: Any) -> None:
        self.running = title(item)

    def tell_function(self) -> None:
        self.tell(self.outcome, self.title, "" if self.outcome == "todo" else self.explanation)
        self.function, self.outcome, self.explanation = None, "passed", ""

    def tell(self, outcome: str, what: str, explanation: str = "") -> None:
        self.counts[outcome] += 1
        mark, colour = MARKS[outcome]
        if outcome != "passed" and not self.next_step:
            self.next_step = what
        note = ": not done yet" if outcome == "todo" else ""
        typer.echo(f"  {typer.style(mark, fg=colour)} {what}{note}")
        for line in explanation.splitlines()[:MAX_LINES]:
            typer.echo(f"      {CONTROL.sub('?', line)[:MAX_COLUMNS]}")
        sys.stdout.flush()

    def explain(self, error: BaseException) -> str:
        """The message; for an error that the student's code raised, also their own frames."""
        if isinstance(error, SyntaxError):
            return "".join(traceback.format_exception_only(error)).replace(f"{self.place}{os.sep}", "")
        own = self.own_frames(error)
        if isinstance(error, AssertionError) and (not own or own[-1].filename.endswith(f"test_{self.unit}.py")):
            return str(error)
        shown = [f for f in own if not f.filename.endswith(f"test_{self.unit}.py")]
        if not shown and isinstance(error, (TypeError, AttributeError)) and "NoneType" in str(error):
            return "your function returned None; is a `return` missing?"
        text = str(error) if type(error).__name__ == "Failed" else f"{type(error).__name__}: {error}"
        return "".join([text + "\n", *traceback.format_list(shown[-4:])]).replace(f"{self.place}{os.sep}", "")

    def own_frames(self, error: BaseException) -> list[traceback.FrameSummary]:
        return [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent == self.place]

    def summary(self) -> bool:
        if self.interrupted:
            typer.echo(f"  stopped while this test ran: {self.running}")
            return False
        total = sum(self.counts.values())
        if not total:
            typer.echo("  there is no test")
            return False
        typer.echo(f"  {self.counts['passed']} of {total} public tests pass", nl=False)
        typer.echo(
            f"; next: {self.next_step}" if self.next_step else "; the hidden tests look at more inputs of the same kind"
        )
        return self.counts["passed"] == total


def title(item: Any) -> str:
    """The first line of a test's docstring, or its name in words."""
    doc = (getattr(item, "function", None) and item.function.__doc__) or ""
    words = str(getattr(item, "originalname", item.name)).removeprefix("test_").replace("_", " ")
    return doc.strip().splitlines()[0].rstrip(".") if doc.strip() else words
