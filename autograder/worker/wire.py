"""The border between judge and worker: frames that hold a JSON header and raw tensor bytes, never pickle.

    frame  = <u32 header length> <u32 body length> header body
    header = [message, [[dtype, shape, strides or null, device], ...]]
    body   = the tensors' bytes, one after another

`message` is a tree of JSON values in which every other thing is a dict with one key:

    {"t": i} tensor i      {"n": i} the same as a numpy array    {"u": [...]} tuple      {"d": [[k, v], ...]} dict
    {"z": [re, im]} complex    {"y": name} dtype    {"v": name} device    {"g": i} a generator whose state is tensor i
    {"h": ...} module handle   {"c": id} callback   (what these two mean is up to the hooks of `encode` and `decode`)

Both ends use it. The judge's reading side is a security border: it caps every size before it allocates, and raises
only WireError.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

HEAD = struct.Struct("<II")
DTYPES = {
    name: getattr(torch, name)
    for name in ("float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split())
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MAX_HEADER, MAX_BODY = 1 << 20, 1 << 26  # bytes
MAX_TENSORS, MAX_DIMS, MAX_DEPTH, MAX_NODES = 4096, 12, 40, 100_000

Read = Callable[[int], bytearray]
EncodeOther = Callable[[Any], "dict[str, Any] | None"]
DecodeOther = Callable[[str, Any], Any]


class WireError(Exception):
    """The other side sent something that is not a frame, or a value cannot be put into one."""


def encode(value: Any, other: EncodeOther | None = None) -> bytes:
    """A tree of values as the bytes of one frame. `other(v)` turns an unknown value into JSON, or returns None."""
    encoder = _Encoder(other)
    message = encoder.walk(value)
    header = json.dumps([message, encoder.specs]).encode()
    body = b"".join(encoder.bodies)
    if len(header) > MAX_HEADER or len(body) > MAX_BODY:
        raise WireError(f"the values are too large to send ({len(header) + len(body):,} bytes)")
    return b"".join([HEAD.pack(len(header), len(body)), header, body])


class _Encoder:
    def __init__(self, other: EncodeOther | None) -> None:
        self.other = other
        self.specs: list[list[Any]] = []
        self.bodies: list[bytes] = []
        self.nodes = self.size = 0

    def walk(self, v: Any, depth: int = 0) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise WireError("the value is nested too deeply or has too many parts")
        if v is None or isinstance(v, bool) or type(v) is float:
            return v
        if isinstance(v, str):
            return str(v)
        if isinstance(v, torch.Tensor):
            return {"t": self.tensor(v)}
        if isinstance(v, list):
            return [self.walk(x, depth + 1) for x in v]
        if isinstance(v, tuple):
            return {"u": [self.walk(x, depth + 1) for x in v]}
        if isinstance(v, dict):
            return {"d": [[self.walk(k, depth + 1), self.walk(x, depth + 1)] for k, x in v.items()]}
        if isinstance(v, (int, float, complex, np.generic)):
            return self.number(v)
        return self.special(v)

    def number(self, v: Any) -> Any:
        v = v.item() if isinstance(v, np.generic) else v
        if isinstance(v, (bool, str)):
            return v
        if isinstance(v, int):
            if v.bit_length() > 64:
                raise WireError("an integer of more than 64 bits cannot be sent")
            return int(v)
        return {"z": [v.real, v.imag]} if isinstance(v, complex) else float(v)

    def special(self, v: Any) -> Any:
        if isinstance(v, np.ndarray):
            try:
                return {"n": self.tensor(torch.from_numpy(np.ascontiguousarray(v)))}
            except (TypeError, ValueError):
                raise WireError(f"numpy arrays of dtype {v.dtype} cannot be sent") from None
        if isinstance(v, torch.dtype) and v in NAMES:
            return {"y": NAMES[v]}
        if isinstance(v, torch.device):
            return {"v": str(v)}
        if isinstance(v, torch.Generator):
            return {"g": self.tensor(v.get_state())}
        if self.other is not None and (tree := self.other(v)) is not None:
            return tree
        raise WireError(f"values of type {type(v).__name__} cannot be sent")

    def tensor(self, t: torch.Tensor) -> int:
        if t.dtype not in NAMES or t.layout is not torch.strided:
            raise WireError(f"tensors of dtype {t.dtype} and layout {t.layout} cannot be sent")
        on_meta = t.device.type == "meta"
        self.size += 0 if on_meta else t.numel() * t.element_size()
        if self.size > MAX_BODY or len(self.specs) >= MAX_TENSORS or t.dim() > MAX_DIMS:
            raise WireError(f"a tensor of shape {tuple(t.shape)} is too large to send")
        strides = None if t.is_contiguous() else list(t.stride())
        self.specs.append([NAMES[t.dtype], list(t.shape), strides, "meta" if on_meta else "cpu"])
        self.bodies.append(b"" if on_meta else _bytes(t))
        return len(self.specs) - 1


def _bytes(t: torch.Tensor) -> bytes:
    t = t.detach().cpu().contiguous().resolve_conj().resolve_neg()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def decode(header: bytes, body: bytearray, other: DecodeOther | None = None, keep_strides: bool = False) -> Any:
    """The header and body of one frame as a tree of values. Raises WireError whatever the bytes are.

    `keep_strides` gives tensors the memory layout that they had on the other side; only a worker, who trusts the judge,
    asks for it.
    """
    try:
        message, specs = json.loads(header)
        if len(specs) > MAX_TENSORS:
            raise WireError("too many tensors")
        tensors, at = [], 0
        for name, shape, strides, device in specs:
            size = 0 if device == "meta" else _size(name, shape)
            if at + size > len(body):
                raise WireError("the body is shorter than its header says")
            tensor = _tensor(body, at, size, name, shape, device)
            tensors.append(_strided(tensor, strides) if keep_strides and strides else tensor)
            at += size
        if at != len(body):
            raise WireError("the body is longer than its header says")
        return _Decoder(tensors, other).build(message)
    except WireError:
        raise
    except Exception as error:  # RecursionError, MemoryError, ValueError ...: a hostile header can raise what it likes
        raise WireError(f"bad frame: {type(error).__name__}") from None


def _size(name: str, shape: list[int]) -> int:
    if name not in DTYPES or type(shape) is not list or len(shape) > MAX_DIMS:
        raise WireError("bad tensor header")
    # the product without the zeros: the strides of an empty tensor can overflow too
    if any(type(n) is not int or not 0 <= n < 1 << 31 for n in shape) or math.prod(n or 1 for n in shape) > 1 << 40:
        raise WireError("bad tensor shape")
    return math.prod(shape) * int(DTYPES[name].itemsize)


def _tensor(body: bytearray, at: int, size: int, name: str, shape: list[int], device: str) -> torch.Tensor:
    dtype = DTYPES[name]
    if device == "meta":
        _size(name, shape)
        return torch.empty(shape, dtype=dtype, device="meta")
    if not size:
        return torch.empty(shape, dtype=dtype)
    raw = torch.frombuffer(body, dtype=torch.uint8, count=size, offset=at)
    if dtype is torch.bool:  # a bool whose byte is 2 is undefined behaviour in torch's kernels
        return (raw != 0).reshape(shape)
    return raw.clone().view(dtype).reshape(shape)  # clone: its own, aligned memory


def _strided(t: torch.Tensor, strides: list[int]) -> torch.Tensor:
    """The same values in the memory layout of these strides; a stride of 0 is an expanded dimension."""
    once = t[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
    laid = torch.empty_strided(once.shape, [stride or 1 for stride in strides], dtype=t.dtype)
    return laid.copy_(once).expand(t.shape)


class _Decoder:
    def __init__(self, tensors: list[torch.Tensor], other: DecodeOther | None) -> None:
        self.tensors, self.other = tensors, other

    def build(self, v: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise WireError("the value is nested too deeply")
        if type(v) is list:
            return [self.build(x, depth + 1) for x in v]
        if type(v) is str:  # a lone surrogate would break every file that it is written to
            return v.encode("utf-8", "replace").decode()
        if type(v) is not dict:
            return v
        ((kind, x),) = v.items()
        if kind == "u":
            return tuple(self.build(y, depth + 1) for y in x)
        if kind == "d":
            return {self.build(k, depth + 1): self.build(y, depth + 1) for k, y in x}
        if kind in ("t", "n", "g"):
            return self.tensor(kind, x)
        return self.other(kind, x) if kind in ("h", "c") and self.other is not None else self.simple(kind, x)

    def tensor(self, kind: str, index: Any) -> Any:
        if type(index) is not int or not 0 <= index < len(self.tensors):
            raise WireError("there is no such tensor")
        t = self.tensors[index]
        if kind == "n":
            return t.numpy()
        if kind == "g":
            generator = torch.Generator()
            generator.set_state(t)
            return generator
        return t

    def simple(self, kind: str, x: Any) -> Any:
        if kind == "z":
            return complex(*x)
        if kind == "y":
            return DTYPES[x]
        if kind == "v":
            return torch.device(x)
        raise WireError(f"unknown kind of value {str(kind)[:20]!r}")


def receive(read: Read, other: DecodeOther | None = None, keep_strides: bool = False) -> Any:
    """Read one frame. `read(n)` returns a writable buffer of n bytes; it owns clocks and end of file."""
    n_header, n_body = HEAD.unpack(read(HEAD.size))
    if n_header > MAX_HEADER or n_body > MAX_BODY:
        raise WireError(f"a frame of {n_header} + {n_body} bytes is over the limit")
    return decode(bytes(read(n_header)), read(n_body), other, keep_strides)


def reader(sock: socket.socket, wait: Callable[[], None] | None = None) -> Read:
    """A `read` for `receive` on a blocking socket; `wait()` is called before each recv and may raise."""

    def read(n: int) -> bytearray:
        buffer = bytearray(n)
        view, at = memoryview(buffer), 0
        while at < n:
            if wait is not None:
                wait()
            got = sock.recv_into(view[at:], min(n - at, 1 << 20))
            if not got:
                raise EOFError("the connection was closed")
            at += got
        return buffer

    return read
