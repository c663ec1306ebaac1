"""Hidden tests under plain pytest, for their author: full introspection of a failing assert, `-k`, `--pdb`.

    python -m pytest -p autograder.judge.plugin --submission solutions/attention.py tests_hidden/test_attention.py

The submission runs in a worker, as in grading, but without the sandbox: for one's own code only.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from autograder.judge.session import StudentPlugin
from autograder.judge.student import Source, Student
from autograder.judge.workers import Worker
from autograder.worker.process import ZygoteProcess

SECONDS = 60.0  # a debugger's patience is not a grader's


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--submission", type=Path, help="the file that the hidden tests are run against")
    parser.addoption("--seed", type=int, default=0, help="the grading run's seed")


def pytest_configure(config: pytest.Config) -> None:
    StudentPlugin().pytest_configure(config)
    if config.getoption("--submission") is None:
        raise pytest.UsageError("name the file to test: --submission FILE")


@pytest.fixture(scope="session")
def _submission(request: pytest.FixtureRequest) -> Iterator[Student]:
    path: Path = request.config.getoption("--submission")
    others = {p.stem: p.read_text("utf-8") for p in path.parent.glob("*.py") if p.stem != path.stem}
    zygote = ZygoteProcess(sandbox=False)
    zygote.wait_until_up()
    line = zygote.new_line()
    student = Student(lambda: Worker(line).connected(), Source(path.stem, path.read_text("utf-8"), others))
    yield student
    student._drop()
    line.close()
    zygote.close()


@pytest.fixture
def student(_submission: Student, request: pytest.FixtureRequest) -> Student:
    seed = zlib.crc32(f"{request.config.getoption('--seed')} {request.node.name}".encode())
    torch.default_generator.manual_seed(seed)
    _submission._begin(request.node.name, seed, time.monotonic() + SECONDS)
    return _submission
