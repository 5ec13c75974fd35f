"""Filter on system calls: no network, no signals to others, no new mounts or namespaces, and no new processes."""

import ctypes
import errno
import os
import platform
from dataclasses import dataclass

from workers.sandbox import syscalls

# linux/bpf_common.h, linux/filter.h
_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_SET = 0x45
_RETURN = 0x06

# linux/seccomp.h
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000
_NUMBER_AT = 0
_ARCHITECTURE_AT = 4
_FIRST_ARGUMENT_AT = 16

_CLONE_THREAD = 0x00010000
_X32_BIT = 0x40000000
# Flag of system calls of the x32 ABI, which nothing here uses.


@dataclass(frozen=True)
class _Calls:
    """Numbers of one architecture: calls that are refused, and calls that start processes."""

    architecture: int
    refused: tuple[int, ...]
    fork: tuple[int, ...]
    clone: int
    tgkill: int
    clone3: int = 435


# linux/audit.h and asm/unistd.h. In order: socket, kill, tkill, rt_sigqueueinfo, rt_tgsigqueueinfo, ptrace,
# process_vm_readv, process_vm_writev, mount, umount2, pivot_root, chroot, unshare, setns, bpf, perf_event_open,
# add_key, request_key, keyctl, userfaultfd; then those that have one number everywhere: pidfd_send_signal,
# io_uring_setup, open_tree, move_mount, fsopen, mount_setattr.
_EVERYWHERE = (424, 425, 428, 429, 430, 442)
_ARCHITECTURES = {
    "x86_64": _Calls(
        architecture=0xC000003E,
        refused=(
            *(41, 62, 200, 129, 297, 101, 310, 311, 165, 166, 155, 161, 272, 308, 321, 298, 248, 249, 250, 323),
            *_EVERYWHERE,
        ),
        fork=(57, 58),
        clone=56,
        tgkill=234,
    ),
    "aarch64": _Calls(
        architecture=0xC00000B7,
        refused=(
            *(198, 129, 130, 138, 240, 117, 270, 271, 40, 39, 41, 51, 97, 268, 280, 241, 217, 218, 219, 282),
            *_EVERYWHERE,
        ),
        fork=(),
        clone=220,
        tgkill=131,
    ),
}


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


_Step = tuple[int, int, int, int]


def restrict_calls(may_fork: bool) -> None:
    """Filter the system calls of this process and of all its descendants from now on.

    A refused call fails with EPERM, a fork with EAGAIN. Threads stay possible.

    Raises:
        OSError: If the kernel or the architecture has no such filter.
    """
    calls = _ARCHITECTURES.get(platform.machine())
    if calls is None:
        raise OSError(errno.ENOSYS, f"no system call filter exists for {platform.machine()}")
    steps = [*_prologue(calls), *(step for number in calls.refused for step in _refuse(number, errno.EPERM))]
    if not may_fork:
        steps += _refuse_processes(calls)
    steps.append((_RETURN, 0, 0, _ALLOW))
    syscalls.filter_calls(_Program(len(steps), (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))))


def _prologue(calls: _Calls) -> list[_Step]:
    return [
        (_LOAD_WORD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, calls.architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD_WORD, 0, 0, _NUMBER_AT),
        (_JUMP_SET, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]


def _refuse(number: int, error: int) -> list[_Step]:
    return [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]


def _refuse_processes(calls: _Calls) -> list[_Step]:
    """Refuse new processes. A filter cannot see the flags of clone3, so it fails and libc falls back to clone."""
    forks = [step for number in calls.fork for step in _refuse(number, errno.EAGAIN)]
    return [
        *forks,
        *_refuse(calls.clone3, errno.ENOSYS),
        (_JUMP_EQUAL, 0, 4, calls.clone),
        (_LOAD_WORD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_SET, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _ERRNO | errno.EAGAIN),
        (_RETURN, 0, 0, _ALLOW),
        (_JUMP_EQUAL, 0, 4, calls.tgkill),
        (_LOAD_WORD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_EQUAL, 1, 0, os.getpid()),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
