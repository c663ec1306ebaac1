"""The zygote's process, as the grader holds it. Imports no torch, so that the zygote starts while the grader does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from autograder.worker.lockdown import LayerMissing


class ZygoteProcess:
    """The worker zygote; any number of judges share it, each by a line of its own."""

    def __init__(self, sandbox: bool = True, device: str = "cpu") -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.tmp = tempfile.mkdtemp(prefix="worker-")  # the mount point of the workers' own tmpfs; stays empty
        environment = {
            "PATH": "/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "2",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking for a GPU in another way would spoil it for forked workers
        }
        if "LD_LIBRARY_PATH" in os.environ:
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        options = json.dumps({"sandbox": sandbox, "device": device, "tmp": self.tmp})
        self.process = subprocess.Popen(
            self.command(str(theirs.fileno()), options),
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
        )
        theirs.close()

    def command(self, *arguments: str) -> list[str]:
        """An isolated Python that sees the engine, and of the course nothing."""
        package = str(Path(__file__).parents[2])
        code = f"import sys; sys.path.insert(0, {package!r}); from autograder.worker.zygote import main; main()"
        return [sys.executable, "-I", "-c", code, *arguments]

    def wait_until_up(self) -> None:
        """Raises LayerMissing where this machine lacks a layer of the sandbox."""
        said = self.control.recv(1000).decode()
        if said != "up":
            self.close()
            raise LayerMissing(said.partition(" ")[2] or "the worker zygote did not start; see its message above")

    def new_line(self) -> socket.socket:
        """A judge's own line: its workers live no longer than this socket."""
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(self.control, [b"line"], [theirs.fileno()])
        theirs.close()
        return line

    def close(self) -> None:
        self.control.close()
        self.process.wait(10)
        with suppress(OSError):
            Path(self.tmp).rmdir()
