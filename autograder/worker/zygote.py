"""The worker zygote: a process that has imported torch and no test, and forks a worker for each request.

Each judge has a *line* to it, a socket; `control` brings new lines. A request on a line is one datagram of options with
two descriptors, the worker's socket and its output pipe; the answer is the worker's process id with a pidfd. The zygote
owns the workers: when a line hangs up, because its judge is done or was killed, that line's workers are killed; when
`control` hangs up, all are, and the zygote ends. So nothing outlives the grader, whatever kills it.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import torch

from autograder.worker import device, lockdown, server, wire

FIRST_UID = 200_000
SOCKET, STDIN, STDOUT, STDERR = 3, 0, 1, 2


class Zygote:
    def __init__(self, control: socket.socket, sandbox: bool, device: str, tmp: str) -> None:
        self.control, self.sandbox, self.device, self.tmp = control, sandbox, device, tmp
        self.lines: dict[int, socket.socket] = {}
        self.workers: dict[int, tuple[int, int]] = {}  # pid: (line, slot)
        self.readable = lockdown.readable_paths(device)

    def run(self) -> None:
        """Serve requests until the grader hangs up."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while True:
            for fd, _ in poll.poll(1000):
                if fd == self.control.fileno():
                    _, fds, _, _ = socket.recv_fds(self.control, 100, 1)
                    if not fds:
                        return self.kill(None)
                    self.lines[fds[0]] = socket.socket(fileno=fds[0])
                    poll.register(fds[0], select.POLLIN)
                elif not self.request(fd):
                    poll.unregister(fd)
                    self.kill(fd)
                    self.lines.pop(fd).close()
            self.reap()

    def request(self, line: int) -> bool:
        """Fork one worker; False where the line has hung up."""
        try:
            data, fds, _, _ = socket.recv_fds(self.lines[line], 65536, 2)
        except OSError:
            return False
        if not data:
            return False
        taken = {slot for _, slot in self.workers.values()}
        slot = next(i for i in range(len(taken) + 1) if i not in taken)
        if (pid := os.fork()) == 0:
            self.become_worker(json.loads(data), slot, *fds)
        self.workers[pid] = line, slot
        pidfd = os.pidfd_open(pid)
        with suppress(OSError):  # the judge may be gone: then its line hangs up next
            socket.send_fds(self.lines[line], [str(pid).encode()], [pidfd])
        for fd in (pidfd, *fds):
            os.close(fd)
        return True

    def become_worker(self, options: dict[str, Any], slot: int, sock: int, output: int) -> None:
        """In the child: put the descriptors in place, close every other, lock down, serve. Never returns."""
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            uid = FIRST_UID + os.getppid() % 1000 * 100 + slot
            limits = lockdown.Limits(uid=uid, tmp=self.tmp, device=self.device, **options["limits"])
            kept = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (sock, output, os.open(os.devnull, os.O_RDONLY))]
            for source, target in zip([*kept, kept[1]], (SOCKET, STDOUT, STDIN, STDERR), strict=True):
                os.dup2(source, target)
            self.control.detach()
            for line in self.lines.values():
                line.detach()
            os.closerange(SOCKET + 1, 1 << 20)
            lock = (lambda: lockdown.lock_down(limits, self.readable)) if self.sandbox else None
            server.run(socket.socket(fileno=SOCKET), lock)
        except BaseException as error:
            os.write(STDERR, f"worker: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(0)

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self.workers.pop(pid, None)

    def kill(self, line: int | None) -> None:
        """Kill the workers of one line, or all. They are our children and not reaped yet, so no id can be another's."""
        for pid, (of, _) in self.workers.items():
            if line is None or of == line:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def warm_up(on: str = "cpu") -> None:
    """Import what is lazy, on one thread: after an operation on 2 threads, children that use 2 threads would hang."""
    torch.set_num_threads(1)
    importlib.import_module("torch.fx.experimental.symbolic_shapes")  # by the first backward with cotangents

    layer = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4, requires_grad=True)
    out = torch.softmax(layer(x) @ torch.randn(4, 4), -1)
    if not torch.cuda.is_available():  # with a GPU, a backward before the fork breaks the children's
        torch.autograd.grad([out], [x], [torch.ones_like(out)], allow_unused=True)
    if on == "cpu":
        device.warm_up()
    torch.ones(2, 2, device="meta").tril()  # the meta device computes in Python, and imports half of torch for it
    with server.Watch(["nothing"]):
        torch.nn.functional.scaled_dot_product_attention(x, x, x)
    frame = wire.encode(["x", [torch.ones(1), (1.5, {"a": torch.bool})]])
    wire.decode(frame[8:-4], bytearray(frame[-4:]))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    options = json.loads(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's, which then hangs up
    try:
        if options["sandbox"]:
            lockdown.check_layers()
            lockdown.expose_python()
    except lockdown.LayerMissing as error:
        with suppress(OSError):
            control.send(f"layer {error}".encode())
        return
    warm_up(options["device"])
    zygote = Zygote(control, options["sandbox"], options["device"], options["tmp"])
    gc.collect()
    gc.freeze()
    with suppress(OSError):  # the grader may have found a mistake of its own meanwhile, and be gone
        control.send(b"up")
        zygote.run()


if __name__ == "__main__":
    main()
