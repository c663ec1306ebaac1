"""A release holds the lesson, stubs and public tests, and nothing of a solution or a hidden test."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import nbformat
import pytest

from autograder.release import ReleaseError, read_source, release_units

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


def test_the_notebook_opens_and_runs_and_the_same_source_gives_the_same_file(root):
    source = read_source(root / "solutions" / "unit.py")
    notebook = json.loads(source.notebook)
    nbformat.validate(notebook)
    exec("\n".join("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"), {})
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
        (lambda s: s.replace("    ### BEGIN SOLUTION", "### BEGIN SOLUTION", 1), "outside of any function"),
        (
            lambda s: s.replace(
                "    doubled",
                "    if x:\n        y = 1\n    ### END SOLUTION\n    else:\n        y = 2\n"
                "    ### BEGIN SOLUTION\n    doubled",
                1,
            ),
            "without its solutions",
        ),
        (lambda s: s.replace("from unit import double\n", ""), "imports nothing"),
        (lambda s: s.replace('["public_test"]', '["publictest"]'), "unknown tag"),
        (lambda s: s + "\n# %%\ndef f(:\n", "invalid syntax"),
        (lambda s: "import os\n\n" + s, "open each, the first too"),
        (lambda s: s.replace("# %%\nimport", "#%%\nimport", 1), "open each"),
    ],
)
def test_a_mistake_in_a_source_is_told_with_file_and_line_and_nothing_is_written(root, change, says):
    (root / "solutions" / "unit.py").write_text(change(SOURCE))
    with pytest.raises(ReleaseError, match=rf"unit\.py:\d+: .*{says}"):
        release_units(root, ["unit"], root / "assignments")
    assert not (root / "assignments").exists()


def test_the_line_of_a_mistake_is_counted_from_the_top_of_the_file(root):
    text = SOURCE + "\n# %%\n\n\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n"  # empty lines open this cell
    (root / "solutions" / "unit.py").write_text(text)
    where = text[: text.rindex("### BEGIN")].count("\n") + 1
    with pytest.raises(ReleaseError, match=rf"unit\.py:{where}: .*outside of any function"):
        read_source(root / "solutions" / "unit.py")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("def f():\n    @\n", "f"),
        ("async def f():\n    @\n", "f"),
        ("def f():\n    def inner():\n        @\n    return inner\n", "f.inner"),
        ("class A:\n    def g(self):\n        @\n\n    def h(self):\n        @\n", "A.h"),
        ("class A:\n    class B:\n        x = 1\n\n    def h(self):\n        if self:\n            @\n", "A.h"),
    ],
)
def test_a_stub_names_the_function_that_is_to_be_written(root, code, name):
    for line in code.splitlines():
        if line.strip() == "@":
            indent = line[:-1]
            code = code.replace(line, f"{indent}### BEGIN SOLUTION\n{indent}pass\n{indent}### END SOLUTION", 1)
    (root / "solutions" / "unit.py").write_text(f"# %%\n{code}")
    assert f'"{name}: replace this line' in read_source(root / "solutions" / "unit.py").stub


def test_a_region_in_the_body_of_a_class_belongs_to_no_function_even_right_below_a_method(root):
    region = "    ### BEGIN SOLUTION\n    x = 1\n    ### END SOLUTION\n"
    (root / "solutions" / "unit.py").write_text(f"# %%\nclass A:\n    def f(self):\n        pass\n{region}")
    with pytest.raises(ReleaseError, match="outside of any function"):
        read_source(root / "solutions" / "unit.py")


def test_a_solution_that_stands_in_the_lesson_too_is_refused(root):
    leak = SOURCE.replace("# # A lesson", "# # A lesson\n#\n#     doubled_in_a_way_that_is_secret = x + x", 1)
    (root / "solutions" / "unit.py").write_text(leak)
    with pytest.raises(ReleaseError, match=r"README\.md:\d+: .* must stay hidden"):
        release_units(root, ["unit"], root / "assignments")


def test_a_solution_inside_a_sentence_is_found_in_the_notebook_too_though_its_quotes_are_escaped(root):
    secret = 'secret = {"a key that nobody knows": x}'
    text = SOURCE.replace("    return doubled", f"    {secret}\n    return doubled", 1)
    text = text.replace("# # A lesson", f"# # A lesson\n#\n# Write `{secret}`, then return it.", 1)
    (root / "solutions" / "unit.py").write_text(text)
    with pytest.raises(ReleaseError) as error:
        release_units(root, ["unit"], root / "assignments")
    assert "unit.ipynb:" in str(error.value) and "README.md:" in str(error.value)


def test_a_public_test_may_state_a_hidden_property_but_not_on_the_hidden_numbers(root):
    shared = "require(permutation_equivariance(unit.double, x))"
    numbers = "x = torch.tensor([[0.125, 7.5], [3.25, -2.0]])"
    assert len(shared) > 40 and len(numbers) > 40
    (root / "tests_hidden" / "test_unit.py").write_text(f"def test_double():\n    {numbers}\n    {shared}\n")
    for line, refused in ((shared, False), (numbers, True)):
        (root / "solutions" / "unit.py").write_text(SOURCE.replace("    assert double(2) == 4", f"    {line}"))
        if refused:
            with pytest.raises(ReleaseError, match=r"test_unit\.py:\d+: .* must stay hidden"):
                release_units(root, ["unit"], root / "assignments", check=True)
        else:
            release_units(root, ["unit"], root / "assignments", check=True)


def test_a_line_of_a_hidden_test_in_the_lesson_is_refused(root):
    line = "expected_values_that_are_hidden = torch.tensor([1.0, 2.0])"
    (root / "tests_hidden" / "test_unit.py").write_text(f"import torch\n{line}\n")
    (root / "solutions" / "unit.py").write_text(SOURCE.replace("import torch\n", f"import torch\n{line}\n", 1))
    with pytest.raises(ReleaseError, match="tests_hidden"):
        release_units(root, ["unit"], root / "assignments")
