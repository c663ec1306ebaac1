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
from typing import Any, NoReturn, TypeVar, overload

import torch

from autograder.judge.workers import Limit, Worker, WorkerDied
from autograder.worker import wire

PLAIN_ERRORS = {
    error.__name__: error
    for error in (
        *(ValueError, TypeError, RuntimeError, NotImplementedError, AssertionError, IndexError, KeyError),
        *(AttributeError, NameError, ZeroDivisionError, OverflowError, RecursionError, MemoryError),
    )
}
MAX_CALLBACKS = 20_000  # in one question
Result = TypeVar("Result")


class StudentError(Exception):
    """The student's code raised. It is also of the built-in class of that name, so pytest.raises(ValueError) works.

    `frames` are the student's own frames: (unit, line, function), outermost first.
    """

    kind = "Exception"
    frames: tuple[tuple[str, int, str], ...] = ()


class NotDefined(StudentError):
    """The submission does not define the name; `line` says which of its statements failed to, if any."""

    kind = "NotDefined"
    line = 0


def student_error(kind: Any, text: Any, frames: Any) -> StudentError:
    """The exception for what a worker reports; whatever it sends, this is a StudentError."""
    kind, text = str(kind)[:100], str(text)[:1000]
    bases = (StudentError, PLAIN_ERRORS[kind]) if kind in PLAIN_ERRORS else (StudentError,)
    error: StudentError = type(kind if kind.isidentifier() else "Error", bases, {})(text)
    error.kind = kind
    error.frames = tuple(
        (str(f[0]), f[1], str(f[2]))
        for f in frames[:10]
        if len(f) == 3 and type(f[1]) is int and type(f[2]) is not dict
    )
    return error


@dataclass(frozen=True)
class Call:
    """The arguments of one call among many; see `each`."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    op: str = "call"
    options: Mapping[str, Any] = field(default_factory=dict)


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of one call, for `each`: `student.causal_mask.each([call(4), call(4, device="meta")])`."""
    return Call(args, kwargs)


class Answers(Sequence[Any]):
    """The answers of one frame; an answer that is an error raises when it is read."""

    def __init__(self, outcomes: list[Any]) -> None:
        self._outcomes = outcomes

    def __len__(self) -> int:
        return len(self._outcomes)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Answers: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Answers(self._outcomes[index])
        outcome = self._outcomes[index]
        if isinstance(outcome, StudentError):
            raise outcome.with_traceback(None)
        return outcome


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


class Student:
    """One submission's code in a worker; a fresh worker takes over when one is lost."""

    def __init__(
        self, start: Callable[[], Worker], source: Source, seconds_to_load: float = 5.0, device: str = "cpu"
    ) -> None:
        self._start, self._source, self._seconds_to_load = start, source, seconds_to_load
        self._device = device
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

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(name)
        return Function(self, name)

    def _begin(self, seed: int, deadline: float) -> None:
        """A new test: its deadline, and the seed that the worker's random state gets with the first question."""
        self._seed, self._deadline, self._pending = seed, deadline, []

    def _drop(self) -> None:
        if self._worker is not None:
            self._printed += self._worker.close()
            self._worker, self._generation, self._pending = None, self._generation + 1, []

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
        failures = self._outcome(self._receive(nonce, {})[0])
        if isinstance(failures, StudentError):
            raise failures
        self._load_failures = [(f[0], str(f[1])) for f in failures if type(f) is tuple and type(f[0]) is int]

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
        nonce = secrets.token_hex(4)
        frame = wire.encode([kind, nonce, *rest], lambda v: self._encode(v, callbacks))
        self._send(frame)
        raw = self._receive(nonce, callbacks)
        if len(raw) != len(rest[-1]):
            self._lose("it broke the protocol")
        return [self._outcome(o) for o in raw]

    def _outcome(self, o: Any) -> Any:
        if type(o) is list and len(o) == 2 and o[0] == "ok":
            return o[1]
        if type(o) is list and len(o) == 3 and o[0] == "missing":
            missing = NotDefined(str(o[1])[:500])
            missing.line = o[2] if type(o[2]) is int else 0
            return missing
        if type(o) is list and len(o) == 4 and o[0] == "error" and type(o[3]) is list:
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
        except EOFError:
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
