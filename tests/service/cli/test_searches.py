"""`reef searches` lists what the archive holds, and no table cuts a cell at 80 columns."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result
from uuid6 import uuid7

from archive.records import ExchangeState, SearchState
from kernelreef.short_ids import brief
from service.cli import app
from service.cli.searches import age
from service.security.authentication import issue
from service.security.scopes import EVERY_SCOPE
from tests.archive.samples import new_candidate, new_exchange, new_search, offer
from tests.archives import opened
from tests.service import records

LONG = "rmsnorm_with_a_residual_and_a_name_of_sixty_three_characters_end"
DEVICES = ("model:sm_90", "recorded:h200")


def reef(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"REEF_DATA_DIR": str(folder)})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two searches, a prompt and a token, whose names are as long as names may be."""
    folder = tmp_path_factory.mktemp("data")
    asyncio.run(fill(folder))
    return folder


async def fill(folder: Path) -> None:
    operator = records.OPERATOR.model_copy(update={"name": LONG})
    async with opened(folder) as store:
        await store.operators.put(operator.digest, LONG, operator.model_dump_json())
        template = records.search()
        for index, state in enumerate((SearchState.DONE, SearchState.RUNNING)):
            search = new_search(
                id=str(uuid7()),
                operator=operator.digest,
                operator_name=LONG,
                devices=DEVICES,
                axes=template.axes,
                evaluations=1_000_000,
                llm={"backends": ["b" * 32]},
            )
            await store.searches.create(search)
            await store.searches.set_state(search.id, state)
            if index == 0:
                candidate = await store.candidates.add(new_candidate(search.id, id=str(uuid7())))
                assert candidate is not None
                await store.elites.offer(offer(search.id, candidate.id, 1.234, device=DEVICES[0]))
            named = {"backend": "b" * 32, "strategy": "s" * 24, "state": ExchangeState.WAITING}
            await store.exchanges.open(new_exchange(search.id, index, id=str(uuid7()), **named))
        await issue(store, "a name of a token that is as long as a name of a token may be....", EVERY_SCOPE)


def test_searches_are_listed_with_their_results(data: Path) -> None:
    newest, oldest = listed = json.loads(reef(data, "searches", "--json").stdout)
    assert [search["state"] for search in listed] == ["running", "done"]
    assert (oldest["best"], newest["best"]) == ({DEVICES[0]: 1.234}, {})
    assert (oldest["evaluated"], oldest["operator"]) == (0, LONG)
    text = reef(data, "searches").stdout
    assert all(brief(search["id"]) in text for search in listed)
    assert "~1.234x" in text and "0/1000000" in text and "none" in text


def test_searches_are_filtered_and_limited(data: Path) -> None:
    def states(*options: str) -> list[str]:
        return [search["state"] for search in json.loads(reef(data, "searches", "--json", *options).stdout)]

    assert states("--state", "done") == ["done"]
    assert states("--state", "done", "--state", "running") == ["running", "done"]
    assert states("--limit", "1") == ["running"]
    assert states("--operator", LONG) == ["running", "done"] and states("--operator", "gelu") == []
    assert "no such search" in reef(data, "searches", "--operator", "gelu").stderr


def test_an_archive_without_searches_names_the_next_command(tmp_path: Path) -> None:
    assert "start one with: reef search" in reef(tmp_path, "searches").stderr


@pytest.mark.parametrize(
    "command",
    [
        ("searches",),
        ("best",),
        ("prompts", "list"),
        ("token", "list"),
        ("operators",),
        ("backends", "list"),
        ("descriptors", "list"),
        ("audit",),
    ],
    ids=" ".join,
)
def test_no_table_cuts_a_cell_at_80_columns(command: tuple[str, ...], data: Path, narrow: None) -> None:
    listed = json.loads(reef(data, "searches", "--json").stdout)
    done = (listed[1]["id"],) if command == ("best",) else ()
    shown = reef(data, *command, *done)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines and max(map(len, lines)) <= 80
    assert "\u2026" not in shown.stdout
    if command == ("searches",):
        assert all(f" {brief(search['id'])} " in shown.stdout for search in listed)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (86_400 * 40, "40 d")]
)
def test_an_age_has_its_largest_whole_unit(seconds: int, text: str) -> None:
    assert age(timedelta(seconds=seconds)) == text
