"""Commands that are imported when they are called: `reef --help` needs neither a database nor a web framework."""

import gc
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from service.cli.renamed import current_arguments


@dataclass(frozen=True)
class CommandLocation:
    """Location of a command, and its line in the list of commands.

    Attributes:
        module: Module of the command.
        name: Name in the module of a function, or of a `typer.Typer` with subcommands.
        summary: First line of the help.
    """

    module: str
    name: str
    summary: str


class LazyCommand(TyperCommand):
    """Placeholder of a command until it is called."""

    def __init__(self, name: str, place: CommandLocation) -> None:
        super().__init__(name=name, help=place.summary, params=[])
        self._place = place

    def load(self) -> TyperCommand | TyperGroup:
        """Import the command."""
        found = getattr(imported(self._place.module), self._place.name)
        if isinstance(found, typer.Typer):
            return get_group(found)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(self.name)(found)
        return cast(TyperCommand, get_command(alone))

    def make_context(
        self, info_name: str | None, args: list[str], parent: object = None, **extra: object
    ) -> typer.Context:
        """Import the command and let it parse its arguments."""
        return cast(typer.Context, self.load().make_context(info_name, args, cast(typer.Context, parent), **extra))


def imported(module: str) -> ModuleType:
    """Return a module, importing it if needed.

    Imported objects live until the process ends, so they are hidden from the garbage collector, which would take a
    second to scan them.
    """
    if module not in sys.modules:
        gc.disable()
        try:
            importlib.import_module(module)
        finally:
            gc.freeze()
            gc.enable()
    return sys.modules[module]


def group_of(table: Mapping[str, CommandLocation]) -> type[TyperGroup]:
    """Make a group class with the commands of a table, in its order."""

    class Table(TyperGroup):
        def __init__(self, **attributes: object) -> None:
            super().__init__(**attributes)  # type: ignore[arg-type]
            for name, place in table.items():
                self.add_command(LazyCommand(name, place))

        def make_context(
            self, info_name: str | None, args: list[str], parent: object = None, **extra: object
        ) -> typer.Context:
            now = current_arguments(args)
            return cast(typer.Context, super().make_context(info_name, now, cast(typer.Context, parent), **extra))

    return Table
