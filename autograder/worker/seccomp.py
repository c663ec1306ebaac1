"""seccomp: a filter on system calls, inherited by every thread and never removed.

What Landlock does not cover: sockets of every family, new processes, signals and tracing, io_uring (which would
bypass a rule on sockets), kernel interfaces (bpf, perf, keys, mounts, namespaces), System V objects that outlive a
process, and a file's mode, owner, times and attributes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from autograder.worker.kernel import LIBC, ON_X86, checked

ALLOW, KILL = 0x7FFF0000, 0x80000000
LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in struct seccomp_data
AUDIT_ARCH = 0xC000003E if ON_X86 else 0xC00000B7

# name: (x86_64, aarch64); -1 where a machine has no such call
DENIED = {
    "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "socket": (41, 198), "socketpair": (53, 199), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "personality": (135, 92), "process_madvise": (440, 440),
    "syslog": (103, 116),
    # Landlock does not cover what belongs to a file beside its content: owner, mode, times, attributes
    "truncate": (76, 45), "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1),
    "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466),
}  # fmt: skip
FORK, VFORK, X32 = 57, 58, 0x40000000  # x86_64 only
CLONE, CLONE3 = (56, 220), (435, 435)
KILL_CALLS = ((62, 129), (234, 131))  # kill, tgkill
PRLIMIT64, FCNTL = (302, 261), (72, 25)
CLONE_THREAD, F_SETOWN, F_SETOWN_EX = 0x10000, 8, 15


class _Filter:
    """A small assembler for classic BPF; a jump of n skips n instructions."""

    def __init__(self) -> None:
        self.code: list[bytes] = []

    def emit(self, code: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self.code.append(struct.pack("HBBI", code, if_true, if_false, value))

    def refuse(self, number: int = errno.EPERM) -> None:
        self.emit(RETURN, 0x50000 | number)

    def refuse_call(self, call: int, error: int = errno.EPERM) -> None:
        self.emit(EQUAL, call, 0, 1)
        self.refuse(error)

    def refuse_call_unless_argument(self, call: int, offset: int, allowed: list[int]) -> None:
        """Refuse the call unless the low half of its argument at `offset` is one of `allowed`."""
        n = len(allowed)
        self.emit(EQUAL, call, 0, n + 3)
        self.emit(LOAD, offset)
        for i, value in enumerate(allowed):
            self.emit(EQUAL, value, n - i, 0)
        self.refuse()
        self.emit(LOAD, NUMBER)


def restrict() -> None:
    """Install the filter for this process and its threads. Needs no_new_privs. Raises OSError."""
    program = b"".join(_program(os.getpid()))
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    checked(LIBC.prctl(22, 2, header, 0, 0))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def _program(pid: int) -> list[bytes]:
    column = 0 if ON_X86 else 1
    f = _Filter()
    f.emit(LOAD, ARCHITECTURE)
    f.emit(EQUAL, AUDIT_ARCH, 1, 0)
    f.emit(RETURN, KILL)
    f.emit(LOAD, NUMBER)
    if ON_X86:
        f.emit(AT_LEAST, X32, 0, 1)
        f.emit(RETURN, KILL)
    for numbers in DENIED.values():
        if numbers[column] >= 0:
            f.refuse_call(numbers[column])
    for call in (FORK, VFORK) if ON_X86 else ():
        f.refuse_call(call)
    f.refuse_call(CLONE3[column], errno.ENOSYS)  # its flags lie in memory: make glibc fall back to clone
    f.emit(EQUAL, CLONE[column], 0, 5)  # clone: threads only
    f.emit(LOAD, FIRST_ARGUMENT)
    f.emit(AND, CLONE_THREAD)
    f.emit(EQUAL, 0, 0, 1)
    f.refuse()
    f.emit(LOAD, NUMBER)
    for numbers in KILL_CALLS:
        f.refuse_call_unless_argument(numbers[column], FIRST_ARGUMENT, [pid])
    f.refuse_call_unless_argument(PRLIMIT64[column], FIRST_ARGUMENT, [0, pid])
    f.emit(EQUAL, FCNTL[column], 0, 5)  # no signals by way of a descriptor's owner
    f.emit(LOAD, SECOND_ARGUMENT)
    f.emit(EQUAL, F_SETOWN, 1, 0)
    f.emit(EQUAL, F_SETOWN_EX, 0, 1)
    f.refuse()
    f.emit(LOAD, NUMBER)
    f.emit(RETURN, ALLOW)
    return f.code
