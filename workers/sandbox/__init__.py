"""The jail: runs a function or a command in a disposable, killable, network-less child under limits.

A function runs in a fork of the current process, so whatever is imported here is warm there; a command, which needs
nothing of that, in a fork of a process that is small (`forkserver`):

    parent (`warden`)  reads the answer under a deadline
      └─ keeper        trusted; ends the whole tree when the inmate or the parent ends
           └─ inmate   own namespaces, read-only view of the machine, private temporary directory, no privileges

Whatever an inmate does costs that inmate and nothing else. What comes back is hostile data: check it. The inmate can
read its parent's memory as it was at the fork: a process that starts jails must hold no secret.
"""

from collections.abc import Callable, Mapping, Sequence

from workers.errors import SandboxFailed
from workers.sandbox.base import CommandResult, SandboxEnding, SandboxLimits, SandboxResult
from workers.sandbox.command import SandboxCommand
from workers.sandbox.forkserver import ForkRequest, fork_server
from workers.sandbox.isolation import IsolationLayerMissing
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_walls

__all__ = ["CommandResult", "SandboxEnding", "SandboxLimits", "SandboxResult", "probe", "run", "run_command"]


def run(function: Callable[[bytes], bytes], request: bytes, limits: SandboxLimits) -> SandboxResult:
    """Run a function in a fork of this process.

    Raises:
        JailFailed: If the jail cannot be set up.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    try:
        return execute(strongest_walls(), function, request, limits)
    except IsolationLayerMissing as missing:
        raise SandboxFailed(f"a layer that this machine had is gone: {missing}") from missing


def run_command(
    argv: Sequence[str], files: Mapping[str, bytes], collect: Sequence[str], limits: SandboxLimits
) -> CommandResult:
    """Run a program in a private directory that holds `files`, and bring back those named in `collect`.

    Raises:
        JailFailed: If the jail cannot be set up.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    command = SandboxCommand(argv, files, collect)
    return command.read(fork_server().run(ForkRequest(strongest_walls(), command, limits)))


def probe() -> str:
    """What the jail can provide on this machine, such as `user+mount+pid+net+ipc+readonly+tmpfs+dev+proc+seccomp`.

    Raises:
        JailFailed: If no jail can be set up at all.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    return strongest_walls().label
