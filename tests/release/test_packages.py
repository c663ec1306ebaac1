"""What leaves the house, the packages and the students' files, holds nothing of a solution or a hidden test.

The search is made afresh here, and not by the release's own scan: a hole in that one must not hide itself.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.release import read_source
from tests.ordinary_user import ROOT, hw

UNITS = ("attention", "masks", "heads")
LONG = 40  # characters from which a line is like no other by chance
CLOSED = ("solutions", "tests_hidden", "faults", "accepted", "examples", "assignments", "bench")


def hidden_lines() -> set[str]:
    """The telling lines of solutions, hidden tests, wrong and right solutions, without what students may read."""
    sources = [read_source(ROOT / "solutions" / f"{unit}.py") for unit in UNITS]
    hidden = {line for source in sources for line in source.secrets}
    for path in (ROOT / "tests_hidden").rglob("*.py"):
        lines = map(str.strip, path.read_text("utf-8").splitlines())
        hidden |= {x for x in lines if len(x) >= LONG and not x.startswith(("from ", "import ", "def ", "class "))}
    public = {line.strip() for source in sources for line in source.public_tests.splitlines()}
    return hidden - public


def found(name: str, text: str, hidden: set[str]) -> set[str]:
    """The hidden lines in this file; a notebook's cells are read as text."""
    if name.endswith(".ipynb"):
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return {line.strip() for line in text.splitlines()} & hidden


def test_the_search_finds_a_solution_and_a_fault_where_there_is_one():
    hidden = hidden_lines()
    assert len(hidden) > 500
    for path in ("tests_hidden/test_heads.py", "tests_hidden/faults/masks.py", "tests_hidden/accepted/attention.py"):
        assert found(path, (ROOT / path).read_text("utf-8"), hidden), path
    assert found("heads.py", (ROOT / "solutions" / "heads.py").read_text("utf-8"), hidden)


def test_the_committed_assignments_are_in_step_and_hold_nothing_hidden():
    done = subprocess.run([str(a) for a in hw("release", "--check")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    hidden = hidden_lines()
    files = [path for path in (ROOT / "assignments").rglob("*.*") if "__pycache__" not in path.parts]
    assert {path.suffix for path in files} == {".md", ".py", ".ipynb"}
    for path in files:
        assert not found(path.name, path.read_text("utf-8"), hidden), path


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> dict[str, dict[str, str]]:
    """The texts in the wheel and in the source package, by name.

    Built from a copy: a build leaves files behind, and takes up what an earlier one left.
    """
    copy, out = tmp_path_factory.mktemp("copy") / "course", tmp_path_factory.mktemp("packages")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "grades"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": dict(_wheel(wheel)), "sdist": dict(_sdist(sdist))}


def _wheel(path: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            yield name, archive.read(name).decode("utf-8")


def _sdist(path: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            if (file := archive.extractfile(member)) is not None:
                yield member.name, file.read().decode("utf-8")


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_package_holds_the_engine_and_nothing_hidden(packages, kind):
    hidden = hidden_lines()
    assert any(name.endswith("autograder/cli.py") for name in packages[kind])
    for name, text in packages[kind].items():
        assert not set(Path(name).parts) & set(CLOSED), name
        assert not found(name, text, hidden), name


def test_a_students_install_is_light(packages):
    metadata = next(text for name, text in packages["wheel"].items() if name.endswith("METADATA"))
    needed = {
        line.split()[1].split(">")[0].split("=")[0]
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist") and "extra" not in line
    }
    assert needed == {"torch", "numpy", "pytest", "typer", "rich"}
