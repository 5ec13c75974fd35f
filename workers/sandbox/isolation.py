"""The isolation of a sandbox: layers that separate a child from its machine, and the code with which it enters them."""

import contextlib
import math
import os
import platform
import re
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox import syscalls
from workers.sandbox.base import SandboxLimits
from workers.sandbox.seccomp import restrict_calls

_NAMESPACES = {
    "user": syscalls.CLONE_NEWUSER,
    "mount": syscalls.CLONE_NEWNS,
    "pid": syscalls.CLONE_NEWPID,
    "net": syscalls.CLONE_NEWNET,
    "ipc": syscalls.CLONE_NEWIPC,
}
# In the order of the requests: the user namespace gives the right to the others.

LAYERS = (*_NAMESPACES, "readonly", "tmpfs", "dev", "proc", "nobody", "seccomp")
"""Every layer that a machine may offer, in the order of labels."""

_DEPENDENTS = {"mount": frozenset({"readonly", "tmpfs", "dev", "proc"}), "tmpfs": frozenset({"readonly"})}
# Without a tmpfs, a sandbox's working directory is on a filesystem that must stay writable.
_DEVICES = ("null", "zero", "full", "random", "urandom")
# The whole content of /dev: no GPU, no disk, no terminal.
NOBODY = 65534
"""The user and group that own nothing, by Linux convention."""

_FILE_BYTES = 512 * 2**20
# Maximum size of one file, or of all files if the temporary directory is a tmpfs.
_OPEN_FILES = 512
# A compilation opens fewer than ten.
_THREADS = 64
# Number of threads allowed beyond the processes, for the compiler's pools.
_LOWEST_PID_MAX = 301
# The lowest value that the kernel accepts.
_SHARED_PROCESSES = 1024
_OWN_COUNT_SINCE = (5, 14)
# First kernel version that counts processes per user namespace. Older ones count the user's processes outside the
# sandbox too, so `_SHARED_PROCESSES` is the limit there.


class IsolationLayerMissing(Exception):
    """One layer of the isolation could not be set up here."""

    def __init__(self, layer: str, cause: OSError) -> None:
        """Name the layer and the kernel's error."""
        super().__init__(f"{layer}: {cause}")
        self.layer = layer


@dataclass(frozen=True)
class Isolation:
    """Layers of a sandbox.

    Attributes:
        layers: Names from `LAYERS`.
        hidden: Directories that appear empty inside (needs `tmpfs`).
    """

    layers: frozenset[str]
    hidden: tuple[str, ...] = ()

    def without(self, layer: str) -> "Isolation":
        """Return the same isolation without one layer and those that depend on it."""
        return Isolation(self.layers - _DEPENDENTS.get(layer, frozenset()) - {layer}, self.hidden)

    @property
    def label(self) -> str:
        """The layers, such as `user+mount+pid+net+ipc+readonly+tmpfs+dev+proc+seccomp`; `none` without any."""
        return "+".join(layer for layer in LAYERS if layer in self.layers) or "none"

    @property
    def maps_nobody(self) -> bool:
        """True if the parent, being root, must map the user namespace to nobody."""
        return {"user", "nobody"} <= self.layers


def enter_namespaces(isolation: Isolation) -> None:
    """Leave the machine's namespaces: the caller does, for pid its next child.

    Raises:
        IsolationLayerMissing: If the kernel refuses one.
    """
    user, group = os.geteuid(), os.getegid()
    for layer, flag in _NAMESPACES.items():
        if layer not in isolation.layers:
            continue
        with blame_layer(layer):
            syscalls.unshare(flag)
            if layer == "user" and not isolation.maps_nobody:
                own_user_namespace("self", user, group)


def own_user_namespace(process: int | str, user: int, group: int) -> None:
    """Set the owner of a process's new user namespace; ids are the same inside and outside.

    Raises:
        OSError: If the kernel refuses.
    """
    root = Path("/proc") / str(process)
    (root / "setgroups").write_text("deny")
    (root / "uid_map").write_text(f"{user} {user} 1")
    (root / "gid_map").write_text(f"{group} {group} 1")


def confine(isolation: Isolation, limits: SandboxLimits, directory: str) -> None:
    """Confine this process: mounts, identity, limits, privileges. `directory` becomes its working directory.

    Raises:
        IsolationLayerMissing: If the kernel refuses a layer.
        OSError: If it refuses a call that every Linux has.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if isolation.maps_nobody:  # The namespace's owner may mount in it, and only its own ids can own files there.
        _become_nobody()
    _arrange_mounts(isolation, limits, directory)
    if "nobody" in isolation.layers and not isolation.maps_nobody:
        os.setgroups([])
        _become_nobody()
    syscalls.die_with_parent(signal.SIGKILL)
    _set_limits(isolation, limits)
    syscalls.forbid_new_privileges()
    syscalls.drop_capabilities()
    with blame_layer("nobody") if "nobody" in isolation.layers else contextlib.nullcontext():
        os.chdir(directory)
    if "seccomp" in isolation.layers:
        with blame_layer("seccomp"):
            restrict_calls(may_fork=limits.processes > 1)


@contextlib.contextmanager
def blame_layer(layer: str) -> Iterator[None]:
    """Attribute the kernel's errors within the block to a layer.

    Raises:
        IsolationLayerMissing: If there is one.
    """
    try:
        yield
    except OSError as error:
        raise IsolationLayerMissing(layer, error) from error


def _arrange_mounts(isolation: Isolation, limits: SandboxLimits, directory: str) -> None:
    if "mount" in isolation.layers:
        with blame_layer("readonly" if "readonly" in isolation.layers else "mount"):
            syscalls.set_mounts(read_only="readonly" in isolation.layers)
    if "dev" in isolation.layers:
        with blame_layer("dev"):
            _replace_devices(directory)
    if "tmpfs" in isolation.layers:
        with blame_layer("tmpfs"):
            _mount_directories(isolation, limits, directory)
    if "proc" in isolation.layers:
        with blame_layer("proc"):
            syscalls.mount("proc", "/proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        with contextlib.suppress(OSError):  # A pid namespace has its own bound since Linux 6.14.
            Path("/proc/sys/kernel/pid_max").write_text(str(_LOWEST_PID_MAX))


def _replace_devices(staging: str) -> None:
    """Replace /dev by one with harmless nodes only, built in an empty directory."""
    syscalls.mount("tmpfs", staging, options="size=4k,mode=0755")
    for name in _DEVICES:
        Path(staging, name).touch()
        syscalls.bind_mount(f"/dev/{name}", f"{staging}/{name}")
    Path(staging, "fd").symlink_to("/proc/self/fd")
    syscalls.bind_mount(staging, "/dev")
    syscalls.detach(staging)


def _mount_directories(isolation: Isolation, limits: SandboxLimits, directory: str) -> None:
    user, group = (NOBODY, NOBODY) if "nobody" in isolation.layers else (os.geteuid(), os.getegid())
    for path in isolation.hidden:
        if _is_reachable(path):
            syscalls.mount("tmpfs", path, options="size=4k,mode=0755")
    size = min(_FILE_BYTES, limits.memory_bytes)
    syscalls.mount("tmpfs", directory, options=f"size={size},mode=0700,uid={user},gid={group}")


def _is_reachable(path: str) -> bool:
    """True if this user may access a path; others are hidden already."""
    try:
        Path(path).stat()
    except PermissionError:
        return False
    return True


def _become_nobody() -> None:
    with blame_layer("nobody"):
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _set_limits(isolation: Isolation, limits: SandboxLimits) -> None:
    own_count = "user" in isolation.layers and _kernel_version() >= _OWN_COUNT_SINCE
    memory = _address_space_bytes() + limits.memory_bytes
    cpu = math.ceil(limits.cpu_s)
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NPROC, limits.processes + _THREADS if own_count else _SHARED_PROCESSES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        _, ceiling = resource.getrlimit(what)
        most = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        resource.setrlimit(what, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # At the soft limit it only prints its traceback.


def _address_space_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _kernel_version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found else (0, 0)
