"""A release holds the lesson, stubs and public tests, and nothing of a solution or a hidden test."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from autograder.release import ReleaseError, read_source, release_units
from tests.ordinary_user import ROOT, hw

SOURCE = '''# %% [markdown]
# # A lesson
#
# ## 1. Doubling

# %%
import torch
from torch import nn

# %%
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    doubled_in_a_way_that_is_secret = x + x
    return doubled_in_a_way_that_is_secret
    ### END SOLUTION


# %% tags=["public_test"]
from unit import double


def test_double():
    assert double(2) == 4


# %% tags=["solution_only"]
def a_helper_that_nobody_may_see(x):
    return x * 2 + 0


# %% [markdown]
# ## 2. A module

# %%
class Net(nn.Module):
    """A net."""

    def __init__(self):
        super().__init__()
        ### BEGIN SOLUTION
        self.layer_with_a_secret_name = nn.Linear(2, 2)
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        return self.layer_with_a_secret_name(x)
        ### END SOLUTION
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "solutions").mkdir()
    (tmp_path / "tests_hidden").mkdir()
    (tmp_path / "solutions" / "unit.py").write_text(SOURCE)
    return tmp_path


def test_each_reader_gets_their_part(root):
    source = read_source(root / "solutions" / "unit.py")
    assert 'raise NotImplementedError("double: replace this line with your code")' in source.stub
    assert 'raise NotImplementedError("Net.forward: replace this line with your code")' in source.stub
    assert "# 1. Doubling" in source.stub and '"""Twice x."""' in source.stub
    assert "secret" not in source.stub + source.handout + source.notebook and "nobody" not in source.stub
    assert "test_double" in source.public_tests and "test_double" not in source.stub + source.reference
    assert "secret" in source.reference and "nobody" in source.reference and "SOLUTION" not in source.reference
    assert source.handout.startswith("# A lesson") and "def double(x):" in source.handout
    for text in (source.stub, source.public_tests, source.reference):
        ast.parse(text)


def test_the_notebook_is_one_and_the_same_source_gives_the_same_file(root):
    source = read_source(root / "solutions" / "unit.py")
    notebook = json.loads(source.notebook)
    assert [c["cell_type"] for c in notebook["cells"]] == ["markdown", "code", "code", "markdown", "code"]
    assert len({c["id"] for c in notebook["cells"]}) == 5
    assert source.notebook == read_source(root / "solutions" / "unit.py").notebook


def test_a_release_writes_only_what_changed_and_check_writes_nothing(root):
    out = root / "assignments"
    assert len(release_units(root, ["unit"], out, check=True)) == 4 and not out.exists()
    assert len(release_units(root, ["unit"], out)) == 4 and release_units(root, ["unit"], out) == []
    (out / "unit" / "unit.py").write_text("x = 1\n")
    assert release_units(root, ["unit"], out, check=True) == [out / "unit" / "unit.py"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s.replace("    ### END SOLUTION\n", "", 1), "never closed"),
        (lambda s: s.replace("    ### BEGIN SOLUTION\n", "", 1), "without"),
        (lambda s: s.replace("    return doubled", "    ### BEGIN SOLUTION\n    return doubled", 1), "inside another"),
        (lambda s: s + "\n# %%\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n", "outside of any function"),
        (lambda s: s.replace("from unit import double\n", ""), "imports nothing"),
        (lambda s: s.replace('["public_test"]', '["publictest"]'), "unknown tag"),
        (lambda s: s + "\n# %%\ndef f(:\n", "invalid syntax"),
    ],
)
def test_a_mistake_in_a_source_is_told_with_file_and_line_and_nothing_is_written(root, change, says):
    (root / "solutions" / "unit.py").write_text(change(SOURCE))
    with pytest.raises(ReleaseError, match=rf"unit\.py:\d+: .*{says}"):
        release_units(root, ["unit"], root / "assignments")
    assert not (root / "assignments").exists()


def test_a_solution_that_stands_in_the_lesson_too_is_refused(root):
    leak = SOURCE.replace("# # A lesson", "# # A lesson\n#\n#     doubled_in_a_way_that_is_secret = x + x", 1)
    (root / "solutions" / "unit.py").write_text(leak)
    with pytest.raises(ReleaseError, match=r"README\.md:\d+: .* must stay hidden"):
        release_units(root, ["unit"], root / "assignments")


def test_a_line_of_a_hidden_test_in_the_lesson_is_refused(root):
    line = "expected_values_that_are_hidden = torch.tensor([1.0, 2.0])"
    (root / "tests_hidden" / "test_unit.py").write_text(f"import torch\n{line}\n")
    (root / "solutions" / "unit.py").write_text(SOURCE.replace("import torch\n", f"import torch\n{line}\n", 1))
    with pytest.raises(ReleaseError, match="tests_hidden"):
        release_units(root, ["unit"], root / "assignments")


# -- the project's own release and packages ---------------------------------------------------------------------------
def hidden_lines() -> set[str]:
    """What no student may find anywhere: lines of solutions, hidden tests, faults and accepted solutions."""
    lines = {
        line
        for unit in ("attention", "masks", "heads")
        for line in read_source(ROOT / "solutions" / f"{unit}.py").secrets
    }
    for path in (ROOT / "tests_hidden").rglob("*.py"):
        lines |= {text for line in path.read_text("utf-8").splitlines() if "reveals=" in (text := line.strip())}
    return lines


def test_the_committed_assignments_are_in_step_and_hold_nothing_hidden():
    done = subprocess.run([str(a) for a in hw("release", "--check")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    hidden = hidden_lines()
    assert len(hidden) > 100
    for path in (ROOT / "assignments").rglob("*"):
        if path.is_file():
            assert not {line.strip() for line in path.read_text("utf-8").splitlines()} & hidden, path


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> dict[str, dict[str, str]]:
    """The texts in the wheel and in the source package, by name."""
    out = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    texts: dict[str, dict[str, str]] = {"wheel": {}, "sdist": {}}
    with zipfile.ZipFile(wheel) as archive:
        texts["wheel"] = {name: archive.read(name).decode("utf-8") for name in archive.namelist()}
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            if (file := archive.extractfile(member)) is not None:
                texts["sdist"][member.name] = file.read().decode("utf-8")
    return texts


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_package_holds_the_engine_and_nothing_hidden(packages, kind):
    hidden = hidden_lines()
    assert any(name.endswith("autograder/cli.py") for name in packages[kind])
    for name, text in packages[kind].items():
        assert not any(part in name for part in ("solutions", "tests_hidden", "faults", "accepted", "examples")), name
        assert not {line.strip() for line in text.splitlines()} & hidden, name


def test_a_students_install_is_light(packages):
    metadata = next(text for name, text in packages["wheel"].items() if name.endswith("METADATA"))
    needed = {
        line.split()[1].split(">")[0].split("=")[0]
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist") and "extra" not in line
    }
    assert needed == {"torch", "numpy", "pytest", "typer", "rich"}
