"""Generic duties: what every right solution of an exercise owes, whatever it computes, from one table per unit.

    @duties(attention=Contract(lambda: draw(5, 8), floats=(0, 1, 2), batch=(0, 1, 2), large=(0,)), ...)
    def test_duties(student, duty):
        duty(student)

All of them compare a solution with itself, so none needs an expected value. The questions of an exercise's duties go to
the worker in one frame, and each duty judges its own answers; where that frame kills the worker, each asks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from autograder.judge.by_hand import ByHand
from autograder.judge.calls import Call
from autograder.judge.contract import Contract, duty_case
from autograder.judge.on_device import OnDevice
from autograder.judge.student import Function, Module, Student
from autograder.judge.workers import Limit, WorkerDied
from autograder.properties.algebra import GRADIENT, STEP
from autograder.properties.calling import tensors
from autograder.properties.care import LAYOUTS, of_dtype, unchanged
from autograder.properties.comparison import finite, same
from autograder.properties.evidence import require
from autograder.worker.server import waves

LARGE = 1e4
WAVES = {"cotangents": "waves"}  # the worker makes them: cotangents that depend on the shape only, see `waves`


@dataclass(frozen=True)
class Duty:
    """One duty: the calls it asks for, and its judgement of their answers (an exception is a failure)."""

    name: str
    reveals: str
    applies: Callable[[Contract], bool]
    ask: Callable[[Contract], list[Call]]
    judge: Callable[[Contract, list[Call], Sequence[Any]], None]


@dataclass(frozen=True)
class DutyOf:
    """A duty of one exercise: what `test_duties` gets as `duty`."""

    exercise: str
    duty: Duty
    contract: Contract
    all_duties: tuple[Duty, ...]

    def __call__(self, student: Student) -> None:
        calls, answers = self.together(student) or self.alone(student)
        self.duty.judge(self.contract, calls, answers)

    def together(self, student: Student) -> tuple[list[Call], Sequence[Any]] | None:
        """This duty's part of the frame that all duties of the exercise share; None where that frame was lost."""
        if self.exercise not in student._shared:
            asked = {duty.name: duty.ask(self.contract) for duty in self.all_duties}
            try:
                answers = self.target(student).each(c for calls in asked.values() for c in calls)
            except (Limit, WorkerDied):
                student._shared[self.exercise] = None
            else:
                parts, at = {}, 0
                for name, calls in asked.items():
                    parts[name] = (calls, answers[at : at + len(calls)])
                    at += len(calls)
                student._shared[self.exercise] = parts
        shared = student._shared[self.exercise]
        return None if shared is None else shared[self.duty.name]

    def alone(self, student: Student) -> tuple[list[Call], Sequence[Any]]:
        calls = self.duty.ask(self.contract)
        return calls, self.target(student).each(calls)

    def target(self, student: Student) -> Function:
        function: Function = getattr(student, self.exercise)
        if self.contract.construct is None:
            return function
        module = function(*self.contract.construct)
        if not isinstance(module, Module):
            raise AssertionError(f"`{self.exercise}(...)` is no nn.Module")
        return module


def duties(**contracts: Contract) -> pytest.MarkDecorator:
    """Parametrize a test by every duty of every exercise that has a contract."""
    cases = []
    for name, contract in contracts.items():
        owed = tuple(d for d in DUTIES if d.applies(contract) and d.name not in contract.skip)
        for duty in owed:
            cases.append(duty_case(name, duty.name, duty.reveals, contract, DutyOf(name, duty, contract, owed)))
        if contract.by_hand:
            cases.append(duty_case(name, "by_hand", ByHand.reveals, contract, ByHand(name, contract)))
        if "device" not in contract.skip:
            cases.append(duty_case(name, "device", OnDevice.reveals, contract, OnDevice(name, contracts)))
    return pytest.mark.parametrize("duty", cases)


# -- values -----------------------------------------------------------------------------------------------------------
def convert(
    args: tuple[Any, ...], change: Callable[[torch.Tensor], torch.Tensor], at: Sequence[int]
) -> tuple[Any, ...]:
    return tuple(change(a) if i in at else a for i, a in enumerate(args))


def float_positions(args: Sequence[Any]) -> list[int]:
    return [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.is_floating_point()]


def something(answer: Any) -> None:
    assert answer is not None, "nothing was returned"


# -- the duties -------------------------------------------------------------------------------------------------------
def in_dtype(contract: Contract, args: tuple[Any, ...], dtype: torch.dtype) -> list[Call]:
    """A call with arguments of this dtype, and before it a module's own conversion."""
    to = [Call((dtype,), op="to")] if contract.construct is not None else []
    return [*to, Call(convert(args, lambda t: t.to(dtype), float_positions(args)))]


def doubled(contract: Contract, calls: list[Call]) -> list[Call]:
    return [Call((torch.float64,), op="to"), *calls] if contract.construct is not None else calls


def ask_inputs(c: Contract) -> list[Call]:
    return doubled(c, [Call(c.draw(), op="after")])


def judge_inputs(c: Contract, calls: list[Call], answers: Sequence[Any]) -> None:
    out, left = answers[-1]
    something(out)
    require(unchanged(calls[-1].args, left))


def ask_dtype(c: Contract) -> list[Call]:
    args = c.draw()
    return [call for dtype in c.dtypes for call in in_dtype(c, args, dtype)]


def judge_dtype(c: Contract, calls: list[Call], answers: Sequence[Any]) -> None:
    for call, answer in zip(calls, answers, strict=True):
        if call.op == "call":
            require(of_dtype(answer, call.args[float_positions(call.args)[0]].dtype))


def ask_layout(c: Contract) -> list[Call]:
    args = c.draw()
    changed = [convert(args, change, float_positions(args)) for change in LAYOUTS.values()]
    return doubled(c, [Call(a) for a in (args, *changed)])


def judge_layout(c: Contract, calls: list[Call], answers: Sequence[Any]) -> None:
    base = answers[-1 - len(LAYOUTS)]
    something(base)
    for i, when in enumerate(LAYOUTS):
        require(same(answers[i - len(LAYOUTS)], base, when))


def ask_repeatable(c: Contract) -> list[Call]:
    args = c.draw()
    return doubled(c, [Call(args, options={"seed": 1}), Call(c.draw()), Call(args, options={"seed": 2})])


def judge_repeatable(c: Contract, calls: list[Call], answers: Sequence[Any]) -> None:
    something(answers[-1])
    require(same(answers[-1], answers[-3], "called again with the same arguments"))


def ask_finite(c: Contract) -> list[Call]:
    args = convert(c.draw(), lambda t: t * LARGE, c.large)
    args = convert(args, lambda t: t.float(), float_positions(args))
    call = Call(args, op="vjp", options=WAVES)
    return [Call((torch.float32,), op="to"), call] if c.construct is not None else [call]


def judge_finite(c: Contract, calls: list[Call], answers: Sequence[Any]) -> None:
    out, grads, _ = answers[-1]
    require(finite(out))
    for grad in grads:
        assert grad is None or grad.isfinite().all(), "a gradient is inf or NaN when the inputs are large"


def ask_gradients(c: Contract) -> list[Call]:
    args = c.draw()
    steps = []
    for i in c.floats:
        direction = torch.randn(args[i].shape, dtype=torch.float64)
        for h in (STEP, -STEP):
            steps.append(Call(convert(args, lambda t, d=h * direction: t + d, [i])))  # type: ignore[misc]
    return doubled(c, [Call(args, op="vjp", options=WAVES), *steps])


def judge_gradients(c: Contract, calls: list[Call], answers: Sequence[Any]) -> None:
    """For each argument, the derivative in a random direction: a central difference against the gradient."""
    first = len(calls) - 2 * len(c.floats)
    _, grads, parameters = answers[first - 1]
    for name, grad in parameters.items():
        assert grad is not None, f"no gradient reaches the parameter {name}"
    positions = float_positions(calls[first - 1].args)
    for at, i in zip(range(first, len(calls), 2), c.floats, strict=True):
        grad = grads[positions.index(i)]
        difference = calls[at].args[i] - calls[at + 1].args[i]
        change = weighted_sum(answers[at]) - weighted_sum(answers[at + 1])
        terms = torch.zeros(1) if grad is None else grad * difference
        scale = max(1e-3 * STEP, abs(change), terms.abs().sum().item())
        if not abs(terms.sum().item() - change) <= GRADIENT * scale:
            problem = "no gradient reaches" if grad is None else "the gradient is wrong for"
            raise AssertionError(f"{problem} argument {i + 1}")


def weighted_sum(out: Any) -> float:
    """What a vjp with cotangents "waves" differentiates: the sum of the float outputs, each entry weighted."""
    floats = [t for t in tensors(out) if t.is_floating_point()]
    assert floats, "no tensor of floats was returned"
    assert all(t.device.type == "cpu" for t in floats), "the result does not lie where its input does"
    return sum((t.double() * waves(t).double()).sum().item() for t in floats)


def ask_empty(c: Contract) -> list[Call]:
    args = c.draw()
    return doubled(c, [Call(args), Call(convert(args, lambda t: t[:0], c.batch))])


def judge_empty(c: Contract, calls: list[Call], answers: Sequence[Any]) -> None:
    full, empty = tensors(answers[-2]), tensors(answers[-1])
    expected = [(0, *t.shape[1:]) for t in full]
    assert [tuple(t.shape) for t in empty] == expected, "a batch of size 0 gives a result of the wrong shape"


DUTIES = (
    Duty("keeps_inputs", "The arguments are left as they were", lambda c: True, ask_inputs, judge_inputs),
    Duty("keeps_dtype", "The result has the dtype of the input", lambda c: bool(c.floats), ask_dtype, judge_dtype),
    Duty(
        "any_layout", "Views and slices work like any other tensor", lambda c: bool(c.floats), ask_layout, judge_layout
    ),
    Duty(
        "repeatable", "The same arguments always give the same result", lambda c: True, ask_repeatable, judge_repeatable
    ),
    Duty("finite", "Large inputs give no inf and no NaN", lambda c: bool(c.large), ask_finite, judge_finite),
    Duty(
        "gradients", "The right gradients flow to every input", lambda c: bool(c.floats), ask_gradients, judge_gradients
    ),
    Duty("empty_batch", "A batch of size 0 works", lambda c: bool(c.batch), ask_empty, judge_empty),
)
