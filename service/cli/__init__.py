"""The `reef` command. Each module holds the commands of one kind of user; this one puts them together."""

import sys

import typer
from pydantic import ValidationError

from archive.errors import ArchiveError
from service.cli import archived, catalogued, hosted, judged, searched
from service.cli.console import complain
from service.errors import ServiceError
from service.logs import configure
from service.settings import Settings
from workers.queue import QueueUnavailable

OUR_FAILURE = 1
BAD_INPUT = 2

app = typer.Typer(
    name="reef",
    help="Search for fast, verified Triton kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("search")(searched.search)
app.command("judge")(judged.judge)
app.command("best")(archived.best)
app.add_typer(archived.plan, name="plan")
app.add_typer(catalogued.operators, name="operators")
app.command("serve")(hosted.serve)
app.command("worker")(hosted.worker)
app.command("migrate")(hosted.migrate_archive)
app.command("doctor")(hosted.doctor)


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
    except (ArchiveError, QueueUnavailable) as error:
        complain(str(error))
        sys.exit(OUR_FAILURE)
