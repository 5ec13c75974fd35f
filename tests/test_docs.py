"""What must be documented is: settings, outcomes, sockets, routes and commands, by heading or by name."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from service.app import create_app
from service.cli import app as command_line
from service.settings import Settings
from workers.protocol import Outcome

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PROSE = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
PARTS = ("kernelreef", "archive", "workers", "service", "operators", "migrations", "tests", "benchmarks", "docs", ".ci")
SUFFIXES = ("", ".md", ".py", ".toml", ".yml", ".json", ".txt", ".mako", ".jinja", ".lua", ".html", ".css", ".js")
TEXTS = sorted(
    path
    for path in [*ROOT.glob("*"), *(path for part in PARTS for path in (ROOT / part).rglob("*"))]
    if path.is_file() and path.suffix in SUFFIXES and path != Path(__file__)
)
FOREIGN = ("/work/", ".pyenv", "co-authored-by", "generated with", "as an ai")
"""Fragments of the authors' machines and tools; the project speaks of itself alone."""
SOCKETS = {
    "archive.descriptors": "DESCRIPTORS",
    "workers.checks": "CHECKS",
    "workers.devices": "DEVICES",
    "service.emitters": "EMITTERS",
    "service.llm": "BACKENDS",
}


def headings(page: str) -> list[str]:
    """Second-level headings of a page under docs, without backticks."""
    return re.findall(r"^## `?([^`\n]+?)`?$", (DOCS / page).read_text(), flags=re.MULTILINE)


def sections(page: str) -> dict[str, str]:
    """Text under each second-level heading of a page under docs."""
    parts = re.split(r"^## `?([^`\n]+?)`?$", (DOCS / page).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_setting_has_its_heading_and_its_default() -> None:
    documented = sections("settings.md")
    assert set(documented) == {f"REEF_{name.upper()}" for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        text = documented[f"REEF_{name.upper()}"]
        assert "Default:" in text
        if field.default_factory is None and field.default is not None:
            assert f"Default: `{str(field.default).lower()}`" in text, name


def test_every_outcome_says_what_it_means_and_what_to_do() -> None:
    documented = sections("outcomes.md")
    assert set(documented) == {outcome.value for outcome in Outcome}
    for outcome, text in documented.items():
        assert "**Means.** " in text and "**Do.** " in text, outcome


@pytest.mark.parametrize("package", SOCKETS)
def test_every_implementation_of_a_socket_is_named(package: str) -> None:
    text = sections("sockets.md")[package.replace(".", "/")]
    table = getattr(importlib.import_module(package), SOCKETS[package])
    assert SOCKETS[package] in text
    assert [name for name in table if f"`{name}`" not in text] == []


def test_every_route_is_documented_and_nothing_else() -> None:
    document = create_app(Settings()).openapi()
    routes = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    documented = re.findall(r"^\| `(GET|POST|PATCH|PUT|DELETE)` \| `(/[^`]*)` \|", (DOCS / "rest.md").read_text(), re.M)
    assert set(documented) == routes


def test_every_command_is_documented() -> None:
    text = "".join(path.read_text() for path in (ROOT / "README.md", DOCS / "cli.md") if path.exists())
    known = commands(typer.main.get_command(command_line))
    assert [command for command in known if f"reef {command}" not in text] == []


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    """Names of all commands below a group, with the groups that lead to them."""
    for name, later in sorted(group.commands.items()):
        command = later.load() if hasattr(later, "load") else later
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        elif not command.hidden:
            yield prefix + name


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PROSE:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", page.read_text())):
            if not re.match(r"[a-z]+:|#", target) and not (page.parent / target.partition("#")[0]).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((DOCS / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_text_speaks_of_the_project_alone() -> None:
    found = []
    for path in TEXTS:
        text = path.read_text(encoding="utf-8").lower()
        found += [f"{path.relative_to(ROOT)}: {fragment}" for fragment in FOREIGN if fragment in text]
    assert found == []


def test_every_figure_says_where_when_and_how_it_was_made():
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        assert {"machine", "versions", "date", "command"} <= json.loads(path.read_text()).keys(), path.name
