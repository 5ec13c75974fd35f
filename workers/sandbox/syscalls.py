"""System calls that the sandbox needs and Python 3.11 does not offer, through libc.

They raise OSError if the kernel refuses.
"""

import ctypes
import os
import signal
import sys
import warnings
from contextlib import suppress

_libc = ctypes.CDLL(None, use_errno=True)

# linux/sched.h
CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

# sys/mount.h
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MNT_DETACH = 0x2

# linux/mount.h
_MOUNT_ATTR_RDONLY = 0x1
_MS_PRIVATE = 1 << 18

# fcntl.h
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

_SYS_MOUNT_SETATTR = 442
"""Number of mount_setattr(2): the same on every architecture, since Linux 5.12."""

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_SECUREBITS = 28
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2

# linux/securebits.h
_NO_ROOT_FOR_GOOD = 0b11

# sys/personality.h
_ADDR_NO_RANDOMIZE = 0x0040000
_PERSONALITY_AS_IT_IS = 0xFFFFFFFF

# linux/capability.h
_CAPABILITY_VERSION_3 = 0x20080522


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def _checked(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def unshare(flag: int) -> None:
    """Give this process its own namespace; with `CLONE_NEWPID` its next child gets it."""
    _checked(_libc.unshare(flag), "unshare")


def mount(kind: str, target: str, flags: int = MS_NOSUID | MS_NODEV, options: str = "") -> None:
    """Mount a new filesystem of a kind (`tmpfs`, `proc`) on a directory."""
    _checked(
        _libc.mount(b"none", target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()),
        f"mount {kind} on {target}",
    )


def bind_mount(source: str, target: str) -> None:
    """Bind-mount a file or a directory, with all mounts in it, at another path."""
    flags = ctypes.c_ulong(_MS_BIND | _MS_REC)
    _checked(_libc.mount(source.encode(), target.encode(), None, flags, None), f"bind {source} to {target}")


def detach(target: str) -> None:
    """Unmount a directory; bind mounts of its content stay."""
    _checked(_libc.umount2(target.encode(), ctypes.c_int(_MNT_DETACH)), f"umount {target}")


def set_mounts(read_only: bool) -> None:
    """Detach the whole tree of mounts from other namespaces, and make it read-only if asked.

    Raises:
        OSError: If the kernel refuses, or is older than 5.12.
    """
    changes = _MountAttributes(set=_MOUNT_ATTR_RDONLY if read_only else 0, propagation=_MS_PRIVATE)
    _change_mounts("/", changes, _AT_RECURSIVE)


def make_writable(target: str) -> None:
    """Make one mount writable again, in the namespace that made it read-only.

    Raises:
        OSError: If the kernel refuses.
    """
    _change_mounts(target, _MountAttributes(clear=_MOUNT_ATTR_RDONLY), 0)


def _change_mounts(target: str, attributes: _MountAttributes, flags: int) -> None:
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        target.encode(),
        ctypes.c_uint(flags),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _checked(result, "mount_setattr")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def adopt_orphans() -> None:
    """Become the parent of every descendant after its own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> None:
    """Request a signal for when the thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def tie_to(parent: int) -> None:
    """End when the parent process ends, even if it is killed."""
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(f"process {parent} ended before this one began")


def forbid_new_privileges() -> None:
    """Disable set-uid bits and file capabilities for this process and all its descendants."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def filter_calls(program: ctypes.Structure) -> None:
    """Install a filter on system calls (a `sock_fprog`); requires `forbid_new_privileges`."""
    result = _libc.prctl(
        ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program), 0, 0
    )
    _checked(result, "prctl seccomp")


def drop_capabilities() -> None:
    """Drop every capability, permanently once new privileges are forbidden.

    Otherwise the kernel starts root's programs as if they gained privileges, and randomises their addresses again.
    """
    with suppress(OSError):  # Only root with the right to change capabilities needs this.
        _prctl(_PR_SET_SECUREBITS, _NO_ROOT_FOR_GOOD)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, nothing), "capset")


def fix_addresses() -> None:
    """Disable address randomisation for every program that this process starts.

    Raises:
        OSError: If the kernel, or a container's filter, refuses.
    """
    now = _libc.personality(ctypes.c_ulong(_PERSONALITY_AS_IT_IS))
    _checked(min(now, 0), "personality")
    _checked(min(_libc.personality(ctypes.c_ulong(now | _ADDR_NO_RANDOMIZE)), 0), "personality")


def fork() -> int:
    """Fork. Returns the process id of the child, or 0 in it.

    Raises:
        OSError: If no further process is possible.
    """
    with warnings.catch_warnings():
        # Newer Pythons warn of threads; the child takes no lock that another of our threads could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
