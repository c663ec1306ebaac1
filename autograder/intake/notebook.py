"""The definitions of a notebook: imports, functions, classes and constants; plots, training and magics stay out."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from autograder.intake.text import MAX_SOURCE, Unreadable

MAX_NOTEBOOK = 20 << 20  # bytes; outputs are part of the file
MAGIC = re.compile(r"^\s*([%!?]|[\w.]+\?{1,2}\s*$)")
CONSTANT = (
    *(ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare),
    *(ast.Attribute, ast.Subscript, ast.Slice, ast.IfExp, ast.Lambda, ast.arguments, ast.arg),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)


def definitions(data: bytes, name: str) -> tuple[str, list[str]]:
    """The notebook's definitions as one source text, and notes on what was left out. Raises Unreadable."""
    if len(data) > MAX_NOTEBOOK:
        raise Unreadable(f"{name} is larger than {MAX_NOTEBOOK >> 20} MiB; clear its outputs")
    parts: list[str] = []
    notes: list[str] = []
    cell_of: dict[str, int] = {}
    for number, cell in enumerate(_code_cells(data, name), 1):
        source = without_magics(cell)
        try:
            kept, left_out = _kept(source)
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            notes.append(f"{name}: code cell {number} is not Python and was left out: {error}")
            continue
        if left_out:
            notes.append(f"{name}: code cell {number}: {left_out} statements outside of definitions were not run")
        for node in kept:
            for defined in _names(node):
                if cell_of.setdefault(defined, number) != number:
                    notes.append(
                        f"{name}: {defined} is defined in code cells {cell_of[defined]} and {number}: the later counts"
                    )
                    cell_of[defined] = number
        if kept:
            parts += [f"# code cell {number}", *(_text(source, node) for node in kept)]
    source = "\n".join(parts)
    if not parts:
        raise Unreadable(f"{name} defines nothing: it has no import, function, class or constant")
    if len(source) > MAX_SOURCE:
        raise Unreadable(f"{name} holds more than {MAX_SOURCE >> 20} MiB of code")
    return source + "\n", notes


def _code_cells(data: bytes, name: str) -> Iterator[str]:
    try:
        tree = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError, MemoryError):
        raise Unreadable(f"{name} is no notebook: it is not valid JSON") from None
    if not isinstance(tree, dict):
        raise Unreadable(f"{name} is no notebook")
    cells = tree.get("cells")
    if cells is None:  # format 3 keeps them in worksheets
        sheets = _list(tree.get("worksheets"))
        cells = [c for sheet in sheets if isinstance(sheet, dict) for c in _list(sheet.get("cells"))] or None
    if not isinstance(cells, list):
        raise Unreadable(f"{name} is no notebook: it has no cells")
    for cell in cells:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source: Any = cell.get("source", cell.get("input", ""))
            lines = source if isinstance(source, list) else [source]
            yield "".join(line for line in lines if isinstance(line, str)).replace("\r\n", "\n").replace("\0", "")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def without_magics(cell: str) -> str:
    """A cell without IPython's lines: magics, shell commands, help. Other lines keep their numbers."""
    if cell.lstrip().startswith("%%"):
        head, _, rest = cell.lstrip().partition("\n")
        return "\n" + without_magics(rest) if head.split()[0] in ("%%time", "%%timeit", "%%capture") else ""
    try:
        ast.parse(cell)  # Python as it is: a `%` that opens a line belongs to an expression or a text
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return "\n".join(_blank(line) if MAGIC.match(line) else line for line in cell.split("\n"))
    return cell


def _blank(line: str) -> str:
    """What takes a magic's place: `pass`, for it may be a block's only line."""
    return line[: len(line) - len(line.lstrip())] + "pass"


def _kept(source: str) -> tuple[list[ast.stmt], int]:
    """The definitions of a cell, and how many other statements it has (magics, texts and `pass` not counted)."""
    body = ast.parse(textwrap.dedent(source)).body
    kept = [node for node in body if _is_definition(node)]
    silent = sum(
        isinstance(n, ast.Pass) or (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)) for n in body
    )
    return kept, len(body) - len(kept) - silent


def _is_definition(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return True
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        plain = all(isinstance(part, (ast.Name, ast.Tuple, ast.expr_context)) for t in targets for part in ast.walk(t))
        return plain and all(isinstance(part, CONSTANT) for part in ast.walk(node.value))
    if isinstance(node, (ast.Try, ast.If)):  # a guarded import
        inner = [*node.body, *node.orelse, *(s for h in getattr(node, "handlers", ()) for s in h.body)]
        return all(isinstance(s, ast.Pass) or _is_definition(s) for s in inner)
    return False


def _names(node: ast.stmt) -> list[str]:
    return [node.name] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else []


def _text(source: str, node: ast.stmt) -> str:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return "\n".join(textwrap.dedent(source).split("\n")[first - 1 : node.end_lineno])
