"""Errors in options and arguments: which option gives a field of a request, and usage errors in one line."""

import re

import typer
from pydantic import ValidationError

from kernelreef.validation import invalid
from service.cli.console import complain

CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""Base of the errors in arguments, which typer does not export."""
OPTIONS = {
    "axes": "--axes",
    "compiler": "--compiler",
    "devices": "--device",
    "emitters": "--emitters",
    "evaluations": "--evaluations",
    "expires_at": "--days",
    "host": "--host",
    "lease_s": "--lease-s",
    "llm": "--llm",
    "llm.calls": "--llm-calls",
    "llm.strategies": "--llm-strategies",
    "llm.tokens": "--llm-tokens",
    "llm.usd": "--llm-usd",
    "operator": "SPEC",
    "port": "--port",
    "priority": "--priority",
    "scopes": "--scope",
    "seed": "--seed",
    "spec": "SPEC",
    "stop": "--stop",
    "target": "--target",
    "url": "--url",
}
"""Option or argument that gives a field of a request."""
RULES = "--stop"
"""Option whose value begins with the name of a field."""


def option_of(field: str | None) -> str | None:
    """Return the option that gives a field: `--device` for `devices[0]`, `--stop plateau` for `stop.plateau`.

    A field that no option gives, such as one of a spec, is returned as it is.
    """
    steps = (field or "").partition("[")[0].split(".")
    for count in range(len(steps), 0, -1):
        if option := OPTIONS.get(".".join(steps[:count])):
            return " ".join([option, *steps[count:]]) if option == RULES else option
    return field


def complain_of_usage(error: Exception) -> None:
    """Print an error in the arguments in one line, with the command that explains them.

    A group without a command prints its help instead.
    """
    context, said = getattr(error, "ctx", None), str(getattr(error, "format_message", error.__str__)())
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(said, err=True)
        return
    named = re.match(r"Invalid value for '?([^':]+)'?: ", said)
    detail = said[named.end() :] if named else said[:1].lower() + said[1:]
    if isinstance(error.__cause__, ValidationError):
        detail = invalid(error.__cause__).detail
    detail = re.sub(r"\. Did you mean", "; did you mean", detail.rstrip("."))
    detail = re.sub(r" \(Possible options: (.*)\)$", r"; did you mean \1?", detail)
    hint = f"; see {context.command_path} --help" if context and not detail.endswith("?") else ""
    complain(f"{detail}{hint}", named[1] if named else None)
