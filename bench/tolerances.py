"""How far right spellings of attention lie apart: the measurement behind the tolerances of autograder.properties.

python -m bench.tolerances
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

SEEDS = 200
Spelling = Callable[[Tensor, Tensor, Tensor], Tensor]


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), -1) @ value


def scaled_first(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax((query / math.sqrt(query.shape[-1])) @ key.mT, -1) @ value


def einsum(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = torch.einsum("nd,md->nm", query, key) * query.shape[-1] ** -0.5
    return torch.einsum("nm,mv->nv", scores.softmax(-1), value)


def by_exponentials(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
    return scores @ value / scores.sum(-1, keepdim=True)


def by_loop(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.stack([torch.softmax(key @ q / math.sqrt(len(q)), 0) @ value for q in query])


def log_softmax(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.log_softmax(query @ key.mT / math.sqrt(query.shape[-1]), -1).exp() @ value


def ready_made(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]


SPELLINGS: list[Spelling] = [plain, scaled_first, einsum, by_exponentials, by_loop, log_softmax, ready_made]


def spread(n: int, width: int, dtype: torch.dtype) -> float:
    """The largest distance of any spelling in `dtype` from the plain one in float64, over all seeds."""
    worst = 0.0
    for seed in range(SEEDS):
        generator = torch.Generator().manual_seed(seed)
        args = [torch.randn(n, width, generator=generator, dtype=torch.float64).to(dtype) for _ in range(3)]
        right = plain(*[a.double() for a in args])
        worst = max(worst, *((s(*args).double() - right).abs().max().item() for s in SPELLINGS))
    return worst


def shuffled(n: int, width: int, dtype: torch.dtype) -> float:
    """The largest change of the outputs when keys and values are shuffled together."""
    worst = 0.0
    for seed in range(SEEDS):
        generator = torch.Generator().manual_seed(seed)
        query, key, value = (torch.randn(n, width, generator=generator, dtype=dtype) for _ in range(3))
        order = torch.randperm(n, generator=generator)
        apart = plain(query, key[order], value[order]) - plain(query, key, value)
        worst = max(worst, apart.abs().max().item())
    return worst


def prefix(n: int, width: int, dtype: torch.dtype) -> float:
    """The largest distance between a causal output and the output of its prefix alone."""
    worst = 0.0
    for seed in range(SEEDS):
        x = torch.randn(n, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        scores = x @ x.mT / math.sqrt(width)
        whole = torch.softmax(scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf), -1) @ x
        worst = max(
            worst, *((plain(x[t - 1 : t], x[:t], x[:t]) - whole[t - 1]).abs().max().item() for t in range(1, n))
        )
    return worst


def main() -> None:
    print(f"{len(SPELLINGS)} spellings, {SEEDS} seeds, one thread; largest distances\n")
    print("| sizes | dtype | spellings | keys shuffled | prefix |\n|---|---|---|---|---|")
    torch.set_num_threads(1)
    for n, width in ((5, 8), (8, 8), (32, 64)):
        for dtype in (torch.float32, torch.float64):
            figures = (measure(n, width, dtype) for measure in (spread, shuffled, prefix))
            print(f"| {n} x {width} | {str(dtype)[6:]} | " + " | ".join(f"{figure:.1e}" for figure in figures) + " |")


if __name__ == "__main__":
    main()
