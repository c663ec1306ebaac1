"""The definitions of a notebook: imports, functions, classes and constants; plots, training and magics stay out."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from autograder.intake.cells import CellParser, NotPython, code_cells
from autograder.intake.text import MAX_SOURCE, Unreadable

FUNCTION_OR_CLASS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CONSTANT = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred, ast.JoinedStr),
    *(ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice),
    *(ast.Lambda, ast.arguments, ast.arg, ast.keyword, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
    ast.expr_context,
)
# Calls that make a constant: float("-inf"), math.sqrt(2), torch.finfo(torch.float32), TypeVar("T"), cuda.is_available()
MAKERS = frozenset(
    "abs bool complex dict float frozenset int len list max min range round set slice str sum tuple exp log sqrt device"
    " finfo iinfo tensor hasattr is_available namedtuple NamedTuple NewType TypeVar partial".split()
)


def definitions(data: bytes, name: str) -> tuple[str, list[str]]:
    """The notebook's definitions as one source text, and notes on what was left out. Raises Unreadable."""
    parser, reading = CellParser(), _Reading()
    for number, cell in enumerate(code_cells(data, name), 1):
        try:
            lines, statements = parser.parse(cell)
            reading.add(number, lines, statements)
        except (NotPython, RecursionError) as error:
            reading.notes.append(f"code cell {number} was left out: {error}")
    source = "\n".join(reading.parts) + "\n"
    if not reading.parts:
        why = f" ({reading.notes[0]})" if reading.notes else ""
        raise Unreadable(f"{name} defines nothing: it has no import, function, class or constant{why}")
    if len(source) > MAX_SOURCE:
        raise Unreadable(f"{name} holds more than {MAX_SOURCE >> 20} MiB of code")
    return source, [f"{name}: {note}" for note in (*reading.not_run(), *reading.notes)]


class _Reading:
    """Collects the definitions, cell by cell, and what a person should know of the rest."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.notes: list[str] = []
        self.rest: list[str] = []  # "3 in code cell 7, which set device"
        self.cell_of: dict[str, int] = {}  # functions and classes
        self.known = set(dir(builtins))  # what a constant may refer to

    def add(self, number: int, lines: list[str], statements: list[ast.stmt]) -> None:
        """Keep the definitions of one cell."""
        kept, rest = [], []
        for node in statements:
            if self._defines(node):
                kept.append(_text(lines, node))
                self._place(node, number)
            elif not _does_nothing(node):
                rest.append(node)
        if kept:
            self.parts += [f"# code cell {number}", *kept]
        if rest:
            names = sorted({name for node in rest if isinstance(node, ast.Assign) for name in _names(node)})
            self.rest.append(
                f"{len(rest)} in code cell {number}" + (f" (sets {', '.join(names[:5])})" if names else "")
            )

    def not_run(self) -> list[str]:
        """One note on all statements that are no definitions."""
        few = [*self.rest[:8], "..."] if len(self.rest) > 8 else self.rest
        return [f"only definitions are read; statements that were not run: {'; '.join(few)}"] if few else []

    def _place(self, node: ast.stmt, number: int) -> None:
        if isinstance(node, FUNCTION_OR_CLASS):
            first = self.cell_of.setdefault(node.name, number)
            if first != number:
                self.notes.append(f"{node.name} is defined in code cells {first} and {number}: the later counts")
            self.cell_of[node.name] = number

    def _defines(self, node: ast.stmt) -> bool:
        """Whether a statement only gives something a name; if so, the name is known from here on."""
        if isinstance(node, ast.Try):  # a guarded import
            handled = [statement for handler in node.handlers for statement in handler.body]
            return self._all_define([*node.body, *node.orelse, *node.finalbody, *handled])
        if isinstance(node, ast.If):  # a choice between two definitions
            return self._is_constant(node.test) and self._all_define([*node.body, *node.orelse])
        if isinstance(node, ast.Assign):
            found = all(map(self._is_place, node.targets)) and self._is_constant(node.value)
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation] if node.value is None else [node.annotation, node.value]
            found = self._is_place(node.target) and all(map(self._is_constant, parts))
        else:
            found = isinstance(node, (ast.Import, ast.ImportFrom, *FUNCTION_OR_CLASS))
        if found:
            self.known.update(_names(node))
        return found

    def _all_define(self, nodes: list[ast.stmt]) -> bool:
        return all(_does_nothing(node) or self._defines(node) for node in nodes)

    def _is_place(self, target: ast.expr) -> bool:
        """Names, and what a class or function of the notebook is given afterwards: `Attention.forward = forward`."""
        if isinstance(target, ast.Attribute):
            return isinstance(target.value, ast.Name) and target.value.id in self.cell_of
        allowed = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)
        return all(isinstance(part, allowed) for part in ast.walk(target))

    def _is_constant(self, expression: ast.expr) -> bool:
        """Whether an expression is cheap to evaluate and needs nothing that was left out."""
        return all(map(self._is_harmless, _evaluated(expression)))

    def _is_harmless(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.known or "*" in self.known  # after `from torch import *` any name may be known
        if isinstance(node, ast.Call):
            return getattr(node.func, "attr", getattr(node.func, "id", None)) in MAKERS
        return isinstance(node, CONSTANT)


def _does_nothing(node: ast.stmt) -> bool:
    """`pass`, which stands for a magic, and a text or number alone in a line."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _evaluated(expression: ast.expr) -> Iterator[ast.AST]:
    """The parts of an expression that are evaluated with it: of a lambda not the body."""
    waiting: list[ast.AST] = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [node.args] if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)


def _names(node: ast.stmt) -> Iterator[str]:
    """The names that an import, a function, a class or an assignment makes."""
    if isinstance(node, FUNCTION_OR_CLASS):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            names = (part for part in ast.walk(target) if isinstance(part, ast.Name))
            yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def _text(lines: list[str], node: ast.stmt) -> str:
    """A statement's own text: another one may share its line, behind a semicolon."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    text = lines[first - 1 : node.end_lineno]
    if not hasattr(node, "body"):
        text[-1] = text[-1].encode()[: node.end_col_offset].decode()
        text[0] = text[0].encode()[node.col_offset :].decode()
    return "\n".join(text)
