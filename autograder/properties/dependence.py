"""Which output moves when which input moves: a picture that shows a leak, a missing mask, mixed heads at a glance."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from autograder.properties.calling import Function, ask, kind_of, noise
from autograder.properties.comparison import gap, picture
from autograder.properties.evidence import MAX_CELLS, Evidence

# A prefix has another shape, so other kernels: outputs of right code differ by at most 5e-7 in float32.
PREFIX = {torch.float64: 1e-12, torch.float32: 2e-6}


def dependency_matrix(f: Function, x: Tensor, dim: int = -2, out_dim: int = -2) -> Tensor | Evidence:
    """(N_out, N_in): how much output t moves when only input s is moved. Evidence where `f` returns no tensor.

    `dim` is the dimension of the tokens in `x`, `out_dim` in the output.
    """
    calls: list[tuple[Any, ...]] = [(x,)]
    for s in range(x.shape[dim]):
        moved = x.clone()
        moved.select(dim, s).copy_(_other(x.select(dim, s)))
        calls.append((moved,))
    base, *answers = ask(f, calls)
    if (problem := _no_tokens([base, *answers], out_dim)) is not None:
        return problem
    columns = [gap(answer, base).movedim(out_dim, 0).flatten(1).amax(1) for answer in answers]
    return torch.stack(columns, 1)


def _other(token: Tensor) -> Tensor:
    """Other content for a token: far enough that what depends on it moves; other ids where they are whole numbers."""
    return token + 1 + noise(token).abs() if token.is_floating_point() else token.roll(1) + 1


def _no_tokens(answers: list[Any], dim: int) -> Evidence | None:
    base = answers[0]
    for answer in answers:
        if not isinstance(answer, Tensor) or answer.dim() < max(-dim, dim + 1):
            return Evidence(False, f"the answer is {kind_of(answer)}, not a tensor with a row for each token")
        if answer.shape != base.shape:
            return Evidence(
                False, f"the shape of the answer changes with its input: {tuple(base.shape)}, {tuple(answer.shape)}"
            )
    if base.isnan().any():
        return Evidence(False, "the answer contains NaN", picture(base.isnan()), rows="row", columns="column")
    return None if base.numel() else Evidence(False, "the answer is empty")


class _Seen(NamedTuple):
    """A dependency matrix as evidence shows it."""

    matrix: Tensor
    allowed: Tensor
    rows: str
    columns: str

    def evidence(self, holds: bool, says: str) -> Evidence:
        allowed = tuple(tuple(row) for row in self.allowed[:MAX_CELLS, :MAX_CELLS].tolist())
        return Evidence(holds, says, picture(self.matrix), allowed, self.rows, self.columns)


def future_perturbation(f: Function, x: Tensor, dim: int = -2, out_dim: int = -2) -> Evidence:
    """Whether output t depends on inputs 0..t only: moving a later input changes it by exactly nothing.

    Exact, for input and output keep their shapes, so the same kernels run. It must also depend on input t itself.
    """
    matrix = dependency_matrix(f, x, dim, out_dim)
    if isinstance(matrix, Evidence):
        return matrix
    n_out, n_in = matrix.shape
    allowed = torch.ones(n_out, n_in, dtype=torch.bool).tril()
    seen = _Seen(matrix, allowed, "output", "input")
    leaks = (matrix > 0) & ~allowed
    if leaks.any():
        t, s = leaks.nonzero()[0].tolist()
        says = f"output {t} moved by {matrix[t, s]:.2g} when only input {s}, which comes later, was changed"
        return seen.evidence(False, says)
    blind = matrix.diagonal() == 0
    if blind.all():
        return seen.evidence(False, "no output depends on its own input")
    return seen.evidence(True, "no output depends on a later input")


def prefix_consistency(f: Function, x: Tensor, dim: int = -2, out_dim: int = -2) -> Evidence:
    """Whether the outputs of a beginning of `x` are the beginning of the outputs of `x`, up to rounding."""
    n = x.shape[dim]
    whole, *parts = ask(f, [(x,), *((x.narrow(dim, 0, t),) for t in range(1, n))])
    if (problem := _no_tokens([whole], out_dim)) is not None:
        return problem
    limit = PREFIX.get(whole.dtype, 0.05)
    for t, part in enumerate(parts, 1):
        begin = whole.narrow(out_dim, 0, min(t, whole.shape[out_dim]))
        if not isinstance(part, Tensor) or part.shape != begin.shape:
            return Evidence(False, f"the first {t} inputs alone give {kind_of(part)}, not {t} rows")
        apart = gap(part, begin)
        if apart.max() > limit * max(1.0, begin.abs().max().item()):
            says = (
                f"the first {t} inputs alone give other outputs than as the beginning of {n}: {apart.max():.2g} apart"
            )
            return Evidence(False, says, picture(apart), rows="output", columns="feature")
    return Evidence(True, "a beginning gives the same outputs alone")


def batch_independence(f: Function, x: Tensor) -> Evidence:
    """Whether row b of the output depends on row b of the batch only: exactly, for no shape changes."""
    matrix = dependency_matrix(f, x, 0, 0)
    if isinstance(matrix, Evidence):
        return matrix
    allowed = torch.eye(*matrix.shape, dtype=torch.bool)
    mixed = (matrix > 0) & ~allowed
    seen = _Seen(matrix, allowed, "output of element", "input of element")
    if mixed.any():
        b, a = mixed.nonzero()[0].tolist()
        return seen.evidence(False, f"element {b} of the batch changed when only element {a} was changed")
    return seen.evidence(True, "the elements of a batch do not mix")


def padding_invariance(f: Function, x: Tensor, real: Tensor, dim: int = -2, out_dim: int = -2) -> Evidence:
    """Whether outputs at real positions ignore what stands in padded ones; `real` (N,) is true at real positions.

    The padding is filled with large numbers, so that even a small weight on it shows.
    """
    filled = x.clone()
    where = (~real).nonzero().flatten()
    filled.index_fill_(dim, where, 1e6 if x.is_floating_point() else 1)
    base, answer = ask(f, [(x,), (filled,)])
    if (problem := _no_tokens([base, answer], out_dim)) is not None:
        return problem
    keep = real.nonzero().flatten()
    apart = gap(answer.index_select(out_dim, keep), base.index_select(out_dim, keep))
    if apart.any():
        says = f"outputs of real tokens moved by up to {apart.max():.2g} when only the padding was changed"
        return Evidence(False, says, picture(apart), rows="real token", columns="feature")
    return Evidence(True, "the content of the padding does not matter")
