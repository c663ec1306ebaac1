"""The code cells of a notebook file, and their statements without IPython's own lines."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import warnings
from typing import Any

from autograder.intake.text import Unreadable

MAX_NOTEBOOK = 20 << 20  # bytes; outputs are part of the file
MAX_CELLS = 2000  # code cells
MAX_CELL = 64 << 10  # characters; Python's parser takes up to 2 KiB of memory for each
MAX_PARSED = 512 << 10  # characters of all attempts to parse a cell
MAGIC = re.compile(r"^\s*([%!?]|[\w.*]+\?{1,2}\s*$|[\w.,\s]+=\s*[%!])")
CELL_MAGIC = re.compile(r"\s*(%%\S*).*")
PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")  # what follows them is Python all the same


class NotPython(Exception):
    """A cell that cannot be read; the text says why."""


def code_cells(data: bytes, name: str) -> list[str]:
    """The text of each code cell, of notebook formats 3 and 4. Raises Unreadable."""
    if len(data) > MAX_NOTEBOOK:
        raise Unreadable(f"{name} is larger than {MAX_NOTEBOOK >> 20} MiB; clear its outputs")
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError, MemoryError):
        raise Unreadable(f"{name} is no notebook: it is not valid JSON") from None
    cells = tree.get("cells", _cells_of_format_3(tree)) if isinstance(tree, dict) else None
    if not isinstance(cells, list):
        raise Unreadable(f"{name} is no notebook: it has no cells")
    code = [_text(cell) for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    if len(code) > MAX_CELLS:
        raise Unreadable(f"{name} has more than {MAX_CELLS:,} code cells")
    return code


def _cells_of_format_3(tree: dict[str, Any]) -> list[Any] | None:
    sheets = [sheet for sheet in _list(tree.get("worksheets")) if isinstance(sheet, dict)]
    return [cell for sheet in sheets for cell in _list(sheet.get("cells"))] if sheets else None


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = "".join(line for line in (source if isinstance(source, list) else [source]) if isinstance(line, str))
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class CellParser:
    """Parses one notebook's cells, and stops where they become more than a person would write."""

    def __init__(self) -> None:
        self.parsed = 0  # characters

    def parse(self, cell: str) -> tuple[list[str], list[ast.stmt]]:
        """A cell's lines and statements. A line that Python refuses is dropped if it is IPython's. Raises NotPython."""
        if magic := CELL_MAGIC.match(cell):
            if magic.group(1) not in PYTHON_CELLS:
                raise NotPython(f"it is a {magic.group(1)[:20]} cell")
            cell = cell[magic.end() :]
        lines = (textwrap.dedent(cell) if cell.lstrip("\n")[:1].isspace() else cell).split("\n")
        while True:
            self.parsed += len(cell)
            if len(cell) > MAX_CELL or self.parsed > MAX_PARSED:
                raise NotPython("it is too long, or the notebook is")
            try:
                return lines, _statements(lines)
            except SyntaxError as error:
                at = (error.lineno or 0) - 1
                if not (0 <= at < len(lines) and MAGIC.match(lines[at])):
                    raise NotPython(f"line {at + 1} does not parse: {error.msg}") from None
            except (ValueError, RecursionError, MemoryError):
                raise NotPython("it is nested too deeply, or is no text") from None
            _drop(lines, at)


def _statements(lines: list[str]) -> list[ast.stmt]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's remarks on a student's text are not for whoever grades it
        return ast.parse("\n".join(lines)).body


def _drop(lines: list[str], at: int) -> None:
    """Put `pass` in the place of a magic, for it may be a block's only line; the other lines keep their numbers."""
    goes_on = lines[at].endswith("\\")
    lines[at] = lines[at][: len(lines[at]) - len(lines[at].lstrip())] + "pass"
    while goes_on and (at := at + 1) < len(lines):
        goes_on = lines[at].endswith("\\")
        lines[at] = ""
