"""Where the command line writes: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)


def complain(detail: str, field: str | None = None) -> None:
    """Say in one line what was wrong, and where."""
    where = f"{field}: " if field and not detail.startswith(field) else ""
    err.print(Text.assemble(("reef: ", "bold red"), where, detail), highlight=False)


def emit_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write one JSON document on one line, as `--json` promises."""
    sys.stdout.write(json.dumps(value, default=str) + "\n")
