"""One submission's verdict: right code gets all marks, each fault loses its own, and the student is told why."""

from __future__ import annotations

import pytest

from tests.judge.conftest import RIGHT, failed, results, submission
from tests.judge.faults import FAULTS


def test_the_right_solution_gets_full_marks(judge):
    verdict = judge.grade(submission(RIGHT))
    assert not failed(verdict), {n: results(verdict)[n].message for n in failed(verdict)}
    assert verdict.score == verdict.max_score > 0
    assert not judge.odd


@pytest.mark.parametrize("seed", range(20))
def test_the_right_solution_gets_full_marks_whatever_the_seed(judge_with, seed):
    assert not failed(judge_with(seed=seed).grade(submission(RIGHT)))


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_fails_the_tests_that_are_meant_for_it(judge, name):
    source, expected = FAULTS[name]
    verdict = judge.grade(submission(RIGHT + "\n" + source))
    assert failed(verdict) == expected


def test_a_stub_gets_nothing_and_is_told_that_it_is_not_done(judge):
    stub = "def scale(x, factors=None):\n    raise NotImplementedError('scale: replace this line')\n"
    verdict = judge.grade(submission(stub))
    assert verdict.score == 0
    assert results(verdict)["values"].message == "Not done yet."
    assert results(verdict)["parameters"].message == "`Gate` is not defined in your file."


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_student_who_draws_noise_does_not_draw_the_tests_inputs(judge_with, seed):
    """With one seed for both, `randn_like(x)` would be x itself, and a right tester that adds noise would see no change."""
    source = RIGHT.replace(
        "        return x.clone()", "        return x.clone() if not torch.equal(torch.randn_like(x), x) else x + 1"
    )
    assert not {"keywords", "picture"} & failed(judge_with(seed=seed).grade(submission(source)))


def test_an_index_error_is_no_end_of_the_answers(judge):
    """A list that is read by index ends at an IndexError; the student's own must surface instead."""
    source = RIGHT.replace("        return x.clone()", "        raise IndexError")
    assert "IndexError" in results(judge.grade(submission(source)))["keywords"].message


def test_a_function_that_does_nothing_earns_no_duty(judge):
    """`return x` keeps its inputs, its dtype, its gradients: duties alone must not add up to marks."""
    assert judge.grade(submission("def scale(x, factors=None):\n    pass\n")).score == 0


def test_an_exercise_that_calls_one_not_done_names_it(judge):
    source = (
        RIGHT.replace("    return module(module(x))", "    return helper(x)")
        + "\ndef helper(x):\n    raise NotImplementedError\n"
    )
    assert (
        results(judge.grade(submission(source)))["module_argument"].message
        == "It calls `helper`, which is not done yet."
    )


def test_an_import_that_fails_costs_only_what_needs_it(judge):
    verdict = judge.grade(submission("import einops_is_not_here\n" + RIGHT.replace("sum(", "einops_is_not_here.sum(")))
    assert failed(verdict) == {"callback"}
    assert "einops_is_not_here" in verdict.notes[0] and "Line 1" in verdict.notes[0]


def test_code_at_the_top_level_that_raises_costs_nothing(judge):
    verdict = judge.grade(
        submission(RIGHT + "\nassert scale(torch.ones(2, 2)).sum() == 5, 'my own check'\nraise SystemExit\n")
    )
    assert not failed(verdict) and len(verdict.notes) == 2


def test_a_students_own_subclass_of_an_error_counts_as_that_error(judge):
    source = RIGHT.replace("raise ValueError(", "raise Unequal(") + "\nclass Unequal(ValueError): pass\n"
    assert not failed(judge.grade(submission(source)))


def test_a_class_that_is_no_module_is_told_so(judge):
    source = RIGHT.replace("class Gate(nn.Module):", "class Gate:").replace("super().__init__()", "pass")
    assert "Gate is no torch.nn.Module" in results(judge.grade(submission(source)))["parameters"].message


def test_a_module_keeps_buffers_of_its_own_when_weights_are_loaded(judge):
    source = RIGHT.replace(
        "super().__init__()", "super().__init__()\n        self.register_buffer('one', torch.ones(1))"
    )
    assert not failed(judge.grade(submission(source)))


def test_a_syntax_error_shows_the_line_and_a_caret(judge):
    verdict = judge.grade(submission("def scale(x):\n    return x +\n"))
    assert verdict.score == 0 and verdict.max_score > 0
    lines = verdict.problem.splitlines()
    assert lines[0] == "Python cannot read line 2 of lab.py:"
    assert lines[1].strip() == "return x +" and lines[2].rstrip().endswith("^")
    assert lines[2].index("^") >= len(lines[1].rstrip()) - 1


def test_an_exception_is_shown_with_the_students_own_lines_only(judge):
    source = (
        RIGHT.replace("    return x * factors[:, None]", "    return wrong(x)")
        + "\ndef wrong(x):\n    return x @ x.new_ones(7, 7)\n"
    )
    message = results(judge.grade(submission(source)))["values"].message
    assert message.startswith("Your code raised RuntimeError: mat1 and mat2")
    assert "in scale\n    return wrong(x)" in message and "in wrong\n    return x @ x.new_ones(7, 7)" in message
    assert "autograder" not in message and "server" not in message


def test_a_failed_property_carries_its_picture(judge):
    result = results(judge.grade(submission(RIGHT.replace("return x.clone()", "return x + 1"))))["picture"]
    assert result.message == "an entry moved though the factor is 1"
    assert result.evidence["picture"] and result.evidence["rows"] == "row"


def test_an_assertion_without_words_reveals_only_the_title(judge):
    result = results(judge.grade(submission(RIGHT.replace("x * factors[:, None]", "x - factors[:, None]"))))["values"]
    assert not result.passed and result.message == "" and result.title == "Each row is multiplied by its factor"


def test_a_result_of_another_kind_is_named(judge):
    source = RIGHT.replace("return x * factors[:, None]", "return [1, 2]")
    assert "list of 2" in results(judge.grade(submission(source)))["values"].message


def test_a_test_that_hangs_costs_that_exercise_only_and_the_next_goes_on_with_a_fresh_worker(judge_with):
    source = RIGHT.replace("    return x * factors[:, None]", "    while True: pass")
    judge = judge_with(seconds_per_test=0.5)
    verdict = judge.grade(submission(source))
    marks = {e.name: e.score == e.max_score for e in verdict.exercises}
    assert marks == {"scale": False, "Gate": True, "total": True, "noise": True}
    assert verdict.limits and judge.odd
    assert "earlier tests of this exercise" in results(verdict)["scale_repeatable"].message


def test_the_time_for_a_submission_is_a_limit_for_all_its_tests_together(judge_with):
    source = "import time\ndef scale(x, factors=None): time.sleep(60)\nGate = total = noise = scale\n"
    verdict = judge_with(seconds_per_test=0.4, seconds_per_submission=1.0).grade(submission(source))
    assert verdict.milliseconds < 3000 and verdict.score == 0
    assert any("the whole submission" in t.message for t in results(verdict).values())


def test_a_unit_may_import_the_students_other_unit(judge):
    source = RIGHT.replace("import torch\n", "import torch\nfrom earlier import twice\n", 1).replace(
        "module(module(x))", "twice(module, x)"
    )
    others = {"earlier": "def twice(f, x):\n    return f(f(x))\n"}
    assert not failed(judge.grade(submission(source, others=others)))
    assert failed(judge.grade(submission(source))) == {"module_argument"}


def test_what_the_student_prints_is_kept_for_the_instructor(judge):
    assert "hello" in judge.grade(submission(RIGHT + "\nprint('hello')\n")).output


def test_points_can_be_set_by_the_course(judge_with):
    verdict = judge_with(points={"lab": {"values": 10.0}}).grade(submission(RIGHT))
    assert results(verdict)["values"].points == 10


def test_a_submission_that_intake_refused_gets_a_verdict_with_its_problem(judge):
    verdict = judge.grade(submission("", problem="the zip is a bomb"))
    assert verdict.problem == "the zip is a bomb" and verdict.score == 0


def test_no_state_goes_from_one_submission_to_the_next(judge):
    """A judge is reused: the same submission has the same verdict, whoever was graded before it."""

    def told(source):
        return [(t.name, t.passed, t.message) for t in results(judge.grade(submission(source))).values()]

    sources = [RIGHT, *(RIGHT + "\n" + text for text, _ in FAULTS.values()), "x = 1\n"]
    alone = [told(source) for source in sources]
    assert [told(source) for source in reversed(sources)] == alone[::-1]
