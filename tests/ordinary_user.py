"""Run a command as an ordinary user, for tests that are started by root."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.worker import lockdown

ROOT = Path(__file__).parents[1]
NOBODY = 65534
WHO = ["root", "ordinary user"] if os.geteuid() == 0 else ["ordinary user"]


def run_as(
    who: str, command: Sequence[str | Path], timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as root, or as a user without any privilege; where we are no root, as ourselves."""

    def become_ordinary() -> None:
        lockdown.expose_python()  # a Python below a closed home is out of an ordinary user's reach
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)

    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", **environment},
        preexec_fn=become_ordinary if who == "ordinary user" and os.geteuid() == 0 else None,
    )


def hw(*arguments: str | Path) -> list[str | Path]:
    """The command line of `hw` with these arguments, run by this Python."""
    return [sys.executable, "-c", "from autograder.cli import main; main()", *arguments]
