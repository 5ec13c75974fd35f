"""Output of the command line: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)


class FoldedTable(Table):
    """Table whose cells continue on the next line where a terminal is narrow; none is cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in self.columns:
            column.overflow = "fold"
        return super().__rich_console__(console, options)


def complain(detail: str, field: str | None = None) -> None:
    """Print an error in one line, with the field that it is about."""
    where = f"{field}: " if field and not detail.startswith(field) else ""
    line = plain(" ".join(f"{where}{detail}".split()))
    err.print(Text.assemble(("reef: ", "bold red"), line), highlight=False)


def plain(text: str) -> Text:
    """Make untrusted text safe to print: no control characters, no markup."""
    return Text("".join(char if char.isprintable() else "?" for char in text))


def emit_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document on one line."""
    sys.stdout.write(json.dumps(value, default=str) + "\n")
