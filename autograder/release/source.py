"""Read a unit's single source, solutions/UNIT.py, and take it apart into what each reader gets.

The file is a notebook in jupytext's percent format. Markdown cells are the lesson. Code cells are the student's file,
once the lines between `### BEGIN SOLUTION` and `### END SOLUTION` have given way to a NotImplementedError. Cells tagged
`public_test` become the public tests, cells tagged `solution_only` are never released.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jupytext

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
DISTINCTIVE = 30  # characters from which a line gives something away: `return x` does not
PUBLIC, HIDDEN = "public_test", "solution_only"
HEADING = re.compile(r"^#+\s+(.*)", re.MULTILINE)


class ReleaseError(Exception):
    """A unit's source has a mistake; the text says file, line and what to do."""


@dataclass(frozen=True)
class UnitSource:
    """One unit's source, by reader."""

    unit: str
    stub: str  # what a student completes
    handout: str  # the lesson, markdown
    notebook: str  # lesson and stub, JSON
    public_tests: str
    reference: str  # the solution, as a submission would be
    secrets: tuple[str, ...]  # lines of solution that no release may contain


@dataclass(frozen=True)
class Cell:
    kind: str  # "markdown", "code", PUBLIC or HIDDEN
    text: str
    line: int  # the last line of the file before its text


def read_source(path: Path) -> UnitSource:
    """Take a unit's source apart. Raises ReleaseError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{path}: cannot be read: {error}") from None
    cells = list(_cells(text, path))
    unit = path.stem
    stubs = {cell.line: _stub(cell, path) for cell in cells if cell.kind == "code"}
    code = [c for c in cells if c.kind == "code"]
    return UnitSource(
        unit,
        stub=_stub_file(unit, cells, stubs),
        handout=_handout(cells, stubs),
        notebook=_notebook(cells, stubs),
        public_tests=_public_tests(unit, cells, path),
        reference=_join(_without_marks(c.text) for c in cells if c.kind in ("code", HIDDEN)),
        secrets=tuple(_secrets(code, stubs, [c for c in cells if c.kind == HIDDEN])),
    )


def _cells(text: str, path: Path) -> Iterator[Cell]:
    found = jupytext.reads(text, fmt="py:percent").cells
    markers = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith("# %%")]
    if len(found) != len(markers):
        raise ReleaseError(f"{path}:1: there are {len(found)} cells; open each, the first too, with a line `# %%`")
    for cell, at in zip(found, markers, strict=True):
        tags = cell.metadata.get("tags", [])
        if unknown := [t for t in tags if t not in (PUBLIC, HIDDEN)]:
            raise ReleaseError(f"{path}:{at}: unknown tag {unknown[0]!r}; there are {PUBLIC!r} and {HIDDEN!r}")
        kind = cell.cell_type if cell.cell_type == "markdown" else tags[0] if tags else "code"
        if kind != "markdown":
            try:
                ast.parse(cell.source)
            except SyntaxError as error:
                raise ReleaseError(f"{path}:{at + (error.lineno or 1)}: {error.msg}") from None
        leading = len(cell.source) - len(cell.source.lstrip("\n"))
        yield Cell(kind, cell.source.strip("\n"), at + leading)


# -- solution regions -------------------------------------------------------------------------------------------------
def _stub(cell: Cell, path: Path) -> str:
    """The cell without its solution regions."""
    kept: list[str] = []
    opened = 0
    for number, line in enumerate(cell.text.splitlines(), 1):
        where = f"{path}:{cell.line + number}"
        if line.strip() == BEGIN:
            if opened:
                raise ReleaseError(f"{where}: a solution region inside another one")
            opened = number
            name = _enclosing(cell.text, number)
            if name is None:
                raise ReleaseError(f"{where}: a solution region outside of any function")
            indent = line[: len(line) - len(line.lstrip())]
            kept.append(f'{indent}raise NotImplementedError("{name}: replace this line with your code")')
        elif line.strip() == END:
            if not opened:
                raise ReleaseError(f"{where}: {END} without {BEGIN}")
            opened = 0
        elif not opened:
            kept.append(line)
    if opened:
        raise ReleaseError(f"{path}:{cell.line + opened}: this solution region is never closed; add {END}")
    stub = "\n".join(kept)
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise ReleaseError(f"{path}:{cell.line}: without its solutions this cell is no Python: {error.msg}") from None
    return stub


def _enclosing(code: str, line: int) -> str | None:
    """The function that an indented line belongs to, as `name` or `Class.name`."""
    text = code.splitlines()[line - 1]
    indent = len(text) - len(text.lstrip())
    around = [
        node
        for node in ast.walk(ast.parse(code))  # outer ones come first
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.lineno < line <= (node.end_lineno or 0)
        and node.col_offset < indent
    ]
    if all(isinstance(node, ast.ClassDef) for node in around):
        return None
    return ".".join(node.name for node in around[:2])


def _without_marks(code: str) -> str:
    return "\n".join(line for line in code.splitlines() if line.strip() not in (BEGIN, END))


def _secrets(code: list[Cell], stubs: dict[int, str], hidden: list[Cell]) -> Iterator[str]:
    """The lines of solutions that would give something away, without what the stub shows itself."""
    shown = {line.strip() for stub in stubs.values() for line in stub.splitlines()}
    for cell in [*code, *hidden]:
        inside = cell.kind == HIDDEN
        for line in map(str.strip, cell.text.splitlines()):
            inside = line == BEGIN or (inside and line != END)
            named = line.startswith(("def ", "class ", "@", "#"))
            if inside and len(line) >= DISTINCTIVE and not named and line not in shown and line != BEGIN:
                yield line


# -- what each reader gets --------------------------------------------------------------------------------------------
def _stub_file(unit: str, cells: list[Cell], stubs: dict[int, str]) -> str:
    header = f'"""Unit {unit}: complete these. The lesson is in README.md; `hw check {unit}` says how far you are."""'
    parts: list[str] = []
    heading = ""
    for cell in cells:
        if cell.kind == "markdown":
            found = HEADING.findall(cell.text)
            heading = found[-1] if found else heading
        elif cell.kind == "code":
            stub = stubs[cell.line]
            if heading and re.search(r"^(def|class) ", stub, re.MULTILINE):
                stub, heading = f"# {heading}\n{stub}", ""
            parts.append(stub)
    return f"{header}\n\n{_join(parts)}"


def _handout(cells: list[Cell], stubs: dict[int, str]) -> str:
    """The lesson; where the student writes code, the signature and its docstring."""
    parts = []
    for cell in cells:
        if cell.kind == "markdown":
            parts.append(cell.text)
        elif cell.kind == "code" and "NotImplementedError" in stubs[cell.line]:
            shown = re.sub(r"\n *raise NotImplementedError\(.*\)(?=\n|$)", "\n    ...", stubs[cell.line])
            parts.append(f"```python\n{shown.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def _notebook(cells: list[Cell], stubs: dict[int, str]) -> str:
    made = []
    for number, cell in enumerate(c for c in cells if c.kind in ("markdown", "code")):
        text = cell.text if cell.kind == "markdown" else stubs[cell.line]
        ident = hashlib.sha256(f"{number}\n{text}".encode()).hexdigest()[:12]  # the same source, the same file
        one: dict[str, object] = {"cell_type": cell.kind, "id": ident, "metadata": {}, "source": text.splitlines(True)}
        made.append(one if cell.kind == "markdown" else one | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _public_tests(unit: str, cells: list[Cell], path: Path) -> str:
    """All public tests; the imports of the cells stand at the top, each name once."""
    names: dict[str, set[str]] = {}
    bodies = []
    for cell in cells:
        if cell.kind == PUBLIC:
            bodies.append(_without_imports(cell.text, names))
            if not any(module == unit for module in names):
                raise ReleaseError(f"{path}:{cell.line}: this public test imports nothing from {unit}")
    header = f'"""The public tests of {unit}: read them, run them with `hw check {unit}`, add your own."""'
    return f"{header}\n\n{_imports(names, unit)}\n\n\n{_join(bodies)}"


def _without_imports(code: str, names: dict[str, set[str]]) -> str:
    """The code without its top-level imports, which join `names`: {module: names, or "" for the module itself}."""
    lines = code.splitlines()
    for node in reversed(ast.parse(code).body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                shown = alias.name + (f" as {alias.asname}" if alias.asname else "")
                if isinstance(node, ast.ImportFrom):
                    names.setdefault(node.module or "", set()).add(shown)
                else:
                    names.setdefault(shown, set()).add("")
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines)


def _imports(names: dict[str, set[str]], unit: str) -> str:
    """Import statements in four blocks: the standard library, packages, the unit, the course's properties."""
    blocks: list[list[str]] = [[], [], [], []]
    for module in sorted(names):
        package = module.partition(".")[0]
        known = [package in sys.stdlib_module_names, False, module == unit, package == "autograder"]
        block = blocks[known.index(True) if any(known) else 1]
        wanted = sorted(names[module] - {""})
        block += [f"import {module}"] if "" in names[module] else []
        if wanted:
            line = f"from {module} import {', '.join(wanted)}"
            block.append(
                line if len(line) <= 120 else f"from {module} import (\n    " + ",\n    ".join(wanted) + ",\n)"
            )
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _join(parts: Iterator[str] | list[str]) -> str:
    return "\n\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
