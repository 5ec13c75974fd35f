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

from workers.errors import JailFailed
from workers.jail.base import CommandResult, Ending, JailResult, Limits
from workers.jail.command import Command
from workers.jail.forkserver import Errand, fork_server
from workers.jail.survey import strongest_walls
from workers.jail.walls import LayerMissing
from workers.jail.warden import execute

__all__ = ["CommandResult", "Ending", "JailResult", "Limits", "probe", "run", "run_command"]


def run(function: Callable[[bytes], bytes], request: bytes, limits: Limits) -> JailResult:
    """Run a function in a fork of this process.

    Raises:
        JailFailed: If the jail cannot be set up.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    try:
        return execute(strongest_walls(), function, request, limits)
    except LayerMissing as missing:
        raise JailFailed(f"a layer that this machine had is gone: {missing}") from missing


def run_command(
    argv: Sequence[str], files: Mapping[str, bytes], collect: Sequence[str], limits: Limits
) -> CommandResult:
    """Run a program in a private directory that holds `files`, and bring back those named in `collect`.

    Raises:
        JailFailed: If the jail cannot be set up.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    command = Command(argv, files, collect)
    return command.read(fork_server().run(Errand(strongest_walls(), command, limits)))


def probe() -> str:
    """What the jail can provide on this machine, such as `user+mount+pid+net+ipc+readonly+tmpfs+dev+proc+seccomp`.

    Raises:
        JailFailed: If no jail can be set up at all.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    return strongest_walls().label
