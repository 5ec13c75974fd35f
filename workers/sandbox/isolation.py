"""The walls of a jail: what separates a child from its machine, and how the child puts them up around itself."""

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
# In the order they are asked for: the user namespace gives the right to the others.

LAYERS = (*_NAMESPACES, "readonly", "tmpfs", "dev", "proc", "nobody", "seccomp")
"""Every layer that a machine may or may not offer, in the order that labels name them."""

_STANDING_ON = {"mount": frozenset({"readonly", "tmpfs", "dev", "proc"}), "tmpfs": frozenset({"readonly"})}
# Without a filesystem of its own, a jail's working directory is on one that must stay writable.
_DEVICES = ("null", "zero", "full", "random", "urandom")
# All that is left of /dev: no GPU, no disk, no terminal.
NOBODY = 65534
"""The user and group that own nothing, by Linux convention."""

_FILE_BYTES = 512 * 2**20
# Most bytes of one file; of all of them where the temporary directory is a filesystem of its own.
_OPEN_FILES = 512
# A compilation opens fewer than ten.
_THREADS = 64
# Allowed on top of the processes: the compiler's pools.
_LOWEST_PID_MAX = 301
# The kernel takes no lower bound.
_SHARED_PROCESSES = 1024
# Stands in where the kernel counts the processes that the same user has outside the jail.
_OWN_COUNT_SINCE = (5, 14)
# The kernel that counts processes per user namespace.


class IsolationLayerMissing(Exception):
    """One layer of the walls could not be put up here."""

    def __init__(self, layer: str, cause: OSError) -> None:
        """Name the layer and what the kernel said."""
        super().__init__(f"{layer}: {cause}")
        self.layer = layer


@dataclass(frozen=True)
class Isolation:
    """Which layers a jail has.

    Attributes:
        layers: Names out of `LAYERS`.
        hidden: Directories that show up empty inside (needs `tmpfs`).
    """

    layers: frozenset[str]
    hidden: tuple[str, ...] = ()

    def without(self, layer: str) -> "Isolation":
        """The same walls less one layer and those that stand on it."""
        return Isolation(self.layers - _STANDING_ON.get(layer, frozenset()) - {layer}, self.hidden)

    @property
    def label(self) -> str:
        """The layers, such as `user+mount+pid+net+ipc+readonly+tmpfs+dev+proc+seccomp`; `none` without any."""
        return "+".join(layer for layer in LAYERS if layer in self.layers) or "none"

    @property
    def maps_nobody(self) -> bool:
        """Whether the parent, being root, has to give the user namespace to nobody."""
        return {"user", "nobody"} <= self.layers


def enter_namespaces(walls: Isolation) -> None:
    """Leave the machine's namespaces, for the caller and (pid) for its next child.

    Raises:
        LayerMissing: If the kernel refuses one.
    """
    user, group = os.geteuid(), os.getegid()
    for layer, flag in _NAMESPACES.items():
        if layer not in walls.layers:
            continue
        with putting_up(layer):
            syscalls.unshare(flag)
            if layer == "user" and not walls.maps_nobody:
                own_user_namespace("self", user, group)


def own_user_namespace(process: int | str, user: int, group: int) -> None:
    """Say who a process's new user namespace belongs to; the ids are the same inside and outside.

    Raises:
        OSError: If the kernel refuses.
    """
    root = Path("/proc") / str(process)
    (root / "setgroups").write_text("deny")
    (root / "uid_map").write_text(f"{user} {user} 1")
    (root / "gid_map").write_text(f"{group} {group} 1")


def close_in(walls: Isolation, limits: SandboxLimits, directory: str) -> None:
    """Shut this process in: mounts, identity, limits, privileges. `directory` becomes its working directory.

    Raises:
        LayerMissing: If the kernel refuses a layer.
        OSError: If it refuses something that every Linux has.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if walls.maps_nobody:  # The namespace's owner may mount in it, and only its own ids can own files there.
        _become_nobody()
    _arrange_mounts(walls, limits, directory)
    if "nobody" in walls.layers and not walls.maps_nobody:
        os.setgroups([])
        _become_nobody()
    syscalls.die_with_parent(signal.SIGKILL)
    _set_limits(walls, limits)
    syscalls.forbid_new_privileges()
    syscalls.drop_capabilities()
    with putting_up("nobody") if "nobody" in walls.layers else contextlib.nullcontext():
        os.chdir(directory)
    if "seccomp" in walls.layers:
        with putting_up("seccomp"):
            restrict_calls(may_fork=limits.processes > 1)


@contextlib.contextmanager
def putting_up(layer: str) -> Iterator[None]:
    """Blame a layer of the walls for whatever the kernel refuses within.

    Raises:
        LayerMissing: If it refuses something.
    """
    try:
        yield
    except OSError as error:
        raise IsolationLayerMissing(layer, error) from error


def _arrange_mounts(walls: Isolation, limits: SandboxLimits, directory: str) -> None:
    if "mount" in walls.layers:
        with putting_up("readonly" if "readonly" in walls.layers else "mount"):
            syscalls.set_mounts(read_only="readonly" in walls.layers)
    if "dev" in walls.layers:
        with putting_up("dev"):
            _replace_devices(directory)
    if "tmpfs" in walls.layers:
        with putting_up("tmpfs"):
            _mount_directories(walls, limits, directory)
    if "proc" in walls.layers:
        with putting_up("proc"):
            syscalls.mount("proc", "/proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        with contextlib.suppress(OSError):  # A pid namespace has a bound of its own since Linux 6.14.
            Path("/proc/sys/kernel/pid_max").write_text(str(_LOWEST_PID_MAX))


def _replace_devices(staging: str) -> None:
    """Put a /dev in place that holds the harmless nodes only; it is built in an empty directory."""
    syscalls.mount("tmpfs", staging, options="size=4k,mode=0755")
    for name in _DEVICES:
        Path(staging, name).touch()
        syscalls.show_at(f"/dev/{name}", f"{staging}/{name}")
    Path(staging, "fd").symlink_to("/proc/self/fd")
    syscalls.show_at(staging, "/dev")
    syscalls.detach(staging)


def _mount_directories(walls: Isolation, limits: SandboxLimits, directory: str) -> None:
    user, group = (NOBODY, NOBODY) if "nobody" in walls.layers else (os.geteuid(), os.getegid())
    for path in walls.hidden:
        if _is_reachable(path):
            syscalls.mount("tmpfs", path, options="size=4k,mode=0755")
    size = min(_FILE_BYTES, limits.memory_bytes)
    syscalls.mount("tmpfs", directory, options=f"size={size},mode=0700,uid={user},gid={group}")


def _is_reachable(path: str) -> bool:
    """Whether this user may come to a path; what it may not is hidden from it already."""
    try:
        Path(path).stat()
    except PermissionError:
        return False
    return True


def _become_nobody() -> None:
    with putting_up("nobody"):
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _set_limits(walls: Isolation, limits: SandboxLimits) -> None:
    own_count = "user" in walls.layers and _kernel_version() >= _OWN_COUNT_SINCE
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
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # The soft limit only makes it print where it is.


def _address_space_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _kernel_version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found else (0, 0)
