"""A tensor that pretends to lie on a GPU, and the rules by which CUDA lets tensors of two devices meet.

To Python a `Pretended` tensor says `cuda:0`. To torch's C++ it says `meta`: autograd treats that like the CPU, and what
a composite operation makes inside, "like x", can be recognised. Its numbers are an ordinary CPU tensor. Every aten
operation on it passes `run`, which refuses what CUDA refuses, and runs the rest on the CPU tensors. CUDA's rules:
  * Element-wise operations take CPU tensors without dimensions as inputs, never as the output; others take none.
  * `a[i]`: indices on the CPU may index a tensor on the GPU, but not the other way round.
  * `a[i] = v`: slices and numbers copy from any device; where i holds tensors, v lies with a or has no dimensions.
  * `copy_`, `fill_` and `to` cross devices; `numpy()` is refused.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch

GPU, CPU, META = torch.device("cuda", 0), torch.device("cpu"), torch.device("meta")

aten = torch.ops.aten
FREE = {aten.copy_, aten.copy, aten.fill_, aten.fill, aten._to_copy}
INDEX_PUT = {aten.index_put_, aten.index_put, aten._index_put_impl_, aten._unsafe_index_put}
WITH_DATA = {aten._efficientzerotensor.default: aten.zeros.default}  # zeros without data would crash below autograd


class WrongDevice(Exception):
    """A real GPU would refuse this; the text says why, in words for the student."""


class DevicesMixed(WrongDevice, RuntimeError):
    """What torch reports as a RuntimeError."""


class NumpyRefused(WrongDevice, TypeError):
    """What torch reports as a TypeError."""


class Pretended(Tensor):
    """Wraps a CPU tensor, `_host`, of the same sizes and strides."""

    _host: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, data: Tensor) -> Pretended:
        layout = (data.size(), data.stride(), data.storage_offset())
        self: Pretended = Tensor._make_wrapper_subclass(cls, *layout, dtype=data.dtype, device=META)
        self._host = data
        return self

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return run(func, args, kwargs or {})

    device = property(lambda self: GPU)
    is_cuda = property(lambda self: True)
    is_cpu = is_meta = property(lambda self: False)

    def get_device(self) -> int:
        return 0

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise NumpyRefused("a tensor on the GPU was turned into a NumPy array")
        return self._host.numpy()

    def tolist(self) -> Any:
        return self._host.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Pretended:
        new = memo[id(self)] = Pretended(self._host.clone())
        new.requires_grad_(self.requires_grad)
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_host"})  # a Parameter's mark
        return new

    def __format__(self, spec: str) -> str:
        return format(self._host, spec)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self._host)[:-1] + ", device='cuda:0')"


def is_gpu(device: Any) -> bool:
    """Whether a device, or its name, is the pretended one: `meta` is what torch's C++ takes it for."""
    return device is not None and torch.device(device).type in ("cuda", "meta")


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One aten operation, on the CPU data. Raises WrongDevice where CUDA would not let its operands meet."""
    operands = _Operands()
    bare = operands.strip(args)
    bare_kwargs = {k: CPU if k == "device" and is_gpu(v) else operands.strip(v) for k, v in kwargs.items()}
    if operands.on_gpu and operands.on_cpu:
        _check_meeting(func, args, kwargs, operands.on_cpu)
    out = WITH_DATA.get(func, func)(*bare, **bare_kwargs)
    if operands.on_gpu and _traits(func).resizes:  # unsqueeze_, t_, resize_ ...: the wrapper's own sizes change too
        with no_dispatch():
            func(*args, **kwargs)
    device = kwargs.get("device")
    result_on_gpu = bool(operands.on_gpu) if device is None else is_gpu(device)
    return operands.wrap(out) if result_on_gpu else out


class _Operands:
    """The tensors of one operation. (Recursive closures are a reference cycle; in one, torch 2.4 loses `_host`.)"""

    __slots__ = ("known", "on_cpu", "on_gpu")

    def __init__(self) -> None:
        self.on_gpu: list[Pretended] = []
        self.on_cpu: list[Tensor] = []
        self.known: dict[int, Tensor] = {}  # by the id of their data: in-place and `out=` results stay the same object

    def strip(self, value: Any) -> Any:
        if isinstance(value, Pretended):
            self.on_gpu.append(value)
            self.known.setdefault(id(value._host), value)
            return value._host
        if isinstance(value, Tensor):
            self.on_cpu.append(value)
            self.known.setdefault(id(value), value)
        return [self.strip(v) for v in value] if isinstance(value, (list, tuple)) else value

    def wrap(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.known[id(value)] if id(value) in self.known else Pretended(value)
        return type(value)([self.wrap(v) for v in value]) if isinstance(value, (list, tuple)) else value


class _Traits(NamedTuple):
    operation: Any  # without the overload: aten.add for aten.add.Tensor
    pointwise: bool
    resizes: bool
    writes: bool


@cache
def _traits(func: Any) -> _Traits:
    pointwise, resizes = torch.Tag.pointwise in func.tags, torch.Tag.inplace_view in func.tags
    return _Traits(func.overloadpacket, pointwise, resizes, func._schema.is_mutable)


def _check_meeting(func: Any, args: Any, kwargs: dict[str, Any], on_cpu: list[Tensor]) -> None:
    """Refuse what CUDA refuses of an operation with tensors on the GPU, and these on the CPU."""
    if any(t.is_meta for t in on_cpu):
        raise NotImplementedError(f"pretended GPU: the numbers of an operand of {func} were lost")
    operation, pointwise, _, writes = _traits(func)
    if operation in FREE:
        return
    if operation is aten.index or operation in INDEX_PUT:
        target_on_gpu = isinstance(args[0], Pretended)
        if not target_on_gpu and any(isinstance(index, Pretended) for index in args[1]):
            raise DevicesMixed("a tensor on the CPU was indexed with one on the GPU")
        fine = operation is aten.index or isinstance(args[2], Pretended) == target_on_gpu or args[2].dim() == 0
    else:
        target_on_gpu = not writes or isinstance(kwargs.get("out", args[0]), Pretended)
        fine = pointwise and target_on_gpu and all(t.dim() == 0 for t in on_cpu)
    if not fine:
        raise DevicesMixed(f"a tensor on the CPU met one on the GPU (in `{operation.__name__.strip('_')}`)")
