"""Grade many submissions: judges forked from one prepared session, workers from one zygote.

A judge grades some fifty submissions, each with a fresh worker, and is then replaced; after anything odd (a crash, a
limit) at once. A forked judge's first submissions are slow, for it copies the pages that it touches, so reuse pays.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

from autograder.intake import Submission
from autograder.judge.grade import Judge, Settings
from autograder.judge.session import PreparedSession, on_alarm
from autograder.judge.workers import Worker
from autograder.worker.kernel import prctl
from autograder.worker.lockdown import PR_SET_PDEATHSIG
from autograder.worker.process import ZygoteProcess

REUSE = 50  # submissions for one judge
GRACE = 15.0  # seconds that a judge may exceed all limits of a submission before it is killed
SIZE = struct.Struct("<I")


@dataclass
class JudgeProcess:
    """A forked judge as its parent sees it."""

    pid: int
    sock: socket.socket
    index: int  # the submission that it grades now
    deadline: float


class Batch:
    """Grades submissions with `jobs` judges at a time."""

    def __init__(
        self, session: PreparedSession, settings: Settings, zygote: ZygoteProcess, memory_mb: int = 512
    ) -> None:
        self.session, self.settings, self.zygote, self.memory_mb = session, settings, zygote, memory_mb
        self.submissions: Sequence[Submission] = ()
        self.busy: dict[int, JudgeProcess] = {}

    def grade(
        self, submissions: Sequence[Submission], jobs: int
    ) -> Generator[tuple[Submission, str | None], None, None]:
        """Each submission with its verdict's JSON text, as they come; None where the judge itself failed.

        Closing the generator (Ctrl-C) stops the judges, and with them their workers.
        """
        self.submissions = submissions
        waiting = iter(range(len(submissions)))
        try:
            for _ in range(jobs):
                self.start(None, next(waiting, None))
            while self.busy:
                for judge in self.ready():
                    text, reusable = receive(judge.sock)
                    del self.busy[judge.sock.fileno()]
                    done = submissions[judge.index]
                    self.start(judge if reusable else self.stop(judge), next(waiting, None))
                    yield done, text
        finally:
            for judge in self.busy.values():
                self.stop(judge)
            self.busy.clear()

    def start(self, judge: JudgeProcess | None, index: int | None) -> None:
        """Give a submission to this judge, or to a fresh one; None: there is none left, and the judge is let go."""
        if index is None:
            if judge is not None:
                self.stop(judge)
            return
        judge = judge or self.fork()
        judge.index = index
        limits = self.settings
        most = limits.seconds_per_submission + 2 * limits.seconds_per_test + limits.seconds_to_load
        judge.deadline = time.monotonic() + most + GRACE
        with suppress(OSError):  # it died between two submissions: its end of file comes next
            judge.sock.sendall(SIZE.pack(index))
        self.busy[judge.sock.fileno()] = judge

    def ready(self) -> Iterator[JudgeProcess]:
        """Judges that have answered or died. One that hangs is killed, and so is ready in the next round."""
        poll = select.poll()
        for fd in self.busy:
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(500)}
        for judge in self.busy.values():
            if time.monotonic() > judge.deadline:
                os.kill(judge.pid, signal.SIGKILL)
        return iter([self.busy[fd] for fd in ready])

    def fork(self) -> JudgeProcess:
        sock, theirs = socket.socketpair()
        line = self.zygote.new_line()
        if (pid := os.fork()) == 0:
            try:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then stops us
                signal.signal(signal.SIGALRM, on_alarm)
                for other in (sock, self.zygote.control, *(j.sock for j in self.busy.values())):
                    other.close()
                gc.disable()  # a judge lives for some seconds; collecting would touch every page that it shares
                self.serve(theirs, line)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        theirs.close()
        line.close()
        return JudgeProcess(pid, sock, -1, 0.0)

    def serve(self, sock: socket.socket, line: socket.socket) -> None:
        """In the judge: grade what the parent names until it hangs up."""
        torch.set_num_threads(1)
        judge = Judge(self.session, self.settings, Workers(line, self.memory_mb, self.settings.device))
        for count in range(REUSE):
            order = sock.recv(SIZE.size, socket.MSG_WAITALL)
            if len(order) < SIZE.size:
                return
            verdict = judge.grade(self.submissions[SIZE.unpack(order)[0]])
            reusable = count + 1 < REUSE and not judge.odd
            data = verdict.to_json().encode("utf-8", "replace")
            sock.sendall(SIZE.pack(len(data)) + bytes([reusable]) + data)

    @staticmethod
    def stop(judge: JudgeProcess) -> None:
        judge.sock.close()
        with suppress(ProcessLookupError):
            os.kill(judge.pid, signal.SIGKILL)
        os.waitpid(judge.pid, 0)


class Workers:
    """Starts workers, one ahead of need: the zygote forks the next one while the present one is answering."""

    def __init__(self, line: socket.socket, memory_mb: int, device: str) -> None:
        self.line, self.memory_mb, self.device = line, memory_mb, device
        self.spare = self.new()

    def new(self) -> Worker:
        return Worker(self.line, self.memory_mb, self.device)

    def __call__(self) -> Worker:
        worker = self.spare.connected()
        self.spare = self.new()
        return worker


def receive(sock: socket.socket) -> tuple[str | None, bool]:
    """A judge's verdict, and whether it can be given another submission; (None, False) from one that died."""
    try:
        head = sock.recv(SIZE.size + 1, socket.MSG_WAITALL)
        if len(head) == SIZE.size + 1:
            size = SIZE.unpack(head[:-1])[0]
            data = sock.recv(size, socket.MSG_WAITALL)
            if len(data) == size:
                return data.decode(), bool(head[-1])
    except OSError:
        pass
    return None, False
