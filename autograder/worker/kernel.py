"""The few Linux calls that Python's standard library does not offer."""

from __future__ import annotations

import ctypes
import os
import platform

LIBC = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()
SUPPORTED = ("x86_64", "aarch64")
ON_X86 = MACHINE == "x86_64"


def checked(result: int) -> int:
    """The result of a C call. Raises OSError where it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *args: int | bytes) -> int:
    """A system call by its number. Raises OSError."""
    return checked(LIBC.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]))


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument. Raises OSError."""
    checked(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def unshare(flags: int) -> None:
    """Move this process into namespaces of its own. Raises OSError (EPERM without CAP_SYS_ADMIN)."""
    checked(LIBC.unshare(flags))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2). Raises OSError."""
    encoded = [text.encode() if text is not None else None for text in (source, target, kind, options)]
    checked(LIBC.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]))
