"""Run exercises on a device, the real one or a pretended one, and name the tensors that were left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from autograder.worker import submission
from autograder.worker.pretended_device import blame, pretended_gpu, to_gpu


def warm_up() -> None:
    """Import what the pretended device needs at its first use, before workers fork."""

    def use() -> torch.Tensor:
        layer, x = to_gpu(torch.nn.Linear(3, 3)), to_gpu(torch.randn(2, 3))
        scores = layer(x) @ x.mT / 2.0
        mask = torch.ones(2, 2, dtype=torch.bool, device=x.device).tril()
        weights = scores.where(mask, -torch.inf).softmax(-1)
        return torch.matmul(weights, x)

    blame(use)


def on_device(device: str, unit: str, sources: Mapping[str, str], cases: list[Any]) -> list[Any]:
    """For each case (constructor arguments or None, name, arguments) an outcome: ["ok", blame or None] or an error.

    A case runs on the CPU first: where it fails there too, the device is not to blame, and the outcome is that error.
    """
    gpu = nullcontext if device == "cuda" else pretended_gpu
    plain = dict(vars(sys.modules[unit]))
    names = _loaded_on(gpu, unit, sources)
    files = [submission.filename(name) for name in sources]
    outcomes: list[Any] = []
    for construct, name, args in cases:
        if name not in plain or name not in names:
            outcomes.append(["missing", "", 0])
            continue
        try:
            _call(plain, construct, name, args, lambda value: value)
        except BaseException as error:
            frames = [list(frame) for frame in submission.frames(error, list(sources))]
            outcomes.append(["error", type(error).__name__[:100], submission.text_of(error), frames, ""])
            continue
        expected = construct is not None or any(isinstance(a, torch.Tensor) for a in args)
        moved = lambda c=construct, n=name, a=args: _call(names, c, n, a, to_gpu)  # noqa: E731
        outcomes.append(["ok", blame(moved, files, expected, gpu)])
    return outcomes


def _loaded_on(
    gpu: Callable[[], AbstractContextManager[None]], unit: str, sources: Mapping[str, str]
) -> dict[str, Any]:
    """The submission's names, loaded anew where there is a GPU: a device may be chosen at the top of a file."""
    before = {name: sys.modules.pop(name) for name in sources if name in sys.modules}
    try:
        with gpu():
            return submission.load(sources[unit], unit).names
    finally:
        sys.modules.update(before)


def _call(
    names: Mapping[str, Any], construct: list[Any] | None, name: str, args: list[Any], place: Callable[[Any], Any]
) -> Any:
    function = names[name]
    if construct is not None:
        function = place(function(*construct).double())
    return function(*[place(a.clone() if isinstance(a, torch.Tensor) else a) for a in args])
