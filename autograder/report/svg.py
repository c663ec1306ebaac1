"""Evidence as a picture that needs no colour: darkness for size, a cross where an entry should be zero."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

CELL, MARGIN = 26, 46  # user units
LOW = 0.12  # the lightest shade of an entry that is not zero


def matrix_svg(evidence: Mapping[str, Any]) -> str:
    """Inline SVG of an evidence's matrix; empty text where it has none."""
    picture, allowed = evidence.get("picture"), evidence.get("allowed")
    if not picture or not picture[0]:
        return ""
    rows, columns = len(picture), max(len(row) for row in picture)
    largest = max((v for row in picture for v in row), default=0.0) or 1.0
    parts, wrong = [], []
    for r, row in enumerate(picture):
        for c, value in enumerate(row):
            bad = value != 0 and allowed is not None and not allowed[r][c]
            if bad:
                wrong.append(f"({r}, {c})")
            parts.append(_cell(r, c, value, largest, bad))
    parts += [f'<text x="{MARGIN - 8}" y="{_mid(r)}" class="end">{r}</text>' for r in range(rows)]
    parts += [f'<text x="{_mid(c)}" y="{MARGIN - 8}" class="mid">{c}</text>' for c in range(columns)]
    width, height = MARGIN + columns * CELL + 4, MARGIN + rows * CELL + 4
    names = html.escape(evidence.get("rows") or "row"), html.escape(evidence.get("columns") or "column")
    parts.append(f'<text x="{MARGIN + columns * CELL / 2}" y="14" class="mid">{names[1]}</text>')
    turned = f'transform="rotate(-90 12 {MARGIN + rows * CELL / 2})"'
    parts.append(f'<text x="12" y="{MARGIN + rows * CELL / 2}" class="mid" {turned}>{names[0]}</text>')
    label = f"A matrix of {rows} rows ({names[0]}) and {columns} columns ({names[1]}). "
    label += f"Should be zero and is not: {', '.join(wrong[:12])}." if wrong else "Darker is larger."
    inside = "".join(parts)
    size = f'viewBox="0 0 {width} {height}" style="max-width:{width}px"'
    return f'<svg role="img" aria-label="{label}" {size} xmlns="http://www.w3.org/2000/svg">{inside}</svg>'


def _mid(i: int) -> float:
    return MARGIN + (i + 0.5) * CELL


def _cell(r: int, c: int, value: float, largest: float, bad: bool) -> str:
    x, y = MARGIN + c * CELL, MARGIN + r * CELL
    shade = 0.0 if value == 0 else LOW + (1 - LOW) * min(value / largest, 1.0)
    title = f"<title>row {r}, column {c}: {value:g}</title>"
    kind = "bad" if bad else "ok"
    place = f'x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="3"'
    box = f'<rect {place} class="frame"/><rect {place} class="{kind}" fill-opacity="{shade:.2f}"/>'
    if bad:
        a, b = 7, CELL - 7
        box += f'<path d="M{x + a} {y + a}L{x + b} {y + b}M{x + b} {y + a}L{x + a} {y + b}" class="cross"/>'
    return f"<g>{title}{box}</g>"
