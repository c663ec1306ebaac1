"""Load a student's source one top-level statement at a time, so that a failing line costs only what needs it."""

from __future__ import annotations
import __future__

import ast
import importlib.abc
import importlib.machinery
import linecache
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Frame = tuple[str, int, str]  # unit, line, function
Statements = list[tuple[ast.stmt, "types.CodeType | BaseException"]]
_COMPILED: dict[tuple[str, str], Statements] = {}


@dataclass
class Loaded:
    """A student's module: its names, and the statements that failed."""

    names: dict[str, Any]
    failures: list[tuple[int, str]] = field(default_factory=list)  # (line, "ModuleNotFoundError: No module named ...")
    broken: dict[str, tuple[int, str]] = field(default_factory=dict)  # the same, by the names they would have defined


def parse(source: str, unit: str) -> ast.Module:
    """The syntax tree. Raises SyntaxError, also for what Python's parser refuses in other ways."""
    try:
        return ast.parse(source, filename(unit))
    except (RecursionError, MemoryError, ValueError) as error:
        raise SyntaxError(f"Python cannot read this file: {str(error) or type(error).__name__}") from None


def filename(unit: str) -> str:
    return f"{unit}.py"


def load(source: str, unit: str, tree: ast.Module | None = None) -> Loaded:
    """Execute the source as the module `unit`, statement by statement. Raises SyntaxError only."""
    linecache.cache[filename(unit)] = (len(source), None, source.splitlines(True), filename(unit))
    module = types.ModuleType(unit)
    sys.modules[unit] = module  # dataclasses and typing look a class's module up
    loaded = Loaded(module.__dict__)
    for statement, code in _compiled(source, unit, tree):
        try:
            if isinstance(code, BaseException):
                raise code
            exec(code, loaded.names)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the statement failed, whatever it raised
            lines = [line for of, line, _ in frames(error, [unit]) if of == unit]
            place = (lines[0] if lines else statement.lineno, describe(error))
            loaded.failures.append(place)
            loaded.broken.update(dict.fromkeys(_defined_by(statement), place))
    return loaded


def _compiled(source: str, unit: str, tree: ast.Module | None) -> Statements:
    """Each top-level statement with its code, or with why it has none; kept, for a device duty loads a file again."""
    if (unit, source) not in _COMPILED:
        tree = parse(source, unit) if tree is None else tree
        flags = _future_flags(tree)
        _COMPILED[unit, source] = [(statement, _code(statement, unit, flags)) for statement in tree.body]
    return _COMPILED[unit, source]


def _code(statement: ast.stmt, unit: str, flags: int) -> types.CodeType | BaseException:
    try:
        code: types.CodeType = compile(ast.Module([statement], []), filename(unit), "exec", flags, dont_inherit=True)
        return code
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # `return` outside of a function, ...
        return error


def _future_flags(tree: ast.Module) -> int:
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
    return flags


def _defined_by(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def text_of(error: BaseException) -> str:
    """The error's text, cut to 500 characters; survives an exception whose `__str__` raises."""
    try:
        return str(error)[:500]
    except BaseException:
        return "(its text could not be made)"


def describe(error: BaseException) -> str:
    """`ValueError: text`."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def plain_kind(error: BaseException) -> str:
    """The nearest built-in class: a student's own subclass of ValueError is a ValueError."""
    return next((c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"), "")


def frames(error: BaseException, units: Sequence[str]) -> list[Frame]:
    """The student's own frames of a traceback, outermost first."""
    names = {filename(unit): unit for unit in units}
    found: list[Frame] = []
    traceback = error.__traceback__
    while traceback is not None and len(found) < 1000:
        code = traceback.tb_frame.f_code
        if code.co_filename in names:
            found.append((names[code.co_filename], traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    return found[:3] + found[-3:] if len(found) > 6 else found


def forbidden_uses(source: str, tree: ast.Module, forbidden: Mapping[str, Sequence[str]]) -> list[tuple[str, str, int]]:
    """(exercise, forbidden name, line) for each exercise whose code, or code that it calls in this file, names one."""
    if not any(name.rsplit(".", 1)[-1] in source for names in forbidden.values() for name in names):
        return []
    top = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    renamed = {
        alias.asname: alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    found: list[tuple[str, str, int]] = []
    for exercise, dotted in forbidden.items():
        last = {name.rsplit(".", 1)[-1]: name for name in dotted}
        waiting, seen = [exercise], {exercise}
        while waiting:
            for node in ast.walk(top[name]) if (name := waiting.pop()) in top else ():
                used = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
                used = renamed.get(used, used)
                own = used in top if isinstance(node, ast.Name) else _is_self(getattr(node, "value", None))
                if used in last and not own:
                    found.append((exercise, last[used], int(getattr(node, "lineno", 0))))
                if used in top and used not in seen:
                    seen.add(used)
                    waiting.append(used)
    return found


def _is_self(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


class OtherUnits(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets `from attention import attention` find the same student's other unit, without any file."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name in self.sources and path is None else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(load(self.sources[module.__name__], module.__name__).names)
