"""The `reef` command line. Each module holds related commands; this one lists them."""

import importlib
import importlib.metadata
import sys
from typing import Annotated

import typer
from pydantic import ValidationError

from archive.errors import ArchiveError
from kernelreef.validation import invalid
from service.cli.console import complain, out
from service.cli.early_template import start_early
from service.cli.lazy import CommandLocation, group_of
from service.cli.usage import CLICK_ERROR, complain_of_usage, option_of
from service.errors import ServiceError, Unauthenticated
from service.logs import configure
from service.settings import Settings

OUR_FAILURE = 1
BAD_INPUT = 2
TOKEN = "--token"
"""Option that answers a refusal to an unknown caller."""
SERVERS = ("serve", "worker")
"""Commands whose log goes to standard error; the others keep it for results and one line per error."""

COMMANDS = {
    "search": CommandLocation("service.cli.search", "search", "Search for a faster kernel for SPEC."),
    "submit": CommandLocation(
        "service.cli.watch", "submit", "Start a search for SPEC and leave it to the coordinator."
    ),
    "searches": CommandLocation("service.cli.searches", "searches", "List the searches."),
    "watch": CommandLocation("service.cli.watch", "watch", "Follow a search until it ends."),
    "pause": CommandLocation("service.cli.control", "pause", "Pause a search; jobs in flight still count."),
    "resume": CommandLocation("service.cli.control", "resume", "Resume a paused search."),
    "stop": CommandLocation("service.cli.control", "stop", "End a search for good; its results stay."),
    "update": CommandLocation(
        "service.cli.control", "update", "Change a search's evaluations, priority, stop rules, name, tags or notes."
    ),
    "delete": CommandLocation(
        "service.cli.control", "delete", "Delete an ended search with its candidates and results, for good."
    ),
    "judge": CommandLocation("service.cli.judge", "judge", "Judge one CANDIDATE against SPEC."),
    "certificate": CommandLocation(
        "service.cli.certificate", "certificate", "Write a certificate: everything a verdict rests on."
    ),
    "profile": CommandLocation("service.cli.profile", "profile", "Explain the time of a judged kernel."),
    "verify": CommandLocation("service.cli.certificate", "verify", "Repeat a CERTIFICATE on this machine."),
    "best": CommandLocation("service.cli.export", "best", "Show the best elites of a search."),
    "export": CommandLocation(
        "service.cli.export",
        "export",
        "Export a search: its fastest elites as a Python package, all elites as a zip file, or its steps.",
    ),
    "plan": CommandLocation("service.cli.export", "plan", "Show launch plans."),
    "operators": CommandLocation(
        "service.cli.operators", "operators", "Manage the operator catalogue and submitted operators."
    ),
    "new": CommandLocation(
        "service.cli.new",
        "new",
        "Make an operator's folder from a Python function, an nn.Module or a KernelBench problem, to edit it.",
    ),
    "import": CommandLocation("service.cli.import_", "imports", "Import operators (KernelBench)."),
    "kernelbench": CommandLocation(
        "service.cli.kernelbench", "benchmark", "Summarise searches for KernelBench problems."
    ),
    "descriptors": CommandLocation(
        "service.cli.descriptors", "descriptors", "List the descriptors that span the archive's grid."
    ),
    "serve": CommandLocation("service.cli.serve", "serve", "Run the coordinator with its REST interface."),
    "worker": CommandLocation("service.cli.serve", "worker", "Run workers on this machine until stopped."),
    "prompts": CommandLocation(
        "service.cli.prompts", "prompts", "Show prompts to language models; claim and answer manual ones."
    ),
    "backends": CommandLocation("service.cli.prompts", "backends", "Manage the configured language-model backends."),
    "archive": CommandLocation(
        "service.cli.archive", "archive", "Copy the archive, re-bin searches, and delete old data."
    ),
    "mcp": CommandLocation(
        "service.cli.agents.command",
        "mcp",
        "Serve the tools for coding agents over MCP, as a client of a running service.",
    ),
    "token": CommandLocation("service.cli.token", "tokens", "Manage API tokens."),
    "audit": CommandLocation("service.cli.token", "audit", "Show the audit log: changes and refused requests."),
    "migrate": CommandLocation("service.cli.serve", "migrate_archive", "Bring the archive's schema up to date."),
    "doctor": CommandLocation("service.cli.serve", "doctor", "Check what works on this machine."),
}
"""All commands: module, name in the module, and summary for `reef --help`. A module is imported when it is called."""

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
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Search for fast, verified Triton kernels."""


def main() -> None:
    """Run the command line; an error becomes one line and an exit code, never a traceback."""
    try:
        settings = Settings()
        configure(settings, quiet=sys.argv[1:2] != [] and sys.argv[1] not in SERVERS)
        start_early(sys.argv[1:], settings)
        sys.exit(app(standalone_mode=False) or 0)
    except CLICK_ERROR as error:
        complain_of_usage(error)
        sys.exit(BAD_INPUT)
    except ValidationError as error:
        problem = invalid(error, Settings, secret=True)
        complain(problem.detail, f"REEF_{problem.field}".upper())
        sys.exit(BAD_INPUT)
    except ServiceError as error:
        field = TOKEN if isinstance(error, Unauthenticated) else option_of(error.field)
        complain(error.detail.removeprefix(f"{error.field}: "), field)
        sys.exit(BAD_INPUT if error.status < 500 else OUR_FAILURE)
    except (ArchiveError, queue_unavailable()) as error:
        complain(str(error))
        sys.exit(OUR_FAILURE)
    except OSError as error:
        complain(error.strerror or str(error), error.filename)
        sys.exit(OUR_FAILURE)


def queue_unavailable() -> type[Exception]:
    """Return the queue's error class, imported only after an error because the queue is slow to import."""
    found: type[Exception] = importlib.import_module("workers.queue").QueueUnavailable
    return found
