"""Former names of commands and stop rules, accepted for one release with a note on standard error."""

from collections.abc import Sequence

from service.cli.console import err

RENAMED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("change",): ("update",),
    ("backends", "unpark"): ("backends", "enable"),
}
"""Former name of a command, and the name it has now."""
RENAMED_RULES = {"judging_s": "device_seconds"}
"""Former name of a rule of `--stop`, and the name it has now."""


def current_arguments(arguments: Sequence[str]) -> list[str]:
    """Replace a command's former name by its current one, and say so on standard error."""
    for former, now in RENAMED.items():
        if tuple(arguments[: len(former)]) == former:
            _note(f"reef {' '.join(former)}", f"reef {' '.join(now)}")
            return [*now, *arguments[len(former) :]]
    return list(arguments)


def current_rule(name: str) -> str:
    """Return the current name of a stop rule; a former one is noted on standard error."""
    now = RENAMED_RULES.get(name, name)
    if now != name:
        _note(f"--stop {name}", f"--stop {now}")
    return now


def _note(former: str, now: str) -> None:
    err.print(f"{former} is deprecated: use {now}", highlight=False)
