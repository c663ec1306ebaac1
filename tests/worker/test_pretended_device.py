"""The pretended GPU costs marks, so it must never blame right code; it is worth its time if it finds the wrong code."""

import copy
import pickle
import subprocess
import sys
from contextlib import nullcontext
from textwrap import dedent

import pytest
import torch
from torch import nn

from autograder.worker.pretended_device import CLAIMS, blame, device_error, host, on_gpu, pretended_gpu, to_gpu
from tests.worker.device_cases import CASES

RIGHT, WRONG = [c for c in CASES if c.is_right], [c for c in CASES if not c.is_right]


# -- the verdict on what people write ---------------------------------------------------------------------------------
def test_there_are_enough_cases_to_mean_something():
    assert len(RIGHT) >= 80 and len(WRONG) >= 70


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_solution_answers_on_the_cpu_so_that_only_devices_tell_right_from_wrong(case):
    case.run("cpu")


@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_right_code_runs_on_the_pretended_gpu_and_leaves_its_results_there(case):
    with pretended_gpu():
        results = case.run("cuda")  # an error that blames nobody would also be a right case that goes unjudged
    assert blame(lambda: results) is None, "a result was left on the CPU"


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_wrong_code_is_blamed_for_its_device(case):
    assert blame(lambda: case.run("cuda")) is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real GPU, with which the pretended one is compared")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_real_gpu_gives_the_same_verdict(case):
    try:
        case.run("cuda")
    except Exception as error:
        assert device_error(error), f"no device error, or one in words that are not known: {error}"
    real, pretended = blame(lambda: case.run("cuda"), gpu=nullcontext), blame(lambda: case.run("cuda"))
    assert (real is None) == (pretended is None) == case.is_right, f"real: {real}; pretended: {pretended}"


# -- the sentence -----------------------------------------------------------------------------------------------------
def load(source, name="attention.py"):
    space = {"torch": torch, "nn": nn}
    exec(compile(dedent(source), name, "exec"), space)
    return space


SOURCE = """
def shifted(x):
    y = x * 2
    return y + torch.ones(3)
"""


def test_the_sentence_says_what_met_and_the_line_of_the_students_file():
    sentence = blame(lambda: load(SOURCE)["shifted"](to_gpu(torch.ones(3))), files=["attention.py"])
    assert sentence == "a tensor on the CPU met one on the GPU (in `add`), attention.py, line 4"


def test_without_a_file_name_the_sentence_gives_no_line():
    assert blame(lambda: to_gpu(torch.ones(3)) + torch.ones(3)) == "a tensor on the CPU met one on the GPU (in `add`)"


def test_a_result_left_behind_is_said_to_be_left_behind():
    assert blame(lambda: torch.ones(3)) == "the result was left on the CPU though the input is on the GPU"


def test_of_several_results_the_first_left_behind_is_counted():
    def results():
        return {"output": to_gpu(torch.ones(3)), "weights": [torch.ones(3)]}

    assert blame(results) == "tensor 2 of the 2 in the result was left on the CPU though the input is on the GPU"


def test_results_on_the_cpu_are_no_fault_where_no_input_was_on_the_gpu():
    assert blame(lambda: torch.ones(3), tensors_expected=False) is None


def test_numbers_as_a_result_lie_on_no_device():
    assert blame(lambda: [(1, 2.5), None, "text"]) is None


def test_torchs_own_complaint_is_passed_on_without_the_word_meta():
    def meta_in_torchs_words():
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, meta and cpu!"
        )

    sentence = blame(meta_in_torchs_words)
    assert sentence.startswith("torch says: ") and "cuda:0 and cpu" in sentence and "meta" not in sentence


@pytest.mark.parametrize(
    "error",
    [
        ValueError("d_model must be divisible by n_heads"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
        NotImplementedError("'aten::x' is not implemented for the meta device"),
        AssertionError("Torch not compiled with CUDA enabled"),
        SystemExit(1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_error_is_no_verdict(error):
    """Whatever the other tests of an exercise find, and whatever this machinery can't do, costs nothing here."""

    def fail():
        raise error

    assert blame(fail) is None


REAL_MESSAGES = [
    RuntimeError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"),
    RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)"),
    RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'"),
    RuntimeError("Expected out tensor to have device cuda:0, but got cpu instead"),
    RuntimeError("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same"),
    TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory."),
]


@pytest.mark.parametrize("error", REAL_MESSAGES, ids=lambda error: str(error)[:30])
def test_the_words_of_cuda_are_known(error):
    assert device_error(error)


# -- values -----------------------------------------------------------------------------------------------------------
def test_nested_values_go_to_the_gpu_and_back():
    values = {"a": [torch.arange(3.0), 1], "b": (torch.ones(2, dtype=torch.bool), None, "text")}
    with pretended_gpu():
        there = to_gpu(values)
    assert (
        on_gpu(there["a"][0]) and on_gpu(there["b"][0]) and there["a"][1:] == [1] and there["b"][1:] == (None, "text")
    )
    back = host(there)
    assert torch.equal(back["a"][0], values["a"][0]) and torch.equal(back["b"][0], values["b"][0])
    assert not on_gpu(back["a"][0]) and type(back["b"]) is tuple


def test_an_input_that_wants_a_gradient_gets_one_on_the_gpu():
    with pretended_gpu():
        x = to_gpu(torch.ones(3, requires_grad=True))
        (x * x).sum().backward()
    assert x.is_leaf and on_gpu(x.grad) and host(x.grad).tolist() == [2, 2, 2]


def test_a_module_is_moved_with_its_tied_weights_and_buffers():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2))
    module[1].weight = module[0].weight
    weight = module[0].weight
    with pretended_gpu():
        to_gpu(module)
    assert module[0].weight is module[1].weight is weight and isinstance(weight, nn.Parameter)
    assert all(map(on_gpu, module.state_dict().values()))


def test_a_moved_module_can_be_copied_trained_and_brought_back():
    with pretended_gpu():
        module = copy.deepcopy(to_gpu(nn.Linear(3, 1)))
        before = host(module.weight).clone()
        module(to_gpu(torch.ones(2, 3))).sum().backward()
        torch.optim.SGD(module.parameters(), lr=1.0).step()
        module.cpu()
    assert not on_gpu(module.weight) and torch.equal(module.weight, before - 2)


def test_a_tensor_on_the_gpu_looks_like_one():
    with pretended_gpu():
        x = torch.ones(2, device="cuda")
        assert str(x.device) == "cuda:0" and x.is_cuda and not x.is_cpu and not x.is_meta and x.get_device() == 0
        assert repr(x) == "tensor([1., 1.], device='cuda:0')" and f"{x.sum():.1f}" == "2.0" and x.tolist() == [1, 1]
        assert x.numpy(force=True).tolist() == [1, 1]


def test_sizes_changed_in_place_are_seen():
    with pretended_gpu():
        x = torch.zeros(2, 3, device="cuda")
        assert x.unsqueeze_(0).shape == (1, 2, 3) and x.squeeze_(0).t_().shape == x.shape == host(x).shape == (3, 2)


# -- torch is left as it was ------------------------------------------------------------------------------------------
def state_of_torch():
    claimed = [(getattr(owner, "__name__", owner), name, getattr(owner, name)) for owner, of in CLAIMS for name in of]
    modes = torch.overrides._len_torch_function_stack(), torch.utils._python_dispatch._len_torch_dispatch_stack()
    return claimed, modes, torch.__future__.get_swap_module_params_on_conversion(), torch.cuda.is_available()


def use_much_of_it():
    module = to_gpu(nn.Linear(3, 3))
    module(torch.ones(1, 3, device="cuda")).sum().backward()
    torch.Generator(device="cuda").manual_seed(0)
    with torch.device("cuda"):
        torch.zeros(2)


def test_torch_is_as_it_was_after_the_context():
    before = state_of_torch()
    with pretended_gpu():
        assert state_of_torch() != before
        use_much_of_it()
    assert state_of_torch() == before and torch.ones(1).device.type == "cpu"


def test_torch_is_as_it_was_after_an_error_inside():
    before = state_of_torch()
    with pytest.raises(KeyError), pretended_gpu():
        use_much_of_it()
        raise KeyError("the student's")
    assert state_of_torch() == before


def test_a_wrong_device_while_a_module_is_moved_leaves_no_trace_either():
    class Stubborn(nn.Linear):
        def _apply(self, fn, recurse=True):
            super()._apply(fn, recurse)
            return self.weight + torch.ones(3, 3)

    before = state_of_torch()
    assert "met one on the GPU" in blame(lambda: to_gpu(Stubborn(3, 3)))
    assert state_of_torch() == before


def test_generators_are_still_generators_inside():
    with pretended_gpu():
        there, here = torch.Generator(device="cuda"), torch.Generator()
        assert isinstance(there, torch.Generator) and isinstance(here, torch.Generator)
        assert there.device.type == "cuda" and here.device.type == "cpu"
    assert pickle.loads(pickle.dumps(torch.Generator)) is torch.Generator


def test_the_import_does_all_lazy_imports_so_that_a_forked_worker_pays_for_none():
    program = """
        import sys
        import torch
        from autograder.worker.pretended_device import blame, to_gpu
        before = set(sys.modules)
        def use():
            x = to_gpu(torch.ones(2, 3))
            y = to_gpu(torch.nn.Linear(3, 3))(x).softmax(-1)
            y.sum().backward()
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)[[0, 1]]
        assert blame(use) is None
        assert blame(lambda: to_gpu(torch.ones(3)) + torch.ones(3)) is not None
        print(sorted(set(sys.modules) - before))
    """
    run = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
