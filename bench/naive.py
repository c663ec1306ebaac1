"""What a naive design does, as a pytest plugin: a fresh interpreter for each submission, its code beside the tests.

python -m pytest -p bench.naive --submission solutions/attention.py tests_hidden/test_attention.py
"""

from __future__ import annotations

import socket
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from autograder.judge.session import StudentPlugin
from autograder.judge.student import Source, Student
from autograder.worker import submission
from autograder.worker.server import Server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--submission", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    StudentPlugin().pytest_configure(config)


class InProcess(Student):
    """Answers each question in this very process: no worker, no sandbox, no wire."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: None, Source(path.stem, ""))  # type: ignore[arg-type,return-value]
        self._server = Server(socket.socketpair()[0])
        self._server.unit, self._server.sources = path.stem, {path.stem: path.read_text("utf-8")}
        self._server.loaded = submission.load(path.read_text("utf-8"), path.stem)
        self._handles: dict[int, Any] = {}

    def _question(self, kind: str, *rest: Any) -> list[Any]:
        calls = rest[-1]
        if kind == "device":
            return [self._outcome(o) for o in self._server.device(rest[0], calls)]
        return [
            self._taken(self._server.outcome(op, self._real(t), self._real(list(a)), k, o)) for op, t, a, k, o in calls
        ]

    def _real(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._real(v) for v in value]
        if isinstance(value, torch.Generator):
            return value.clone_state()  # as a worker gets one
        return self._handles.get(getattr(value, "ident", None), value)

    def _taken(self, outcome: list[Any]) -> Any:
        value = self._outcome(outcome)
        if isinstance(value, torch.nn.Module):
            parts = self._server.encode(value)
            assert parts is not None
            self._handles[parts["h"][0]] = value
            return self._decode("h", parts["h"])
        return detached(value)


def detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return type(value)(detached(v) for v in value) if isinstance(value, (list, tuple)) else value


@pytest.fixture(scope="session")
def _in_process(request: pytest.FixtureRequest) -> InProcess:
    return InProcess(request.config.getoption("--submission"))


@pytest.fixture
def student(_in_process: InProcess, request: pytest.FixtureRequest) -> InProcess:
    seed = zlib.crc32(f"1 {request.node.name}".encode())
    torch.default_generator.manual_seed(seed)
    _in_process._begin(request.node.name, seed, time.monotonic() + 60)
    return _in_process
