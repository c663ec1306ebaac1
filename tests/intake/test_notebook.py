"""A notebook is judged like a file with its definitions: what it did to try them out stays out."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.intake.notebook import definitions
from autograder.intake.text import Unreadable
from tests.intake.samples import notebook, only, put


def read(*cells: str) -> tuple[str, list[str]]:
    return definitions(notebook(*cells).encode(), "attention.ipynb")


CELLS = (
    "%matplotlib inline\n!pip install einops \\\n    plotly\nimport torch\nfrom torch import nn",
    "RATE = 3e-4\nSIZES = [2 * 4, -1]\nmodel = nn.Linear(2, 2)\nx, y = 1, 2",
    "def f(x):\n    '''%s of !'''\n    return (x\n% 2)\n\n@torch.no_grad()\ndef g(): ...\nprint(f(1))",
    "class Net(nn.Module):\n    pass\n\nfor i in range(10):\n    train(i)\nplt.plot([1])",
    "try:\n    import einops\nexcept ImportError:\n    einops = None\nnet?\nfiles = !ls",
    "%%bash\nrm -rf /",
    "half a cell (",
    "if torch.cuda.device_count():\n    launch()",
    "%%time\ndef timed(): ...",
)


def test_a_notebook_gives_its_definitions_and_nothing_else():
    source, notes = read(*CELLS)
    kept = "import torch|RATE = 3e-4|SIZES|x, y = 1, 2|def f(x)|% 2)|@torch.no_grad()|class Net|einops = None|def timed"
    for text in kept.split("|"):
        assert text in source, text
    for text in "matplotlib pip plotly nn.Linear print train plot rm launch half ls".split():
        assert text not in source, text
    compile(source, "attention.py", "exec")
    assert "attention.ipynb: code cell 7 was left out: line 1 does not parse: '(' was never closed" in notes
    assert any("code cell 6 was left out: it is a %%bash cell" in note for note in notes)
    assert "1 in code cell 2 (sets model); 1 in code cell 3; 2 in code cell 4; 1 in code cell 8" in notes[0]


def test_each_cell_is_marked_so_that_a_line_leads_back_to_it():
    source, _ = read("a = 1", "print(a)", "def f():\n    # why\n    return a")
    assert source == "# code cell 1\na = 1\n# code cell 3\ndef f():\n    # why\n    return a\n"


@pytest.mark.parametrize(
    "constant",
    [
        *("NEG = float('-inf')", "ROOT = math.sqrt(2)", "TINY = torch.finfo(torch.float32).min", "T = TypeVar('T')"),
        *(
            "device = 'cuda' if torch.cuda.is_available() else 'cpu'",
            "scaled = lambda x: x / x.norm()",
            "F = nn.functional",
        ),
        *("Config = namedtuple('Config', 'width depth')", "SIZE: int = 3", "TEXT = f'{math.pi}'", "A = B = (1, *())"),
    ],
)
def test_what_a_function_may_need_beside_it_is_kept(constant):
    start = "import math, torch\nfrom torch import nn\nfrom collections import namedtuple\nfrom typing import TypeVar"
    assert constant in read(start, constant)[0] and not read(start, constant)[1]


@pytest.mark.parametrize(
    "statement",
    [
        *("y = x.shape[0]", "y = [x]", "y = f(1)", "y = f(1).shape", "f(1).y = 1", "x.y = 1", "torch.y = 1", "y += 1"),
        *(
            "if f(1):\n    y = 1",
            "y = lambda a=f(1): a",
            "y = [f(i) for i in (1, 2)]",
            "with f(1):\n    y = 1",
            "del f",
        ),
        *("y: f(1) = 1", "(y := f(1))", "try:\n    f(1)\nexcept OSError:\n    y = 1", "f(1)[0] = 1", "assert f(1)"),
    ],
)
def test_what_runs_code_or_needs_what_was_left_out_is_left_out_too(statement):
    source, notes = read("import torch\ndef f(x): ...\nx = torch.randn(3)", statement)
    assert source == "# code cell 1\nimport torch\ndef f(x): ...\n" and "1 in code cell 2" in notes[0]


def test_a_method_that_is_given_to_a_class_afterwards_is_kept():
    source, _ = read("class A: ...", "def forward(self): ...\nA.forward = forward")
    assert "A.forward = forward" in source


def test_of_statements_in_one_line_only_the_definition_is_kept():
    assert read("é = 'é'; print(é); b = 2  # two")[0] == "# code cell 1\né = 'é'\nb = 2\n"


def test_magics_are_dropped_wherever_they_stand_and_lines_that_only_look_like_them_stay():
    """A continued line may begin with the operator `%`, and a text with anything."""
    source, notes = read(
        "%time\nimport os\nif os:\n    %cd x\n?os",
        "def f(a):\n    return '''\n% d\n!''' + (a\n    % 2)\nf?",
        "    # a cell that is indented as a whole\n    def g():\n        return 1\n    !ls",
    )
    names: dict[str, object] = {}
    exec(source, names)
    assert (names["f"]("%s"), names["g"](), notes) == ("\n% d\n!2", 1, [])


def test_a_name_that_is_defined_twice_is_told_and_the_later_counts():
    source, notes = read("def f(): return 1", "def f(): return 2")
    names: dict[str, object] = {}
    exec(source, names)
    assert names["f"]() == 2 and "cells 1 and 2" in notes[0]


def test_format_3_is_read_too():
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["def f():\n", "    return 1\n"]}]}], "nbformat": 3}
    assert "def f()" in definitions(json.dumps(old).encode(), "attention.ipynb")[0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_notebook_is_read_in_each_encoding_of_json(encoding):
    data = notebook("# é\r\nx = 'é'").replace("\\u00e9", "é").encode(encoding)
    assert "x = 'é'" in definitions(data, "attention.ipynb")[0]


def test_python_says_nothing_of_a_students_text_to_whoever_grades_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "'\\d'" in read("x = '\\d'")[0]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"nothing", b"[]", b"{}", b'{"cells": 3}', b'{"cells": [3, null, {"cell_type": "code"}]}'),
        *(b"[" * 100_000, b"\xff\xfe\0", b"9" * 10_000, b'{"worksheets": [3, {}, {"cells": 3}]}'),
    ],
)
def test_what_is_no_notebook_says_so(data):
    with pytest.raises(Unreadable, match=r"attention\.ipynb"):
        definitions(data, "attention.ipynb")


# -- hostile ones -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "cell",
    [
        *("x = " + "-" * 50_000 + "1", "x = a" + ".b" * 30_000, "x = " + "(" * 60_000, "x = 1" + "+1" * 30_000),
        *("if 1: x = 1\n" + "elif 1: x = 1\n" * 400, "x = '\ud800'", "x = 1\0", "a\n" * 40_000, "%x\n" * 16_000),
        *("%%time\n" * 9_000, "x = " + "lambda: " * 5_000 + "1", "@f\n" * 9_000 + "def g(): ...", "9" * 10_000),
    ],
)
def test_a_hostile_cell_costs_no_other_cell(cell):
    """Deep nesting, half characters, more text than Python's parser should get: each is left out, or read."""
    source, _ = definitions(
        json.dumps({"cells": [{"cell_type": "code", "source": text} for text in ("def f(): ...", cell)]}).encode(),
        "attention.ipynb",
    )
    assert source.startswith("# code cell 1\ndef f(): ...\n") and source.encode()


def test_a_notebook_with_thousands_of_mistakes_gets_a_note_that_somebody_can_read(tmp_path):
    put(tmp_path / "student01" / "attention.ipynb", notebook("f = 1", *["x" * 9000 + " = g("] * 500))
    notes = only(tmp_path).notes
    assert len("".join(notes)) < 10_000 and "more like these" in notes[-1]


def test_a_notebook_of_very_many_cells_is_refused():
    with pytest.raises(Unreadable, match="more than 2,000 code cells"):
        read(*["x = 1"] * 2001)


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
KEYS = st.sampled_from(["cells", "cell_type", "source", "worksheets", "input", "code"])
JSON = st.recursive(LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(KEYS, x, max_size=4), max_leaves=12)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_no_json_breaks_the_reading_of_notebooks(tree):
    with suppress(Unreadable):
        definitions(json.dumps(tree).encode(), "a.ipynb")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab=()[]{}:;'\"#%!? \n\tdefclass@0\\", max_size=60))
def test_no_cell_breaks_the_reading_of_notebooks(cell):
    with suppress(Unreadable), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(read(cell)[0], "a.py", "exec")
