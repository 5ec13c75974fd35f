"""What is imported when it is called for: `reef --help` needs neither a database nor a web framework."""

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
    """Where a command is, and its line in the list of commands.

    Attributes:
        module: Its module.
        name: What it is called there: a function, or a `typer.Typer` with commands of its own.
        summary: The first line of its help.
    """

    module: str
    name: str
    summary: str


class LazyCommand(TyperCommand):
    """Stands for a command until somebody calls it."""

    def __init__(self, name: str, place: CommandLocation) -> None:
        super().__init__(name=name, help=place.summary, params=[])
        self._place = place

    def load(self) -> TyperCommand | TyperGroup:
        """The command itself."""
        found = getattr(imported(self._place.module), self._place.name)
        if isinstance(found, typer.Typer):
            return get_group(found)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(self.name)(found)
        return cast(TyperCommand, get_command(alone))

    def make_context(
        self, info_name: str | None, args: list[str], parent: object = None, **extra: object
    ) -> typer.Context:
        """Let the command itself read its arguments; from here on it stands for itself."""
        return cast(typer.Context, self.load().make_context(info_name, args, cast(typer.Context, parent), **extra))


def imported(module: str) -> ModuleType:
    """A module, imported now if it is not yet.

    It stays to the end, and so does all that it imports, out of the garbage collector's sight: to look through it
    takes a second.
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
    """A kind of group that has the commands of a table, in its order."""

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
