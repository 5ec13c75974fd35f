"""Commands are imported when they are called, and listed without."""

import importlib.metadata
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from service.cli import COMMANDS, app
from service.cli.lazy import CommandLocation, LazyCommand, group_of

HEAVY = ("alembic", "fastapi", "httpx", "redis", "service.coordinator", "sqlalchemy")


def test_the_list_of_commands_needs_none_of_them() -> None:
    code = f"""
import sys
from typer.testing import CliRunner
from service.cli import app
shown = CliRunner().invoke(app, ["--help"])
assert shown.exit_code == 0 and "search" in shown.stdout, shown.output
print(sorted(set({HEAVY}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["search", "submit", "watch", "stop", "operators"])
def test_commands_that_a_service_elsewhere_may_answer_need_none_but_a_client(name: str) -> None:
    code = f"""
import sys
from service.cli import COMMANDS
from service.cli.lazy import LazyCommand
LazyCommand("{name}", COMMANDS["{name}"]).load()
print(sorted(set({HEAVY}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['httpx']\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_the_table_says(name: str) -> None:
    loaded = LazyCommand(name, COMMANDS[name]).load()
    assert loaded.help.startswith(COMMANDS[name].summary.rstrip("."))
    assert "Usage" in CliRunner().invoke(app, [name, "--help"]).stdout


def test_the_collector_leaves_what_a_command_imports_alone_and_looks_at_all_else() -> None:
    code = """
import gc
from service.cli import COMMANDS
from service.cli.lazy import LazyCommand
kept = []
for _ in range(2):
    LazyCommand("search", COMMANDS["search"]).load()
    kept.append((gc.get_freeze_count(), gc.isenabled()))
assert kept[0][0] > 10_000 and kept[0] == kept[1] and kept[0][1], kept
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_command_reads_its_own_arguments() -> None:
    table = {"print": CommandLocation("tests.service.cli.test_lazy", "say", "Say a word.")}
    small = typer.Typer(cls=group_of(table))
    small.callback()(lambda: None)
    assert CliRunner().invoke(small, ["print", "reef", "--times", "2"]).stdout == "reef reef\n"
    assert CliRunner().invoke(small, ["print"]).exit_code == 2
    assert list(typer.main.get_command(small).commands) == ["print"]


def say(word: str, times: int = 1) -> None:
    """Say a word."""
    typer.echo(" ".join([word] * times))


def test_the_version_is_that_of_the_installed_package() -> None:
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.stdout) == (0, f"kernelreef {importlib.metadata.version('kernelreef')}\n")
