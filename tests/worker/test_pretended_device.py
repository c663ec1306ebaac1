"""The pretended GPU blames what a real one would refuse, and nothing else: right idioms must never cost a mark."""

from __future__ import annotations

import pytest
import torch

from autograder.worker.pretended_device import blame, device_error, host, on_gpu, pretended_gpu, to_gpu
from tests.worker.device_cases import CASES

RIGHT = [case for case in CASES if case.is_right]
WRONG = [case for case in CASES if not case.is_right]


def blamed(case) -> str | None:
    torch.manual_seed(0)
    return blame(lambda: case.run("cuda"))


def test_there_are_enough_cases_to_mean_something():
    assert len(RIGHT) >= 60 and len(WRONG) >= 70


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_works_on_the_cpu_so_that_only_the_device_can_be_to_blame(case):
    torch.manual_seed(0)
    case.run("cpu")


@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_a_right_idiom_is_never_blamed(case):
    assert blamed(case) is None


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_a_wrong_one_is_blamed_in_words(case):
    sentence = blamed(case)
    assert sentence is not None and ("CPU" in sentence or "cuda" in sentence or "GPU" in sentence), sentence


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real GPU: compares its verdict with the pretended one")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_real_gpu_agrees(case):
    torch.manual_seed(0)
    try:
        results = case.run("cuda")
        fine = all(t.is_cuda for t in results if isinstance(t, torch.Tensor))
    except Exception as error:
        assert device_error(error), error
        fine = False
    assert fine == case.is_right


def test_torch_is_left_as_it_was_also_after_an_error():
    def state():
        return torch.Generator, torch.tensor, torch.cuda.is_available, torch.nn.Module._apply, torch.Tensor.to

    before = state()
    with pytest.raises(ZeroDivisionError), pretended_gpu():
        assert torch.cuda.is_available() and torch.device("cuda").type == "cuda"
        raise ZeroDivisionError
    assert state() == before and not torch.cuda.is_available()
    assert torch.ones(2).device.type == "cpu" and torch.equal(torch.ones(2) + 1, torch.full((2,), 2.0))


def test_an_error_that_is_not_about_devices_is_no_verdict():
    assert blame(lambda: torch.ones(2, 3) @ torch.ones(2, 3)) is None
    assert blame(lambda: 1 // 0) is None


def test_a_result_that_was_left_behind_is_named_by_its_place():
    assert "result was left on the CPU" in blame(lambda: torch.ones(2))
    assert "tensor 2 of the 2" in blame(lambda: (to_gpu(torch.ones(2)), torch.ones(2)))
    assert blame(lambda: 3) is None and blame(lambda: torch.ones(2), tensors_expected=False) is None


def test_values_survive_the_journey():
    x = torch.randn(3, 4)
    with pretended_gpu():
        there = to_gpu({"a": [x, 1]})
        assert on_gpu(there["a"][0]) and there["a"][1] == 1
        doubled = 2 * there["a"][0]
    assert torch.equal(host(doubled), 2 * x)
