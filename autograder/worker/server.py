"""A worker's loop: load the student's source, then answer the judge's questions until it hangs up.

Judge to worker:
    ["load", nonce, unit, source, {unit: source}, {exercise: [forbidden name]}]
    ["calls", nonce, [[op, target, args, kwargs, options], ...]]
                                    options: {"seed": int, "cotangents": [...] or "waves", "names": [...]}
    ["device", nonce, device, [[constructor args or None, target, args], ...]]
    ["return", value] or ["raise", text]                             the answer to a callback
Worker to judge:
    ["parsed", nonce, [[exercise, forbidden name, line]]]            before any of the student's code ran
    ["answers", nonce, [outcome, ...]]
            outcome: ["ok", value] | ["error", type, text, frames, built-in type] | ["missing", text, line]
    ["callback", nonce, id, args, kwargs]
A callback is asked from inside the student's call; while it waits further calls may arrive, so all is on one stack.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from autograder.worker import submission, wire
from autograder.worker.device import on_device


class Missing(Exception):
    """The submission does not define the name that was asked for."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


class Watch(TorchFunctionMode):
    """Records which of the watched torch functions are called while it is open."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.watched, self.seen = {name.rsplit(".", 1)[-1] for name in names}, list[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = (resolve_name(func) or getattr(func, "__name__", "")).rsplit(".", 1)[-1]
        if name in self.watched:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def waves(t: torch.Tensor) -> torch.Tensor:
    """Weights for the entries of a tensor, from its shape only: no symmetry that a sum of all entries would not see."""
    return torch.arange(1, t.numel() + 1, dtype=torch.float64).cos().reshape(t.shape).to(t.dtype)


class Server:
    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.read = sock, wire.reader(sock)
        self.loaded = submission.Loaded({})
        self.sources: dict[str, str] = {}
        self.unit = ""
        self.nonce: str = ""
        self.modules: list[torch.nn.Module] = []

    # -- frames -------------------------------------------------------------------------------------------------------
    def send(self, message: list[Any]) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.sock.sendall(wire.encode(message, self.encode))

    def encode(self, value: Any) -> dict[str, Any] | None:
        if not isinstance(value, torch.nn.Module):
            return None
        self.modules.append(value)
        parameters = [[name, list(p.shape), str(p.dtype)[6:]] for name, p in value.named_parameters()]
        return {"h": [len(self.modules) - 1, type(value).__name__, parameters]}

    def decode(self, kind: str, x: Any) -> Any:
        return self.modules[x] if kind == "h" else self.callback(x)

    def callback(self, ident: int) -> Callable[..., Any]:
        def ask_the_judge(*args: Any, **kwargs: Any) -> Any:
            self.send(["callback", self.nonce, ident, list(args), kwargs])
            return self.serve()

        return ask_the_judge

    # -- questions ----------------------------------------------------------------------------------------------------
    def serve(self) -> Any:
        """Answer until a callback's answer comes; at the outermost level, until the judge hangs up (EOFError)."""
        while True:
            kind, *rest = wire.receive(self.read, self.decode, keep_strides=True)
            if kind == "return":
                return rest[0]
            if kind == "raise":
                raise RuntimeError(rest[0])
            outer, self.nonce = self.nonce, rest[0]
            self.answer(self.answers_to(kind, *rest[1:]))
            self.nonce = outer

    def answers_to(self, kind: str, *rest: Any) -> list[Any]:
        if kind == "load":
            return self.load(*rest)
        return self.calls(*rest) if kind == "calls" else self.device(*rest)

    def answer(self, outcomes: list[Any]) -> None:
        """Send the outcomes; one that cannot be sent becomes an error of its own."""
        try:
            return self.send(["answers", self.nonce, outcomes])
        except wire.WireError:
            pass
        for i, outcome in enumerate(outcomes):
            try:
                wire.encode(outcome, self.encode)
            except BaseException as error:
                outcomes[i] = [
                    "error",
                    "TypeError",
                    f"the result cannot be graded: {submission.describe(error)}",
                    [],
                    "",
                ]
        try:
            self.send(["answers", self.nonce, outcomes])
        except wire.WireError as error:
            self.send(["answers", self.nonce, [["error", "TypeError", str(error), [], ""]] * len(outcomes)])

    def load(self, unit: str, source: str, others: dict[str, str], forbidden: dict[str, list[str]]) -> list[Any]:
        self.unit, self.sources = unit, {**others, unit: source}
        try:
            tree = submission.parse(source, unit)
        except SyntaxError as error:
            self.send(["parsed", self.nonce, []])
            return [["error", "SyntaxError", error.msg, [[unit, error.lineno or 1, error.offset or 1]], ""]]
        self.send(["parsed", self.nonce, submission.forbidden_uses(source, tree, forbidden)])
        sys.meta_path.append(submission.OtherUnits(others))
        self.loaded = submission.load(source, unit, tree)
        return [["ok", self.loaded.failures[:20]]]

    def calls(self, calls: list[Any]) -> list[Any]:
        return [self.outcome(*call) for call in calls]

    def outcome(self, op: str, target: Any, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any]) -> Any:
        try:
            if "seed" in options:
                torch.default_generator.manual_seed(options["seed"])  # torch.manual_seed is slow at its first call
            function = self.named(target) if isinstance(target, str) else target
            return ["ok", getattr(self, "do_" + op)(function, args, kwargs, options)]
        except Missing as error:
            return ["missing", str(error), error.line]
        except BaseException as error:  # SystemExit and KeyboardInterrupt too
            return failure(error, list(self.sources))

    def named(self, name: str) -> Any:
        if name in self.loaded.names:
            return self.loaded.names[name]
        line, text = self.loaded.broken.get(name, (0, ""))
        raise Missing(text, line)

    # -- operations ---------------------------------------------------------------------------------------------------
    def do_call(self, function: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> Any:
        result = function(*args, **kwargs)
        if isinstance(function, type) and type(result) is function and not isinstance(result, torch.nn.Module):
            raise TypeError(f"{function.__name__} is no torch.nn.Module")
        return result

    def do_after(self, function: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> Any:
        return [function(*args, **kwargs), [None if callable(a) else a for a in args]]

    def do_vjp(self, function: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> Any:
        """The output, and the gradients of <output, cotangents> with respect to the float arguments and parameters."""
        args = [a.requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
        leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        parameters = dict(function.named_parameters()) if isinstance(function, torch.nn.Module) else {}
        out = function(*args, **kwargs)
        outs = out if isinstance(out, (tuple, list)) else [out]
        cotangents = options["cotangents"]
        if cotangents == "waves":
            cotangents = [waves(o) if isinstance(o, torch.Tensor) and o.is_floating_point() else None for o in outs]
        pairs = [(o, c) for o, c in zip(outs, cotangents, strict=False) if c is not None and o.requires_grad]
        wanted = leaves + list(parameters.values())
        grads: tuple[Any, ...] = (None,) * len(wanted)
        if pairs and wanted:
            grads = torch.autograd.grad([o for o, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True)
        return [out, list(grads[: len(leaves)]), dict(zip(parameters, grads[len(leaves) :], strict=True))]

    def do_watch(self, function: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> list[str]:
        """The names of the watched torch functions that the call used."""
        with Watch(options["names"]) as watch:
            function(*args, **kwargs)
        return list(watch.seen)

    def do_state(self, module: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> Any:
        return dict(module.state_dict())

    def do_load(self, module: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> None:
        module.load_state_dict({**module.state_dict(), **args[0]})  # a buffer that is not named stays

    def do_to(self, module: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> None:
        module.to(args[0])

    def do_train(self, module: Any, args: list[Any], kwargs: dict[str, Any], options: Any) -> None:
        module.train(args[0])

    def device(self, device: str, cases: list[Any]) -> list[Any]:
        """For each case an outcome: a sentence that blames the device, or None, or an error."""
        return on_device(device, self.unit, self.sources, cases)


def failure(error: BaseException, units: list[str]) -> list[Any]:
    frames = [list(frame) for frame in submission.frames(error, units)]
    return ["error", type(error).__name__[:100], submission.text_of(error), frames, submission.plain_kind(error)]


def run(sock: socket.socket, lock: Callable[[], list[str]] | None) -> None:
    """Lock this process down, tell the judge which layers hold, then serve."""
    layers = lock() if lock is not None else None
    server = Server(sock)
    server.send(["ready", layers])
    with suppress(EOFError):
        server.serve()
