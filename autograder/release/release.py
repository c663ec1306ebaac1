"""Write the students' files, or say which are out of step; nothing hidden ever gets into them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from autograder.files import write_atomically
from autograder.release.source import BEGIN, END, ReleaseError, UnitSource, read_source

DISTINCTIVE = 40  # characters from which a line of a hidden file can be told from any other
NUMBERS = re.compile(r"\[[^\]]*\d[^\]]*,[^\]]*\d")  # a list of numbers: an input, or what is expected


def release_units(root: Path, units: Sequence[str], out: Path, check: bool = False) -> list[Path]:
    """Write OUT/UNIT/{README.md, UNIT.py, UNIT.ipynb, test_UNIT.py}; the files that changed, or with `check` would.

    Raises ReleaseError, before anything is written, for a mistake in a source or a file that would give something away.
    """
    files: dict[Path, str] = {}
    sources = [read_source(root / "solutions" / f"{unit}.py") for unit in units]
    for source in sources:
        files |= {out / source.unit / name: text for name, text in _files(source).items()}
    secrets = {line: f"solutions/{s.unit}.py" for s in sources for line in s.secrets} | _hidden_lines(root)
    if problems := list(scan(files, secrets)):
        raise ReleaseError("\n".join(problems))
    changed = [path for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in [] if check else changed:
        write_atomically(path, files[path])
    return changed


def _files(source: UnitSource) -> dict[str, str]:
    return {
        "README.md": source.handout,
        f"{source.unit}.py": source.stub,
        f"{source.unit}.ipynb": source.notebook,
        f"test_{source.unit}.py": source.public_tests,
    }


def _hidden_lines(root: Path) -> dict[str, str]:
    """The distinctive lines of the hidden tests and of what lies beside them."""
    lines = {}
    for path in sorted((root / "tests_hidden").rglob("*.py")):
        for line in path.read_text("utf-8").splitlines():
            text = line.strip()
            if len(text) >= DISTINCTIVE and not text.startswith(("from ", "import ", "def ", "#", "class ")):
                lines[text] = str(path.relative_to(root))
    return lines


def scan(files: Mapping[Path, str], secrets: Mapping[str, str]) -> Iterator[str]:
    """A line for each place where a file that students get holds a mark or a line of a hidden file."""
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            shown = _shown(line) if path.suffix == ".ipynb" else line
            if BEGIN in shown or END in shown:
                yield f"{path}:{number}: a mark of a solution region"
            for secret, origin in secrets.items():
                if secret in shown and _gives_away(path, shown, secret, origin):
                    yield f"{path}:{number}: this line of {origin} must stay hidden: {secret[:60]}"


def _gives_away(path: Path, shown: str, secret: str, origin: str) -> bool:
    """Part of a line is enough for a solution; public and hidden tests state the same properties, on other numbers."""
    if not origin.startswith("tests_hidden"):
        return True
    public = path.name.startswith("test_")
    return shown.strip() == secret and (not public or NUMBERS.search(secret) is not None)


def _shown(line: str) -> str:
    """A line of a notebook's file as its reader sees it: the text of a cell is a list of JSON strings."""
    with suppress(ValueError):
        text = json.loads(line.strip().removesuffix(","))
        return text if isinstance(text, str) else line
    return line
