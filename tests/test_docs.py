"""What must be documented is: settings, outcomes, sockets, routes and commands, by heading or by name."""

import importlib
import json
import re
import shlex
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
NAMED = ("examples", "operators", "deploy", "benchmarks", "tests")
"""Folders whose files pages name by their paths from the root."""
READ = ("tutorials", "how-to", "reference", "explanation")
"""The four parts of the docs."""
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
    documented = sections("reference/settings.md")
    assert set(documented) == {f"REEF_{name.upper()}" for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        text = documented[f"REEF_{name.upper()}"]
        assert "Default:" in text
        if field.default_factory is None and field.default is not None:
            assert f"Default: `{str(field.default).lower()}`" in text, name


def test_every_outcome_says_what_it_means_and_what_to_do() -> None:
    documented = sections("reference/outcomes.md")
    assert set(documented) == {outcome.value for outcome in Outcome}
    for outcome, text in documented.items():
        assert "**Means.** " in text and "**Do.** " in text, outcome


@pytest.mark.parametrize("package", SOCKETS)
def test_every_implementation_of_a_socket_is_named(package: str) -> None:
    text = sections("explanation/extending.md")[package.replace(".", "/")]
    table = getattr(importlib.import_module(package), SOCKETS[package])
    assert SOCKETS[package] in text
    assert [name for name in table if f"`{name}`" not in text] == []


def test_every_route_is_documented_and_nothing_else() -> None:
    document = create_app(Settings()).openapi()
    routes = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    page = (DOCS / "reference" / "rest.md").read_text()
    documented = re.findall(r"^\| `(GET|POST|PATCH|PUT|DELETE)` \| `(/[^`]*)` \|", page, re.M)
    assert set(documented) == routes


def test_every_command_is_documented() -> None:
    text = (DOCS / "reference" / "cli.md").read_text()
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


def test_commands_in_examples_exist_with_their_options() -> None:
    wrong = []
    for page in PROSE:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), flags=re.DOTALL):
            for line in re.findall(r"^(?:\S+=\S+ )*(?:\.venv/bin/)?reef (.*)$", block, flags=re.MULTILINE):
                wrong += [f"{page.relative_to(ROOT)}: reef {line}: {word}" for word in unknown(shlex.split(line, True))]
    assert wrong == []


def unknown(words: list[str]) -> list[str]:
    """Words of a command line that are no command, or no option of it."""
    command = typer.main.get_command(command_line)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return words[:1]
        found = command.commands[words[0]]
        command = found.load() if hasattr(found, "load") else found
        words = words[1:]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return [word for word in words if word.startswith("--") and word not in options]


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PROSE:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", page.read_text())):
            name, _, anchor = target.partition("#")
            aim = page.parent / name if name else page
            if re.match(r"[a-z]+:", target) or (aim.exists() and (not anchor or anchor in anchors(aim))):
                continue
            broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Names under which GitHub offers the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = re.findall(r"^#+ (.+)$", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_paths_that_pages_name_exist() -> None:
    absent = []
    for page in PROSE:
        for name in re.findall(rf"(?<![\w/.-])(?:{'|'.join(NAMED)})/[\w./-]*\w", page.read_text()):
            if not (ROOT / name).exists() and not name.endswith("/FILE"):
                absent.append(f"{page.relative_to(ROOT)}: {name}")
    assert absent == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [page.relative_to(DOCS).as_posix() for part in READ for page in sorted((DOCS / part).glob("*.md"))]
    assert pages
    assert [page for page in pages if f"({page})" not in index] == []


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((DOCS / "decisions").glob("[0-9]*.md"))]
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
