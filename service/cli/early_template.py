"""Template of this command's executors, started before the command itself is imported.

The template imports for longer than all else that a first verdict waits for takes.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from service.discovery import find_service
from service.fleet.executor_template import ExecutorTemplate
from service.settings import Settings

SEARCHING = "search"
"""Command that judges in its own process, unless a service is named or found."""
ELSEWHERE = ("--url", "--help")
"""Options with which it does not."""


@cache
def template_of(output: Path) -> ExecutorTemplate:
    """Return the template whose standard error goes to a file. It is not started yet."""
    return ExecutorTemplate(output)


def start_early(arguments: Sequence[str], settings: Settings) -> None:
    """Start the template if a command is likely to need it. If it does not, both end together.

    A data folder that does not exist yet is left to the command: its arguments may be wrong.

    Args:
        arguments: The command and its arguments.
        settings: Its settings.
    """
    if arguments[:1] != [SEARCHING] or any(each.startswith(ELSEWHERE) for each in arguments):
        return
    inside = settings.url is None and settings.local_workers and settings.data_dir.is_dir()
    if inside and find_service(settings.data_dir) is None:
        with suppress(OSError):  # The service says why the data folder is unusable.
            template_of(settings.workers_log).start()
