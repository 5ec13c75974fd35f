"""`reef descriptors` names the axes, says what they tell apart in a search, and whether they keep still."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner
from uuid6 import uuid7

from archive.descriptors import DESCRIPTORS
from archive.records import SearchRecord
from service.analysis.invariance import AxisMove, Invariance
from service.cli import app
from service.cli.descriptors import evenly, in_words
from service.errors import InvalidInput
from tests.archive.samples import offer, stored_candidate
from tests.archives import opened
from tests.service import asked
from tests.service.lineages import SEED, Made, stored

Reef = Callable[..., Result]


@pytest.fixture
def reef(tmp_path: Path) -> Reef:
    return lambda *arguments: CliRunner().invoke(
        app, ["descriptors", *arguments], env={"REEF_DATA_DIR": str(tmp_path), "COLUMNS": "200"}
    )


@pytest.fixture
def search(tmp_path: Path) -> SearchRecord:
    async def fill() -> SearchRecord:
        async with opened(tmp_path) as store:
            return await stored(store, (SEED, Made("gained", 8.0, note="num_warps 8 -> 4"), Made("lost", 12.0)))

    return asyncio.run(fill())


def test_every_axis_is_listed(reef: Reef) -> None:
    listed = json.loads(reef("list", "--json").stdout)
    assert [axis["name"] for axis in listed] == list(DESCRIPTORS)
    shown = reef("list").stdout
    assert all(name in shown for name in DESCRIPTORS)


def test_the_report_counts_the_kernels_of_the_newest_search(reef: Reef, search: SearchRecord) -> None:
    census = json.loads(reef("report", "--json").stdout)
    assert census["search"] == search.id
    assert census["kernels"] == census["descriptors"]["num_warps"]["kernels"] > 0
    shown = reef("report", search.id).stdout
    assert f"{census['kernels']} kernels on {census['device']}" in shown
    assert f"{census['axes'][0]} *" in shown
    assert f"all {census['elites']} elites lie where their readings put them today" in shown


def test_a_device_that_the_search_does_not_use_is_refused(reef: Reef, search: SearchRecord) -> None:
    with pytest.raises(InvalidInput):
        raise reef("report", search.id, "--device", "h200").exception


@pytest.fixture
def placed(tmp_path: Path, search: SearchRecord) -> SearchRecord:
    """The search with two elites that launch something."""

    async def place() -> None:
        async with opened(tmp_path) as store:
            for cell in range(2):
                source = asked.SEED.replace("num_warps=4", f"num_warps={2**cell}")
                candidate = await stored_candidate(store, search.id, 3 + cell, id=str(uuid7()), source=source)
                await store.elites.offer(offer(search.id, candidate, cell=cell))

    asyncio.run(place())
    return search


def test_elites_are_traced_here_and_written_differently(reef: Reef, placed: SearchRecord) -> None:
    found = json.loads(reef("report", "--json").stdout)["invariance"]
    assert (found["compared"], found["equal"], found["skipped"]) == (2, 2, {})
    assert found["moved"] == {name: [] for name in DESCRIPTORS}
    shown = reef("report", "--reworded", "1").stdout
    assert "0 of 1" in shown and "1 came to the same machine code" in shown


def test_nothing_is_traced_where_nobody_wants_it(reef: Reef, placed: SearchRecord) -> None:
    assert json.loads(reef("report", "--json", "--reworded", "0").stdout)["invariance"]["compared"] == 0
    assert "Moved:" not in reef("report", "--reworded", "0").stdout


def test_what_moved_and_what_was_left_out_is_named() -> None:
    move = AxisMove(candidate="c1", variant=2, before={"value": 32.0, "bin": 1}, after=None)
    found = Invariance(compared=3, equal=2, moved={"registers": [move], "launches": []}, skipped={"c2": "not so"})
    first, *rest = in_words(found)
    assert first.startswith("Moved: of 3 elites") and first.endswith("2 came to the same machine code")
    assert rest == ["registers moved c1, variant 2, from 32 (bin 1) to nowhere", "c2 was not compared: not so"]
    assert in_words(Invariance()) == []


def test_elites_are_taken_from_the_best_to_the_last() -> None:
    assert evenly("abcdefg", 4) == ["a", "c", "e", "g"]
    assert (evenly("abc", 5), evenly("abc", 1), evenly("abc", 0)) == (["a", "b", "c"], ["a"], [])
