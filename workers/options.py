"""The command line of `python -m workers`."""

import argparse
import os
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path

from workers.protocol import FIRST_CARD, CardShare, Device
from workers.targets import TARGETS

SECRETS = Path("/run/secrets")
"""Folder in which container engines put secrets, one per file, named like its variable in lower case."""


def parse(arguments: Sequence[str] | None, description: str) -> argparse.Namespace:
    """Read the command line, complete it, and end with advice where it makes no sense.

    Args:
        arguments: What was said; None for the process's own.
        description: First line of the help.
    """
    parser = argparse.ArgumentParser(prog="python -m workers", description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    run, executor = _add_run(commands), _add_executor(commands)
    commands.add_parser("survey", help="say what this machine can do").set_defaults(with_parent=None)
    problems = commands.add_parser("kernelbench", help="say what problem files of KernelBench are, one a line")
    problems.set_defaults(with_parent=None)
    options = parser.parse_args(arguments)
    if options.command == "run":
        _complete(run, options)
        _complete_card(run, options)
    if options.command == "bench":
        if options.kind != "trace" and options.device is None:
            executor.error(f"{options.kind} needs --device")
        if options.kind == "both" and options.device.measures:
            executor.error("both is for devices without a card; a card has a bench of its own")
        _complete_card(executor, options)
    return options


def card_arguments(options: argparse.Namespace) -> tuple[str, ...]:
    """Options that tell a bench on which card it measures, and in which folder it keeps or finds figures."""
    card = () if options.card is None else ("--card", str(options.card))
    return card if options.data is None else (*card, "--data", str(options.data))


def read_seat(name: str) -> CardShare:
    """A seat at a card by its name; `cuda:0` is the first card, `cuda:0/3` shared by three benches.

    Raises:
        ArgumentTypeError: If it is no such name.
    """
    try:
        return CardShare.parse(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def cache_home() -> Path:
    """Return the default folder for data that outlives a process: `$XDG_CACHE_HOME/kernelreef`, or in `~/.cache`."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path("~/.cache").expanduser()) / "kernelreef"


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    run = commands.add_parser("run", help="work off jobs")
    run.add_argument("--redis", metavar="URL", help="the queue; REEF_REDIS_URL keeps a password off the process list")
    run.add_argument("--trace", action="store_true", help="trace candidates")
    run.add_argument("--target", choices=sorted(TARGETS), help="what to trace for; the device's target if not given")
    run.add_argument("--id", help="unique among workers; one that joins gets its own")
    run.add_argument("--join", metavar="URL", help="the service to join; the queue is then what it says")
    run.add_argument("--token", metavar="T", help="what to show it; REEF_TOKEN keeps it off the process list")
    run.add_argument("--ready-fd", type=int, metavar="FD", help="pipe to write a byte to once jobs can be taken")
    _add_device(run)
    return run


def _add_executor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    executor = commands.add_parser("bench", help="serve one bench: jobs on standard input, reports on standard output")
    executor.add_argument("kind", choices=("trace", "measure", "both"))
    executor.add_argument("--worker", default="bench", help="the id that reports carry")
    _add_device(executor)
    return executor


def _add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", type=Device.parse, help="what to measure on, such as model:sm_90 or h200")
    command.add_argument("--card", type=read_seat, metavar="cuda:N", help="which card; the first if not given")
    command.add_argument(
        "--data", type=Path, metavar="DIR", help="where baselines, raw samples and recordings are kept"
    )
    command.add_argument("--with-parent", type=int, metavar="PID", help="end when this parent process ends")


def _complete(run: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Fill in what was not said, and refuse what makes no sense."""
    if options.join is None:
        options.redis = options.redis or _told("REEF_REDIS_URL")
    options.token = options.token or _told("REEF_TOKEN")
    options.id = options.id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    if options.device is not None and (options.target is None or options.device.kind == "recorded"):
        options.target = options.device.traced_at
    if options.join is not None:
        _complete_join(run, options)
    elif not options.redis:
        run.error("say where the queue is: --redis URL, or REEF_REDIS_URL; or --join URL")
    if not options.trace and options.device is None:
        run.error("nothing to do: say --trace, --device, or both")
    if options.trace and options.target is None:
        run.error("--trace needs --target where there is no --device")


def _told(variable: str) -> str | None:
    """Return a variable from the environment, or else from the file of that name among a container's secrets."""
    path = SECRETS / variable.lower()
    return os.environ.get(variable) or (path.read_text().strip() if path.is_file() else None)


def _complete_join(run: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse what makes no sense of somebody who wants to join."""
    if options.redis is not None:
        run.error("--join and --redis exclude each other: who joins is told where the queue is")
    if not options.token:
        run.error("--join needs a token: --token T, or REEF_TOKEN")
    if not options.join.startswith(("http://", "https://")):
        run.error("--join needs an address such as https://reef.example:8700")


def _complete_card(command: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Say on which card to measure, where that leaves its figures, and where those of recordings are."""
    measures = options.device is not None and options.device.measures
    if not measures and options.card is not None:
        command.error("--card needs a --device that measures, such as h200")
    if measures:
        options.card = options.card or FIRST_CARD
    if measures or (options.device is not None and options.device.kind == "recorded"):
        options.data = (options.data or cache_home()).absolute()
