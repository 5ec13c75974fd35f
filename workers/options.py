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
    """Parse the command line and fill in defaults; exit with an explanation if it is invalid.

    Args:
        arguments: The arguments; None for the process's own.
        description: First line of the help.
    """
    parser = argparse.ArgumentParser(prog="python -m workers", description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    run, executor = _add_run(commands), _add_executor(commands)
    commands.add_parser("survey", help="describe what this machine can do").set_defaults(with_parent=None)
    keeping = commands.add_parser("keep-ptxas", help="keep the ptxas of other Triton releases, to assemble their plans")
    keeping.add_argument(
        "releases",
        nargs="+",
        metavar="RELEASE",
        help="a version such as 3.9.0, a wheel's path, or a folder with an installed triton",
    )
    keeping.set_defaults(with_parent=None)
    problems = commands.add_parser("kernelbench", help="describe problem files of KernelBench, one per line")
    problems.set_defaults(with_parent=None)
    options = parser.parse_args(arguments)
    if options.command == "run":
        _complete(run, options)
        _complete_card(run, options)
    if options.command == "bench":
        if options.kind != "trace" and options.device is None:
            executor.error(f"{options.kind} needs --device")
        if options.kind == "both" and options.device.measures:
            executor.error("both is for devices without a card; use trace and measure with a card")
        _complete_card(executor, options)
    return options


def card_arguments(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the executor's options for its card and its data folder."""
    card = () if options.card is None else ("--card", str(options.card))
    return card if options.data is None else (*card, "--data", str(options.data))


def read_seat(name: str) -> CardShare:
    """Parse a card: `cuda:0` is the first one, `cuda:0/3` the first one shared by three executors.

    Raises:
        ArgumentTypeError: If the name is invalid.
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
    run = commands.add_parser("run", help="process jobs")
    run.add_argument("--redis", metavar="URL", help="the queue; REEF_REDIS_URL keeps a password off the process list")
    run.add_argument("--trace", action="store_true", help="trace candidates")
    run.add_argument("--target", choices=sorted(TARGETS), help="target to trace for; default: the device's target")
    run.add_argument("--id", help="id, unique among workers; with --join the service assigns it")
    run.add_argument("--join", metavar="URL", help="the service to join; it names the queue")
    run.add_argument("--token", metavar="T", help="token to join with; REEF_TOKEN keeps it off the process list")
    run.add_argument("--ready-fd", type=int, metavar="FD", help="pipe to write a byte to once the worker is ready")
    run.add_argument("--template-fd", type=int, metavar="FD", help="socket to the template that forks executors")
    _add_device(run)
    return run


def _add_executor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    executor = commands.add_parser("bench", help="run one executor: jobs on standard input, reports on standard output")
    executor.add_argument("kind", choices=("trace", "measure", "both"))
    executor.add_argument("--worker", default="bench", help="worker id in the reports")
    _add_device(executor)
    return executor


def _add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", type=Device.parse, help="device to measure on, such as model:sm_90 or h200")
    command.add_argument("--card", type=read_seat, metavar="cuda:N", help="card to measure on; default: the first")
    command.add_argument("--data", type=Path, metavar="DIR", help="folder of baselines, raw samples and recordings")
    command.add_argument("--with-parent", type=int, metavar="PID", help="end when this parent process ends")


def _complete(run: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Fill in defaults, and refuse invalid combinations."""
    if options.join is None:
        options.redis = options.redis or _told("REEF_REDIS_URL")
    options.token = options.token or _told("REEF_TOKEN")
    options.id = options.id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    if options.device is not None and (options.target is None or options.device.kind == "recorded"):
        options.target = options.device.traced_at
    if options.join is not None:
        _complete_join(run, options)
    elif not options.redis:
        run.error("no queue: give --redis URL or set REEF_REDIS_URL, or give --join URL")
    if not options.trace and options.device is None:
        run.error("nothing to do: give --trace, --device, or both")
    if options.trace and options.target is None:
        run.error("--trace needs --target if there is no --device")


def _told(variable: str) -> str | None:
    """Return a variable from the environment, or else from the file of that name among a container's secrets."""
    path = SECRETS / variable.lower()
    return os.environ.get(variable) or (path.read_text().strip() if path.is_file() else None)


def _complete_join(run: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse invalid combinations with --join."""
    if options.redis is not None:
        run.error("--join and --redis exclude each other: the service names the queue")
    if not options.token:
        run.error("--join needs a token: --token T, or REEF_TOKEN")
    if not options.join.startswith(("http://", "https://")):
        run.error("--join needs an address such as https://reef.example:8700")


def _complete_card(command: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Fill in the card and the data folder."""
    measures = options.device is not None and options.device.measures
    if not measures and options.card is not None:
        command.error("--card needs a --device that measures, such as h200")
    if measures:
        options.card = options.card or FIRST_CARD
    if measures or (options.device is not None and options.device.kind == "recorded"):
        options.data = (options.data or cache_home()).absolute()
