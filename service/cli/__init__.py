"""The `reef` command. Each module holds the commands of one kind of user; this one puts them together."""

import importlib
import importlib.metadata
import sys
from typing import Annotated

import typer
from pydantic import ValidationError

from archive.errors import ArchiveError
from service.cli.console import complain, out
from service.cli.loading import Place, group_of
from service.errors import ServiceError
from service.logs import configure
from service.settings import Settings

OUR_FAILURE = 1
BAD_INPUT = 2

COMMANDS = {
    "search": Place("service.cli.searched", "search", "Search for a faster kernel for SPEC."),
    "submit": Place("service.cli.watched", "submit", "Start a search for SPEC and leave it to the coordinator."),
    "watch": Place("service.cli.watched", "watch", "Look on until a search ends."),
    "pause": Place("service.cli.steered", "pause", "Propose nothing more for a search for now."),
    "resume": Place("service.cli.steered", "resume", "Let a paused search go on."),
    "stop": Place("service.cli.steered", "stop", "End a search for good; what it found stays."),
    "change": Place("service.cli.steered", "change", "Give a search another budget, priority or stop rules."),
    "judge": Place("service.cli.judged", "judge", "Judge one CANDIDATE against SPEC."),
    "certificate": Place("service.cli.certified", "certificate", "Write down all that a verdict rests on."),
    "verify": Place("service.cli.certified", "verify", "Repeat a CERTIFICATE on this machine."),
    "best": Place("service.cli.archived", "best", "Show the best elites of a search."),
    "export": Place(
        "service.cli.archived",
        "export",
        "Write a search's fastest elites as a package to install, all that it found into a zip file, or its steps.",
    ),
    "plan": Place("service.cli.archived", "plan", "Launch plans."),
    "operators": Place("service.cli.catalogued", "operators", "The operator catalogue."),
    "import": Place("service.cli.imported", "imports", "Operators out of what others publish."),
    "kernelbench": Place("service.cli.kernelbench", "benchmark", "What searches for problems of KernelBench came to."),
    "descriptors": Place("service.cli.described", "descriptors", "The axes that grids are made of."),
    "serve": Place("service.cli.hosted", "serve", "Run the coordinator with its REST interface."),
    "worker": Place("service.cli.hosted", "worker", "Run workers on this machine until stopped."),
    "knowledge": Place("service.cli.learned", "knowledge", "What was learned across searches."),
    "prompts": Place("service.cli.prompted", "prompts", "What models were asked, and what waits for an answer."),
    "backends": Place("service.cli.prompted", "backends", "Language models that can be asked."),
    "archive": Place("service.cli.kept", "archive", "Copy the archive, re-bin searches, and forget what is old."),
    "token": Place("service.cli.secured", "tokens", "API tokens: who may come in."),
    "audit": Place("service.cli.secured", "audit", "What was changed and what was refused."),
    "migrate": Place("service.cli.hosted", "migrate_archive", "Bring the archive's schema up to date."),
    "doctor": Place("service.cli.hosted", "doctor", "Say what works on this machine."),
}
"""Every command: its module, its name there, and what `reef --help` says. A module is imported when it is called."""

app = typer.Typer(
    name="reef", cls=group_of(COMMANDS), no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


def _say_version(wanted: bool) -> None:
    if wanted:
        out.print(f"kernelreef {importlib.metadata.version('kernelreef')}", highlight=False)
        raise typer.Exit


@app.callback()
def reef(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say the version and end.")
    ] = False,
) -> None:
    """Search for fast, verified Triton kernels."""


def main() -> None:
    """Run the command line; errors become one line and an exit code, never a trace."""
    try:
        configure(Settings())
        app()
    except ValidationError as error:
        first = error.errors()[0]
        complain(first["msg"], f"REEF_{first['loc'][0]}".upper())
        sys.exit(BAD_INPUT)
    except ServiceError as error:
        complain(error.detail, error.field)
        sys.exit(BAD_INPUT if error.status < 500 else OUR_FAILURE)
    except (ArchiveError, queue_unavailable()) as error:
        complain(str(error))
        sys.exit(OUR_FAILURE)


def queue_unavailable() -> type[Exception]:
    """What the queue raises; looked up only when something was raised, because the queue takes long to import."""
    found: type[Exception] = importlib.import_module("workers.queue").QueueUnavailable
    return found
