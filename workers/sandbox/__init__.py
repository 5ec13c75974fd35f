"""The sandbox: runs a function or a command in a disposable, killable child under limits and without a network.

A function runs in a fork of the current process, so all that is imported here is warm there. A command needs no
imports, so it runs in a fork of a small process (`forkserver`):

    parent (`supervisor`)  reads the answer under a deadline
      └─ init              trusted; kills the whole tree when the child or the parent ends
           └─ child        own namespaces, read-only view of the machine, private temporary directory, no privileges

A child can harm only itself. Its answer is hostile data: check it. The child can read its parent's memory as it was at
the fork: a process that starts sandboxes must hold no secret.
"""

from collections.abc import Callable, Mapping, Sequence

from workers.errors import SandboxFailed
from workers.sandbox.base import CommandResult, SandboxEnding, SandboxLimits, SandboxResult
from workers.sandbox.command import OUTPUT, CommandSequence, SandboxCommand
from workers.sandbox.forkserver import ForkRequest, fork_server
from workers.sandbox.isolation import IsolationLayerMissing
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_isolation

__all__ = [
    "OUTPUT",
    "CommandResult",
    "SandboxCommand",
    "SandboxEnding",
    "SandboxLimits",
    "SandboxResult",
    "expect_commands",
    "probe",
    "run",
    "run_command",
    "run_commands",
]


def run(function: Callable[[bytes], bytes], request: bytes, limits: SandboxLimits) -> SandboxResult:
    """Run a function in a fork of this process.

    Raises:
        SandboxFailed: If the sandbox cannot be set up.
        SandboxUnsafe: If this machine cannot kill a sandbox as a tree.
    """
    try:
        return execute(strongest_isolation(), function, request, limits)
    except IsolationLayerMissing as missing:
        raise SandboxFailed(f"this machine no longer offers an isolation layer that it had: {missing}") from missing


def run_command(
    argv: Sequence[str], files: Mapping[str, bytes], collect: Sequence[str], limits: SandboxLimits
) -> CommandResult:
    """Run a program in a private directory that holds `files`, and bring back those named in `collect`.

    Raises:
        SandboxFailed: If the sandbox cannot be set up.
        SandboxUnsafe: If this machine cannot kill a sandbox as a tree.
    """
    (result,) = run_commands([SandboxCommand(argv, files, collect)], limits)
    return result


def run_commands(commands: Sequence[SandboxCommand], limits: SandboxLimits) -> list[CommandResult]:
    """Run programs one after the other in one sandbox, each in a directory of its own, until one fails.

    A program that breaks out of its directory can falsify the results of those behind it: run only programs together
    whose input has one author.

    Args:
        commands: The programs.
        limits: Limits; wall time and files are those of all programs together, processor time is per process.

    Returns:
        The results up to the first failure. If the sandbox itself did not return, one result says so.

    Raises:
        SandboxFailed: If the sandbox cannot be set up.
        SandboxUnsafe: If this machine cannot kill a sandbox as a tree.
    """
    sequence = CommandSequence(commands)
    return sequence.read(fork_server().run(ForkRequest(strongest_isolation(), sequence, limits)))


def expect_commands() -> None:
    """Start what `run_commands` needs, and do not wait for it."""
    fork_server().start()


def probe() -> str:
    """Return the layers available on this machine, such as `user+mount+pid+net+ipc+readonly+tmpfs+dev+proc+seccomp`.

    Raises:
        SandboxFailed: If no sandbox can be set up at all.
        SandboxUnsafe: If this machine cannot kill a sandbox as a tree.
    """
    return strongest_isolation().label
