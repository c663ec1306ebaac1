"""What a property check returns: whether the property holds, a sentence, and a small picture of where it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SHADES = " ░▒▓█"
MAX_CELLS = 12


@dataclass(frozen=True)
class Evidence:
    """The outcome of one property check; true when the property holds.

    `says` is one plain sentence for the student: numbers of the student's own answer, never an expected value.
    `picture` is a small matrix of non-negative sizes (what moved, by how much), `None` where there is nothing to see;
    `allowed` has the same shape and is true where a non-zero entry is right.
    """

    holds: bool
    says: str
    picture: tuple[tuple[float, ...], ...] | None = None
    allowed: tuple[tuple[bool, ...], ...] | None = None
    rows: str = ""
    columns: str = ""

    def __bool__(self) -> bool:
        return self.holds

    def to_json(self) -> dict[str, Any]:
        """The part that is shown beside the sentence, as JSON values."""
        return {"picture": self.picture, "allowed": self.allowed, "rows": self.rows, "columns": self.columns}

    def draw(self) -> str:
        """The picture in unicode blocks, darkest for the largest entry; `!` behind an entry that should be zero."""
        if not self.picture or not self.picture[0]:
            return ""
        largest = max(v for row in self.picture for v in row) or 1.0
        columns = range(min(len(self.picture[0]), MAX_CELLS))
        lines = [
            f"{self.rows or 'row'} ↓   {self.columns or 'column'} →",
            "     " + "".join(f"{c:<3}" for c in columns),
        ]
        for r, row in enumerate(self.picture[:MAX_CELLS]):
            lines.append(f"{r:>3}  " + "".join(self._cell(r, c, row[c] / largest) for c in columns))
        return "\n".join(line.rstrip() for line in lines)

    def _cell(self, r: int, c: int, size: float) -> str:
        shade = SHADES[0] if size == 0 else SHADES[min(4, 1 + int(3.999 * size))]
        wrong = size != 0 and self.allowed is not None and not self.allowed[r][c]
        return shade * 2 + ("!" if wrong else " ")


class PropertyFailed(AssertionError):
    """A required property does not hold; carries the evidence."""

    def __init__(self, evidence: Evidence) -> None:
        drawing = evidence.draw()
        super().__init__(evidence.says + ("\n" + drawing if drawing else ""))
        self.evidence = evidence


def require(evidence: Evidence) -> None:
    """Pass if the property holds. Raises PropertyFailed, an AssertionError that carries the evidence."""
    __tracebackhide__ = True
    if not evidence:
        raise PropertyFailed(evidence)
