"""Lock a worker process down before it sees a student's code.

Layers, outermost first: a user id and namespaces of its own (where root), resource limits, no_new_privs, Landlock,
seccomp. The last four need no privilege and work in a container without user namespaces; a worker that lacks any of
them refuses to run.
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from autograder.worker import landlock, seccomp
from autograder.worker.kernel import MACHINE, SUPPORTED, mount, prctl, unshare

NEW_MOUNTS, NEW_IPC, NEW_NETWORK = 0x20000, 0x8000000, 0x40000000
PRIVATE = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
NO_SUID_DEV_EXEC, BIND = 2 | 4 | 8, 0x1000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
SYSTEM_FILES = (
    "/usr/lib", "/lib", "/lib64", "/usr/local/lib", "/dev/null", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo",
    "/sys/devices/system/cpu", "/etc/ld.so.cache", "/usr/share/zoneinfo",
)  # fmt: skip


class LayerMissing(Exception):
    """This machine lacks a layer of the sandbox; the text names it."""


@dataclass(frozen=True)
class Limits:
    """What one worker may use."""

    memory_mb: int = 512  # beyond what the zygote had
    cpu_seconds: int = 120
    disk_mb: int = 16
    uid: int = 200_001  # used where root
    tmp: str = "/tmp"  # mount point of the worker's own tmpfs, where root
    device: str = "cpu"


def check_layers() -> None:
    """Raise LayerMissing, with one clear line, where this machine cannot lock a worker down."""
    if sys.platform != "linux" or MACHINE not in SUPPORTED:
        raise LayerMissing(f"the sandbox needs Linux on x86_64 or aarch64, and this is {sys.platform} on {MACHINE}")
    try:
        landlock.version()
    except OSError:
        raise LayerMissing("the sandbox layer Landlock is missing: it needs Linux 5.13 or newer, switched on") from None
    status = Path("/proc/self/status").read_text()
    if "\nSeccomp:" not in status:
        raise LayerMissing("the sandbox layer seccomp is missing in this kernel")
    if os.geteuid() != 0 and (closed := _closed_to_others(sys.base_prefix)) and not os.access(sys.base_prefix, os.R_OK):
        raise LayerMissing(
            f"Python lies below {closed}, which workers cannot read: use a Python that everybody can read"
        )


def readable_paths(device: str = "cpu") -> list[str]:
    """What any worker may read: Python, its installed packages, system libraries. Never the course's own folder."""
    packages = [p for p in sys.path if p.startswith(sys.prefix) or "site-packages" in p or "dist-packages" in p]
    standard_library = str(Path(os.__file__).parent)
    gpu = [str(p) for p in Path("/dev").glob("nvidia*")] + ["/proc/driver/nvidia"] if device == "cuda" else []
    wanted = {str(Path(p).resolve()) for p in (*packages, standard_library, *SYSTEM_FILES, *gpu)}
    return sorted(p for p in wanted if Path(p).exists())


def _closed_to_others(path: str) -> str | None:
    """The outermost folder above `path` that other users may not enter (a Python below a home of mode 0700)."""
    parents = [*reversed(Path(path).resolve().parents)][1:]
    return next((str(p) for p in parents if not p.stat().st_mode & 1), None)


def expose_python() -> None:
    """Once, in the zygote, where root: let workers reach a Python that lies below a closed home.

    In a mount namespace of its own, each such home is covered by an empty tmpfs which holds nothing but Python.
    Raises LayerMissing where this is needed and not allowed.
    """
    wanted = {str(Path(p).resolve()) for p in (sys.prefix, sys.base_prefix)}
    closed = {p: top for p in wanted if (top := _closed_to_others(p))}
    if not closed or os.geteuid() != 0:
        return
    try:
        unshare(NEW_MOUNTS)
    except OSError:
        top = next(iter(closed.values()))
        raise LayerMissing(
            f"Python lies below {top}, which workers cannot read: use a Python that everybody can read"
        ) from None
    mount("none", "/", None, PRIVATE)
    # opened in the new namespace, before the cover hides them
    inside = {p: os.open(p, os.O_PATH) for p in closed}
    for top in set(closed.values()):
        mount("tmpfs", top, "tmpfs", NO_SUID_DEV_EXEC, "size=1m,mode=755")
    for path, fd in inside.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{fd}", path, None, BIND)
        os.close(fd)


def lock_down(limits: Limits, readable: list[str]) -> list[str]:
    """Lock this process down for good; the names of the layers. Raises OSError where a needed one is missing."""
    os.setsid()
    as_root = os.geteuid() == 0
    writable = _own_namespaces(limits) if as_root else []
    _limit_resources(limits, as_root)
    if as_root:
        os.setgroups([])
        os.setresgid(limits.uid, limits.uid, limits.uid)
        os.setresuid(limits.uid, limits.uid, limits.uid)
    prctl(PR_SET_PDEATHSIG, 9)  # setuid clears it, so afterwards
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    os.chdir(limits.tmp if writable else "/")
    os.environ.clear()
    os.environ.update(HOME=limits.tmp, TMPDIR=limits.tmp, LC_ALL="C.UTF-8", MPLCONFIGDIR=limits.tmp, MPLBACKEND="agg")
    landlock.restrict(readable, writable)
    seccomp.restrict()
    layers = ["user id"] * as_root + ["namespaces"] * bool(writable)
    return [*layers, "resource limits", "no new privileges", "Landlock", "seccomp"]


def _own_namespaces(limits: Limits) -> list[str]:
    """Own mounts, network and IPC, and a small tmpfs to write to; nothing where the container does not allow it."""
    try:
        unshare(NEW_NETWORK | NEW_MOUNTS | NEW_IPC)
    except OSError:
        return []
    mount("none", "/", None, PRIVATE)
    options = f"size={limits.disk_mb}m,nr_inodes=256,mode=700,uid={limits.uid}"
    mount("tmpfs", limits.tmp, "tmpfs", NO_SUID_DEV_EXEC, options)
    return [limits.tmp]


def _limit_resources(limits: Limits, as_root: bool) -> None:
    with open("/proc/self/status") as status:  # noqa: PTH123  (called in every worker)
        now = dict(line.split()[:2] for line in status if line.startswith("Vm"))
    memory, disk = limits.memory_mb << 20, limits.disk_mb << 20
    bounds = {
        resource.RLIMIT_AS: int(now["VmSize:"]) * 1024 + memory,
        resource.RLIMIT_DATA: int(now["VmData:"]) * 1024 + memory,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: disk,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if limits.device == "cuda":  # the driver reserves address space by the terabyte
        del bounds[resource.RLIMIT_AS]
    if as_root:
        bounds[resource.RLIMIT_NPROC] = 64  # counted per user id, and each worker has its own
    for which, bound in bounds.items():
        resource.setrlimit(which, (bound, bound))
