"""The judge's side of a worker: its clock, its memory limit, what it prints."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from contextlib import suppress

from autograder.worker import wire
from autograder.worker.lockdown import LayerMissing
from autograder.worker.process import ZygoteProcess

MAX_OUTPUT = 1 << 16  # bytes of what a student's code prints that are kept
PAGE = 4096


class WorkerDied(Exception):
    """The worker crashed, used too much memory or broke the protocol."""


class Limit(BaseException):
    """Time is up. A BaseException, so that no `except Exception` in a test swallows it."""


class Worker:
    """One forked worker: its socket, its output pipe, its process id and pidfd.

    Making one only asks the zygote for the fork; `connected` waits for it. One at a time may be under way on a line.
    """

    def __init__(self, line: socket.socket, memory_mb: int = 512, device: str = "cpu") -> None:
        self.line = line
        self.sock, theirs = socket.socketpair()
        self.output, output = os.pipe()
        os.set_blocking(self.output, False)
        request = json.dumps({"limits": {"memory_mb": memory_mb}}).encode()
        socket.send_fds(line, [request], [theirs.fileno(), output])
        theirs.close()
        os.close(output)
        self.pid, self.pidfd = -1, -1
        self.max_pages = ((memory_mb + 400) << 20) // PAGE if device == "cpu" else None
        self.printed, self.deadline = bytearray(), 0.0
        self.outbox = memoryview(b"")  # what is still to be sent, while answers are awaited
        self.poll = select.poll()
        self.poll.register(self.sock, select.POLLIN)
        self.poll.register(self.output, select.POLLIN)
        self.read = wire.reader(self.sock, self.wait)

    def connected(self) -> Worker:
        """This worker, once it is forked."""
        data, fds, _, _ = socket.recv_fds(self.line, 100, 1)
        if not data:
            raise WorkerDied("the worker zygote is gone")
        self.pid, self.pidfd = int(data), fds[0]
        return self

    def wait(self) -> None:
        """Until the socket can be read: keeps the judge's clock, drains the output, looks at the memory when idle."""
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Limit("out of time")
            ready = dict(self.poll.poll(min(left, 0.05) * 1000 + 1))
            if self.output in ready and not self.drain():
                self.poll.unregister(self.output)
            events = ready.get(self.sock.fileno(), 0)
            if events & select.POLLOUT:
                self.push()
            if events & ~select.POLLOUT:
                return
            if not ready:
                self.check_memory()

    def drain(self) -> bool:
        """Read what was printed; False at the end of the pipe."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return True
        self.printed += data[: MAX_OUTPUT - len(self.printed)]
        return bool(data)

    def check_memory(self) -> None:
        try:
            with open(f"/proc/{self.pid}/statm") as statm:  # noqa: PTH123  (called every 50 ms)
                pages = int(statm.read().split()[1])
        except (OSError, IndexError):
            return  # it has ended: the socket says so next
        if self.max_pages is not None and pages > self.max_pages:
            raise WorkerDied("it used more memory than allowed")

    def send(self, frame: bytes) -> None:
        """Raises OSError (the worker is gone), TimeoutError."""
        self.sock.settimeout(max(self.deadline - time.monotonic(), 0.001))
        self.sock.sendall(frame)

    def send_in_time(self, frames: bytes) -> None:
        """Send as the worker takes it, the rest while answers are awaited: neither side may wait for the other."""
        self.outbox = memoryview(frames)
        self.push()

    def push(self) -> None:
        with suppress(BlockingIOError):
            while self.outbox:
                self.outbox = self.outbox[self.sock.send(self.outbox, socket.MSG_DONTWAIT) :]
        self.poll.modify(self.sock, select.POLLIN | (select.POLLOUT if self.outbox else 0))

    def close(self) -> str:
        """Kill the worker; what it printed."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        while len(self.printed) < MAX_OUTPUT and select.select([self.output], [], [], 0)[0] and self.drain():
            pass
        self.sock.close()
        os.close(self.output)
        os.close(self.pidfd)
        return self.printed.decode("utf-8", "replace")


def layers_of(zygote: ZygoteProcess) -> tuple[str, ...] | None:
    """The sandbox's layers as a first worker reports them; None without a sandbox.

    Raises LayerMissing where that worker cannot lock itself down.
    """
    line = zygote.new_line()
    worker = Worker(line).connected()
    worker.deadline = time.monotonic() + 20
    try:
        _, layers = wire.receive(worker.read)
    except (EOFError, Limit):
        raise LayerMissing(worker.close().strip() or "a worker could not lock itself down") from None
    worker.close()
    line.close()
    return None if layers is None else tuple(layers)
