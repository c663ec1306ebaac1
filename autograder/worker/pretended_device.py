"""A pretended GPU: finds, on a machine without one, tensor code that would fail on a real one.

    with pretended_gpu():
        x = torch.randn(2, 3).to("cuda")         # says cuda:0, its numbers lie on the CPU
        y = model.to("cuda")(x)                  # raises WrongDevice where a tensor on the CPU meets one on the "GPU"
    on_gpu(y), host(y)                           # was the result left on the GPU? its numbers

The rules of CUDA are in `pretended_tensor`. Here is what must hold around them: torch's Python functions, which look
at devices before any operation, and the claim that there is a GPU. Load the code under test inside the context too, for
a `DEVICE = "cuda" if torch.cuda.is_available() else "cpu"` at its top.

Only what `device_error` knows blames the code: any other error may be this module's own, and is no verdict. It finds
mistakes, not cheats. Out of its sight: `type(x) is torch.Tensor`, a second GPU, CUDA's memory, speed and rounding,
sparse tensors, `torch.compile`. The context is for one thread, and leaves torch as it was but for one trace: torch's
C++ may note that CUDA has been started, so a process that will use a real GPU must have used it before.

Costs on one thread of a busy machine, torch 2.13: 15 us to enter and leave. A sum of 4 numbers takes 1.4 us outside, 11
us inside, and 20 us on the pretended GPU; a batched product 6 us outside and 130 us there. Measured with
    python -m timeit -s "import torch; from autograder.worker.pretended_device import pretended_gpu" \\
        -s "c = pretended_gpu(); c.__enter__(); x = torch.ones(4, device='cuda')" "x + x"
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from traceback import walk_tb
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import swap_tensors
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.worker.pretended_tensor import CPU, GPU, META, DevicesMixed, Pretended, WrongDevice, is_gpu, run

TORCHS_WORDS = (  # for a device mistake
    "same device",
    "indices should be either on",
    "device type for generator",
    "to have device",
    "weight type (torch.",
    "device type tensor to numpy",
)


# -- values -----------------------------------------------------------------------------------------------------------
def on_gpu(value: object) -> bool:
    """Whether a value is a tensor on the pretended GPU, or on a real one."""
    return isinstance(value, Tensor) and value.is_cuda


def host(value: Any) -> Any:
    """The value with each pretended tensor, also in lists, tuples and dicts, replaced by its CPU data."""
    return _convert(lambda leaf: leaf._host if isinstance(leaf, Pretended) else leaf, value)


def to_gpu(value: Any) -> Any:
    """The value with its tensors (new leaves) and modules, also in lists, tuples and dicts, on the GPU."""
    return _convert(_leaf_to_gpu, value)


def _leaf_to_gpu(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.detach().to(GPU).requires_grad_(leaf.requires_grad)
    return leaf.to(GPU) if isinstance(leaf, Module) else leaf


def _convert(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        make = getattr(value, "_make", type(value))  # a named tuple takes its parts one by one
        return make([_convert(change, part) for part in value])
    return {k: _convert(change, part) for k, part in value.items()} if isinstance(value, dict) else change(value)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


# -- torch's Python functions -----------------------------------------------------------------------------------------
def _default_device() -> torch.device | None:
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    contexts = [mode.device for mode in modes if isinstance(mode, DeviceContext)]
    return contexts[-1] if contexts else None


def _build(make: Any, like: Tensor | None, data: Any, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    """torch.tensor, torch.as_tensor and Tensor.new_tensor: C++ reads the numbers of a list without any operation."""
    dtype = dtype or getattr(like, "dtype", None)
    device = device or getattr(like, "device", None) or (data.device if isinstance(data, Tensor) else _default_device())
    if not isinstance(data, Tensor):
        data = make(host(data), dtype=dtype, device=CPU)
    elif make is torch.tensor:
        data = data.detach().clone()
    built: Tensor = data.to(META if is_gpu(device) else CPU, dtype or data.dtype)
    return built.requires_grad_() if options.get("requires_grad") else built


def _index(index: Any) -> Any:
    """C++ reads lists and arrays as indices without any operation: here they become tensors before."""
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    return torch.as_tensor(host(index)) if isinstance(index, (list, np.ndarray)) else index


def _set_item(x: Tensor, index: Any, value: Any) -> None:
    if on_gpu(x) and not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=x.dtype)
    Tensor.__setitem__(x, _index(index), value)


def _set_data(x: Tensor, new: Tensor) -> None:
    """`x.data = new`: x stays the same object, across devices too."""
    if on_gpu(x) != on_gpu(new):
        other = Parameter(new, x.requires_grad) if isinstance(x, Parameter) else new.detach()
        return swap_tensors(x, other.requires_grad_(x.requires_grad))  # type: ignore[no-untyped-call, no-any-return]
    Tensor.data.__set__(x, new)  # type: ignore[attr-defined]
    if isinstance(x, Pretended) and isinstance(new, Pretended):
        x._host = new._host


MENDED: dict[Any, Callable[..., Any]] = {
    torch.tensor: partial(_build, torch.tensor, None),
    torch.as_tensor: partial(_build, torch.as_tensor, None),
    Tensor.new_tensor: partial(_build, torch.tensor),
    Tensor.new: lambda x, *args, **kwargs: host(x).new(*args, **kwargs).to(META if on_gpu(x) else CPU),
    Tensor.cuda: lambda x, *args, **kwargs: x.to(META),
    Tensor.__getitem__: lambda x, index: Tensor.__getitem__(x, _index(index)),
    Tensor.__setitem__: _set_item,
    Tensor.data.__set__: _set_data,  # type: ignore[attr-defined]
}


class _Functions(TorchFunctionMode):
    """Says meta for cuda to torch's C++, and minds generators and the functions above."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in MENDED:
            return MENDED[func](*args, **kwargs)
        device, generator = kwargs.get("device"), kwargs.get("generator")
        if generator is not None:
            drawn_on_gpu = is_gpu(device or _default_device()) or (device is None and any(map(on_gpu, args)))
            if drawn_on_gpu != (generator.device.type == "cuda"):
                here, there = ("GPU", "CPU") if drawn_on_gpu else ("CPU", "GPU")
                raise DevicesMixed(f"numbers on the {here} were drawn from a generator on the {there}")
        if func is Tensor.to:
            args = [META if isinstance(a, (str, torch.device)) and is_gpu(a) else a for a in args]
        return func(*args, **({**kwargs, "device": META} if is_gpu(device) else kwargs))


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sends every operation through `run`, also those without a pretended tensor: they may make one."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch would import torch._dynamo at the first operation, for a second or two

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


# -- the claim that there is a GPU ------------------------------------------------------------------------------------
class _GPUGenerator(torch.Generator):
    device = property(lambda self: GPU)


class _GeneratorType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, CPU_GENERATOR)


class _Generator(metaclass=_GeneratorType):
    def __new__(cls, device: Any = "cpu") -> torch.Generator:  # type: ignore[misc]
        return _GPUGenerator() if is_gpu(device) else CPU_GENERATOR(device)


CPU_GENERATOR = torch.Generator
PLAIN_APPLY: Any = Module._apply


def _apply(module: Module, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
    """Module._apply, for `model.to(device)`: a parameter stays the same object, as on CUDA: tied weights stay tied."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return PLAIN_APPLY(module, change, recurse)
    except RuntimeError as error:
        if "swap" not in str(error):
            raise
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
    return PLAIN_APPLY(module, change, recurse)  # a graph holds the parameters: then new ones


CLAIMS: list[tuple[Any, dict[str, Any]]] = [
    (torch, {"Generator": _Generator}),
    (Module, {"_apply": _apply}),
    (
        torch.cuda,
        {
            "_lazy_init": lambda: None,  # also lets `device="cuda"` pass torch's C++, up to the operation
            "is_available": lambda: True,
            "is_bf16_supported": lambda *args, **kwargs: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "synchronize": lambda device=None: None,
            "get_rng_state": lambda device=0: torch.get_rng_state(),
            "set_rng_state": lambda state, device=0: torch.set_rng_state(state),
        },
    ),
]
if hasattr(torch, "accelerator"):  # since torch 2.6
    claims = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "synchronize": lambda device=None: None,
    }
    CLAIMS.append((torch.accelerator, claims))


@contextmanager
def pretended_gpu() -> Iterator[None]:
    """While it is open, torch in this process has one CUDA device: load the code under test inside, and call it."""
    before = [(owner, name, getattr(owner, name)) for owner, claims in CLAIMS for name in claims]
    try:
        for owner, claims in CLAIMS:
            for name, claim in claims.items():
                setattr(owner, name, claim)
        with _Functions(), _Operations():  # type: ignore[no-untyped-call]
            yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


# -- the verdict ------------------------------------------------------------------------------------------------------
def device_error(error: BaseException) -> bool:
    """Whether an error blames the code for where its tensors lie, on the pretended GPU or on a real one."""
    if isinstance(error, WrongDevice):
        return True
    if not isinstance(error, (RuntimeError, TypeError)) or isinstance(error, NotImplementedError):
        return False
    text = str(error)
    return any(words in text for words in TORCHS_WORDS) or ("meta" in text and "evice" in text)


def blame(
    f: Callable[[], Any],
    files: Collection[str] = (),
    tensors_expected: bool = True,
    gpu: Callable[[], AbstractContextManager[None]] = pretended_gpu,
) -> str | None:
    """One sentence that blames the code which f runs for where its tensors lie; None if all is well, or no verdict.

    f loads the code under test, calls it with arguments that are `to_gpu`, and returns the result.
    files: the student's file names; the sentence names the innermost of their lines that the traceback shows.
    tensors_expected: the tensors of the result should lie on the GPU, because the arguments do.
    gpu: the context around f; `contextlib.nullcontext` where there is a real GPU.
    """
    try:
        with gpu():
            result = f()
    except (Exception, SystemExit) as error:
        return _sentence(error, files) if device_error(error) else None
    tensors = list(_tensors(result)) if tensors_expected else []
    left = [i for i, t in enumerate(tensors, 1) if not on_gpu(t)]
    if not left:
        return None
    part = "the result" if len(tensors) == 1 else f"tensor {left[0]} of the {len(tensors)} in the result"
    return f"{part} was left on the CPU though the input is on the GPU"


def _sentence(error: BaseException, files: Collection[str]) -> str:
    text = str(error)
    if not isinstance(error, WrongDevice):
        text = "torch says: " + text.split("\n")[0][:200].replace("meta", "cuda:0")
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    lines = [f"{file}, line {line}" for file, line in frames if file in files]
    return f"{text}, {lines[-1]}" if lines else text
