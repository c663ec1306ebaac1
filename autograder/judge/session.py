"""A pytest session that is configured and collected once; its items then run for one submission after another.

All use of pytest's private interface is in this file (pytest 9.2): _prepareconfig, Config._do_configure,
Session.from_config, perform_collect, and of an item _initrequest, _request, funcargs with the session's _setupstate.
tests/judge/test_session.py proves that plain pytest decides the same.
"""

from __future__ import annotations

import gc
import os
import signal
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy and torch are imported
import pytest
import torch
from _pytest.config import _prepareconfig
from _pytest.main import Session

from autograder.judge.student import AskAgain, Student
from autograder.judge.workers import Limit

PREFIX = "test_"
# --assert=plain: rewritten assertions would show expected values to the student, and cost time when they fail
ARGUMENTS = ["-s", "--strict-markers", "--assert=plain", "--import-mode=importlib", "-c", os.devnull] + [
    argument
    for name in "terminal logging warnings cacheprovider unraisableexception threadexception faulthandler".split()
    for argument in ("-p", f"no:{name}")
]


class HiddenTestsError(Exception):
    """The hidden tests cannot be collected, or a mark is missing; the text says where and what to do."""


@dataclass
class HiddenTest:
    """One hidden test: its marks, and the pytest items (parametrized cases) that must all pass."""

    __test__ = False

    unit: str
    name: str
    exercise: str
    title: str
    worth: float
    seconds: float | None = None  # its own deadline, where it has one
    is_duty: bool = False
    items: list[Any] = field(default_factory=list)

    @property
    def is_last(self) -> bool:
        """The device duty runs last: it may crash a worker without costing any mark."""
        return self.is_duty and self.name.endswith("_device")


@dataclass(frozen=True)
class Outcome:
    """How one hidden test ended: the exception that it raised, if any."""

    error: BaseException | None
    milliseconds: float


class StudentPlugin:
    """The marks, and the `student` fixture, which is whoever is being graded now."""

    def __init__(self) -> None:
        self.student: Student | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "exercise(name): the exercise that a test belongs to")
        config.addinivalue_line(
            "markers", "points(worth, reveals, name): what a test is worth, and what a student sees of it"
        )
        config.addinivalue_line("markers", "limit(seconds): a test's own deadline")

    @pytest.fixture(name="student")
    def student_fixture(self) -> Student | None:
        return self.student


class PreparedSession:
    """The collected hidden tests of all units; `run` runs one of them for one student."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Collect. Raises HiddenTestsError, with pytest's own account, where that fails."""
        for file in files:
            if not file.is_file():
                raise HiddenTestsError(f"{file}: there is no such file of hidden tests")
        self.plugin = StudentPlugin()
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        config = _prepareconfig([*ARGUMENTS, *(str(f) for f in files)], plugins=[self.plugin])
        config._do_configure()
        self.session = Session.from_config(config)
        errors = _CollectErrors()
        config.pluginmanager.register(errors)
        config.hook.pytest_sessionstart(session=self.session)
        self.session.perform_collect()
        if errors.texts or not self.session.items:
            raise HiddenTestsError("the hidden tests cannot be collected:\n" + "\n".join(errors.texts))
        self.units = {f.stem.removeprefix(PREFIX): _hidden_tests(f, self.session.items) for f in files}

    def run(self, test: HiddenTest, student: Student, seed: int, seconds: float) -> Outcome:
        """Run a test's items until one fails. Random inputs depend on the seed and the test's name only."""
        start = time.perf_counter()
        self.plugin.student = student
        error = self._run_items(test, student, seed, test.seconds or seconds)
        if isinstance(error, AskAgain):
            error = self._run_items(test, student, seed, test.seconds or seconds)
        return Outcome(error, (time.perf_counter() - start) * 1e3)

    def _run_items(self, test: HiddenTest, student: Student, seed: int, seconds: float) -> BaseException | None:
        own_seed = zlib.crc32(f"{seed} {test.name}".encode())
        torch.default_generator.manual_seed(own_seed)
        student._begin(test.name, own_seed, time.monotonic() + seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds + 0.5)  # a backstop: calls keep the deadline
        error = None
        for item in test.items:
            error = self._run_item(item)
            if error is not None:
                break
        signal.setitimer(signal.ITIMER_REAL, 0)
        return error

    def _run_item(self, item: Any) -> BaseException | None:
        """pytest's setup, call and teardown of an item, without its hooks and reports: 0.35 ms less an item."""
        if not item._request:
            item._initrequest()
        setups, error = self.session._setupstate, None
        try:
            try:
                setups.setup(item)
                item.runtest()
            finally:
                setups.teardown_exact(None)
        except BaseException as raised:
            error = raised
        item._request, item.funcargs = False, None
        return error

    def freeze(self) -> None:
        """Import what is lazy and freeze the garbage collector's view, before judges fork."""
        torch.testing.assert_close(torch.ones(1), torch.ones(1))
        torch.softmax(torch.randn(2, 4) @ torch.randn(4, 4), -1)
        x = torch.ones(2, requires_grad=True)
        if not torch.cuda.is_available():  # with a GPU, a backward before the fork breaks the children's
            torch.autograd.grad([2 * x], [x], [torch.ones(2)])
        gc.collect()
        gc.freeze()


class _CollectErrors:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.texts.append(str(report.longrepr))


def _hidden_tests(file: Path, items: Sequence[Any]) -> list[HiddenTest]:
    tests: dict[str, HiddenTest] = {}
    unit = file.stem.removeprefix(PREFIX)
    for item in items:
        if item.path != file.resolve():
            continue
        where = f"{file.name}: {item.name}"
        exercise, points = item.get_closest_marker("exercise"), item.get_closest_marker("points")
        if exercise is None or points is None:
            raise HiddenTestsError(f"{where}: needs @exercise on its class and @points(worth, reveals=...) on itself")
        name = points.kwargs.get("name") or getattr(item, "originalname", item.name).removeprefix(PREFIX)
        limit = item.get_closest_marker("limit")
        made = HiddenTest(
            unit,
            name,
            exercise.args[0],
            points.kwargs["reveals"],
            float(points.args[0]),
            limit and float(limit.args[0]),
            is_duty=points.kwargs.get("duty", False),
        )
        known = tests.setdefault(name, made)
        if known.exercise != made.exercise:
            raise HiddenTestsError(f"{where}: another exercise of this unit has a test of this name; names must differ")
        known.items.append(item)
    return list(tests.values())


def on_alarm(signum: int, frame: Any) -> None:
    """The handler of the backstop's alarm."""
    raise Limit("out of time")
