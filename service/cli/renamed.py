"""Former names of commands, accepted for one release with a note on standard error."""

from collections.abc import Sequence

from service.cli.console import err

RENAMED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("change",): ("update",),
    ("backends", "unpark"): ("backends", "enable"),
    ("knowledge", "learn"): ("knowledge", "extract"),
}
"""Former name of a command, and the name it has now."""


def current_arguments(arguments: Sequence[str]) -> list[str]:
    """Replace a command's former name by its current one, and say so on standard error."""
    for former, now in RENAMED.items():
        if tuple(arguments[: len(former)]) == former:
            err.print(f"reef {' '.join(former)} is deprecated: use reef {' '.join(now)}", highlight=False)
            return [*now, *arguments[len(former) :]]
    return list(arguments)
