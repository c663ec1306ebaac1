"""The `student` fixture: a hidden test talks to the student's code as if it were in this process.

student.attention(query, key, value)           calls the student's function in the worker
student.attention.each([(q, k, v), ...])       many calls in one frame; an error among the answers raises when read
student.attention.vjp(args, cotangents)        (output, gradients of the float arguments, gradients of the parameters)
student.attention.after(q, k, v)               (output, the arguments as the call left them)
module = student.MultiHeadAttention(8, 2)      the module stays in the worker; this is its handle
module.parameters, module.state(), module.load(state), module.train(False), module(x), module.vjp([x], [cotangent])
student.beam_search(step, ...)                 `step` runs here, called back from inside the student's call
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import torch

from autograder.judge.calls import Answers, Call
from autograder.judge.errors import NotDefined, StudentError, student_error
from autograder.judge.workers import Limit, Worker, WorkerDied
from autograder.worker import wire

NO_NONCE = "00000000"
OTHER_SEED = 0x5DEECE66
MAX_CALLBACKS = 20_000  # in one question
Result = TypeVar("Result")


def with_nonce(frame: bytes, nonce: str) -> bytes:
    """A question's frame with this nonce in place of NO_NONCE, which stands behind its kind."""
    return frame.replace(NO_NONCE.encode(), nonce.encode(), 1)


class Function:
    """A function or class of the student's."""

    def __init__(self, student: Student, target: Any) -> None:
        self._student, self._target = student, target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._student._ask([(self._target, Call(args, kwargs))])[0]

    def each(self, calls: Iterable[Call | tuple[Any, ...]]) -> Answers:
        """Many calls in one frame; each element is a tuple of arguments or a `call(...)`."""
        made = [c if isinstance(c, Call) else Call(tuple(c)) for c in calls]
        return self._student._ask([(self._target, c) for c in made])

    def vjp(
        self, args: Sequence[Any], cotangents: Sequence[Any], **kwargs: Any
    ) -> tuple[Any, list[Any], dict[str, Any]]:
        """(output, gradients of the float tensors among `args`, {parameter: gradient}) of <output, cotangents>."""
        question = Call(tuple(args), kwargs, "vjp", {"cotangents": list(cotangents)})
        out, grads, parameter_grads = self._student._ask([(self._target, question)])[0]
        return out, grads, parameter_grads

    def after(self, *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """(output, the arguments as the call left them)."""
        out, left = self._student._ask([(self._target, Call(args, kwargs, "after"))])[0]
        return out, left


class Module(Function):
    """A module of the student's that lives in the worker."""

    def __init__(self, student: Student, ident: int, name: str, parameters: list[Any]) -> None:
        super().__init__(student, self)
        self.ident, self.name, self.generation = ident, name, student._generation
        self.parameters = {str(n): tuple(int(size) for size in shape) for n, shape, _ in parameters}

    def state(self) -> dict[str, torch.Tensor]:
        """The state dict, as copies."""
        state: dict[str, torch.Tensor] = self._student._ask([(self, Call((), op="state"))])[0]
        return state

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load a state dict, strictly. Sent with the next question, which also reports its failure."""
        self._student._later(self, Call((dict(state),), op="load"))

    def to(self, dtype: torch.dtype) -> None:
        """Convert parameters and buffers. Sent with the next question."""
        self._student._later(self, Call((dtype,), op="to"))

    def train(self, mode: bool = True) -> None:
        """Set the training mode. Sent with the next question."""
        self._student._later(self, Call((mode,), op="train"))


@dataclass(frozen=True)
class Source:
    """What a worker is to load: a unit's source text, the student's other units, the names each exercise forbids."""

    unit: str
    text: str
    others: Mapping[str, str] = field(default_factory=dict)
    forbidden: Mapping[str, Sequence[str]] = field(default_factory=dict)


class AskAgain(BaseException):
    """What was asked ahead brought no answer: the test must run again, and ask when its turn has come."""


class Student:
    """One submission's code in a worker; a fresh worker takes over when one is lost.

    What a test asks first depends on the run's seed and the test alone. So a judge knows these questions from the
    submission before (`known`, by test), and asks them all as soon as the code is loaded: judge and worker then work at
    the same time. Where a question differs, or no answer comes, the test asks as if nothing had been asked ahead.
    """

    def __init__(
        self,
        start: Callable[[], Worker],
        source: Source,
        seconds_to_load: float = 5.0,
        device: str = "cpu",
        known: dict[str, bytes] | None = None,
    ) -> None:
        self._start, self._source, self._seconds_to_load = start, source, seconds_to_load
        self._device = device
        self._known = {} if known is None else known
        self._ahead: dict[str, str] = {}  # test: nonce, of what was asked ahead and is not used yet, in order
        self._arrived: dict[str, Any] = {}  # nonce: what came for it
        self._test: str | None = None  # the test that has not asked yet
        self._worker: Worker | None = None
        self._generation = 0
        self._deadline = 0.0
        self._seed: int | None = None
        self._pending: list[tuple[Any, Call]] = []
        self._layers: list[str] | None = None
        self._forbidden_uses: list[tuple[str, str, int]] | None = None
        self._load_failures: list[tuple[int, str]] = []
        self._cannot_load: BaseException | None = None
        self._shared: dict[str, Any] = {}  # answers that several tests of an exercise share: see duties
        self._last_answer: Any = None
        self._printed = ""
        self._incidents: list[str] = []  # crashes and limits, in words
        self._blamed = 0  # how many there were before anything was asked ahead

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(name)
        return Function(self, name)

    def _begin(self, test: str, seed: int, deadline: float) -> None:
        """A new test: its deadline, and the seed that the worker's random state gets with the first question.

        Not the test's own seed: a student who draws noise must not draw the test's inputs again.
        """
        self._test, self._seed, self._deadline, self._pending = test, seed ^ OTHER_SEED, deadline, []

    def _drop(self) -> None:
        if self._worker is not None:
            self._printed += self._worker.close()
            self._worker, self._generation, self._pending = None, self._generation + 1, []
            self._ahead, self._arrived = {}, {}

    def _live(self) -> None:
        """A worker that has loaded the source: the present one or a fresh fork. One that hangs is loaded only once."""
        if self._cannot_load is not None:
            raise self._cannot_load
        if self._worker is None:
            self._worker = self._start()
            after, self._deadline = self._deadline, time.monotonic() + self._seconds_to_load
            try:
                self._open()
            except (Limit, WorkerDied, StudentError) as error:
                self._cannot_load = error
                raise
            finally:
                self._deadline = after

    def _open(self) -> None:
        self._layers = self._guard(lambda worker: wire.receive(worker.read))[1]
        source, nonce = self._source, secrets.token_hex(4)
        others, forbidden = dict(source.others), {name: list(uses) for name, uses in source.forbidden.items()}
        frame = wire.encode(["load", nonce, source.unit, source.text, others, forbidden])
        self._send(frame)
        parsed = self._guard(lambda worker: wire.receive(worker.read))
        if self._forbidden_uses is None:  # sent before any of the student's code ran, so it can be trusted
            self._forbidden_uses = [(use[0], use[1], use[2]) for use in parsed[2]]
        answers = self._receive(nonce, {})
        failures = self._outcome(answers[0]) if len(answers) == 1 else None
        if isinstance(failures, StudentError):
            raise failures
        if type(failures) is not list:
            self._lose("it broke the protocol")
        pairs = [f for f in failures if type(f) is tuple and len(f) == 2 and type(f[0]) is int]
        self._load_failures = [(line, str(text)[:500]) for line, text in pairs[:20]]

    def _later(self, target: Any, question: Call) -> None:
        self._pending.append((target, question))

    def _ask(self, questions: list[tuple[Any, Call]]) -> Answers:
        first = len(self._pending)
        questions, self._pending = self._pending + questions, []
        calls = []
        for target, c in questions:
            if isinstance(target, Module) and target.generation != self._generation:
                raise WorkerDied("the module was lost when its worker stopped")
            calls.append([c.op, target, list(c.args), dict(c.kwargs), dict(c.options)])
        if self._seed is not None and calls:
            calls[0][4].setdefault("seed", self._seed)
            self._seed = None
        outcomes = self._question("calls", calls)
        for outcome in outcomes[:first]:
            if isinstance(outcome, StudentError):
                raise outcome
        self._last_answer = outcomes[-1] if outcomes else None
        return Answers(outcomes[first:])

    def _question(self, kind: str, *rest: Any) -> list[Any]:
        """Send one frame; its outcomes, one for each element of its last part, errors among them as exceptions."""
        self._live()
        callbacks: dict[int, Callable[..., Any]] = {}
        frame = wire.encode([kind, NO_NONCE, *rest], lambda v: self._encode(v, callbacks))
        test, self._test = self._test, None
        if test is not None and not callbacks and self._known.setdefault(test, frame) == frame and test in self._ahead:
            raw = self._asked_ahead(test)
        else:
            self._finish_ahead()
            nonce = secrets.token_hex(4)
            self._send(with_nonce(frame, nonce))
            raw = self._receive(nonce, callbacks)
        if len(raw) != len(rest[-1]):
            self._lose("it broke the protocol")
        return [self._outcome(o) for o in raw]

    # -- asking ahead -------------------------------------------------------------------------------------------------
    def _ask_ahead(self, tests: Iterable[str]) -> None:
        """Send the first questions of these tests, as far as they are known."""
        self._blamed = len(self._incidents)
        self._ahead = {test: secrets.token_hex(4) for test in tests if test in self._known}
        frames = [with_nonce(self._known[test], nonce) for test, nonce in self._ahead.items()]
        self._guard(lambda worker: worker.send_in_time(b"".join(frames)))

    def _asked_ahead(self, test: str) -> list[Any]:
        """The answer to a test's first question; those of tests before it that were not run are kept aside."""
        nonce = self._ahead.pop(test)
        while nonce not in self._arrived:
            self._take_ahead()
        raw = self._arrived.pop(nonce)
        return raw if type(raw) is list else self._again()

    def _finish_ahead(self) -> None:
        """Take what is under way: whoever asks now gets the next answer."""
        while len(self._arrived) < len(self._ahead):
            self._take_ahead()

    def _take_ahead(self) -> None:
        try:
            kind, nonce, raw = self._guard(lambda worker: wire.receive(worker.read, self._decode))
        except (Limit, WorkerDied, ValueError, TypeError):
            self._again()
        if kind != "answers" or nonce in self._arrived:
            self._again()
        self._arrived[nonce] = raw

    def _again(self) -> NoReturn:
        """Nobody is to blame yet: what went wrong goes wrong again, or not, when the test asks alone."""
        del self._incidents[self._blamed :]
        self._drop()
        raise AskAgain from None

    def _outcome(self, o: Any) -> Any:
        if type(o) is list and len(o) == 2 and o[0] == "ok":
            return o[1]
        if type(o) is list and len(o) == 3 and o[0] == "missing":
            missing = NotDefined(str(o[1])[:500])
            missing.line = o[2] if type(o[2]) is int else 0
            return missing
        if type(o) is list and len(o) == 5 and o[0] == "error" and type(o[3]) is list:
            return student_error(*o[1:])
        self._lose("it broke the protocol")

    def _receive(self, nonce: str, callbacks: Mapping[int, Callable[..., Any]]) -> list[Any]:
        failure: Exception | None = None
        for _ in range(MAX_CALLBACKS):
            m = self._guard(lambda worker: wire.receive(worker.read, self._decode))
            if type(m) is not list or len(m) < 3 or m[1] != nonce or m[0] not in ("answers", "callback"):
                self._lose("it broke the protocol")
            if m[0] == "answers":
                if failure is not None:
                    raise failure
                if type(m[2]) is not list:
                    self._lose("it broke the protocol")
                return m[2]
            try:
                _, _, ident, args, kwargs = m
                frame = wire.encode(["return", callbacks[ident](*args, **kwargs)])
            except Exception as error:  # told to the worker, and raised again when its call has ended
                failure = error
                frame = wire.encode(["raise", "the function that was passed in cannot take these arguments"])
            self._send(frame)
        self._lose("it called the function that was passed in too often")

    def _send(self, frame: bytes) -> None:
        self._guard(lambda worker: worker.send(frame))

    def _encode(self, value: Any, callbacks: dict[int, Callable[..., Any]]) -> dict[str, Any] | None:
        if isinstance(value, Module):
            return {"h": value.ident}
        if callable(value):
            callbacks[len(callbacks)] = value
            return {"c": len(callbacks) - 1}
        return None

    def _decode(self, kind: str, x: Any) -> Any:
        if kind != "h":
            raise wire.WireError("a worker has no functions to pass")
        ident, name, parameters = x
        return Module(self, int(ident), str(name), parameters)

    def _guard(self, action: Callable[[Worker], Result]) -> Result:
        """Whatever goes wrong on the wire, this worker is finished, and the test fails with a reason."""
        worker = self._worker
        if worker is None:
            raise WorkerDied("the worker has stopped")
        worker.deadline = self._deadline
        try:
            return action(worker)
        except TimeoutError:
            self._lose("", Limit("out of time"))
        except (EOFError, ConnectionError):
            self._lose("the process ended by itself; a crash, a call of exit and too much memory do that")
        except (OSError, wire.WireError) as error:
            self._lose(f"it broke the protocol ({error})")
        except (Limit, WorkerDied) as error:
            self._lose("", error)

    def _lose(self, reason: str, error: BaseException | None = None) -> NoReturn:
        error = error or WorkerDied(reason)
        self._incidents.append(str(error))
        self._drop()
        raise error from None
