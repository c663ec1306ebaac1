"""What students hand in, made for the tests of intake."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from autograder.intake import Submission, find_submissions

UNITS = ["attention", "masks"]
CODE = "def attention(q, k, v):\n    return q\n"


def put(path: Path, content: str | bytes = CODE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(path: Path, entries: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "source": cell.splitlines(True), "metadata": {}, "outputs": []} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def only(folder: Path) -> Submission:
    (found,) = find_submissions(folder, UNITS)
    return found


def by_unit(folder: Path) -> dict[str, Submission]:
    return {found.unit: found for found in find_submissions(folder, UNITS)}
