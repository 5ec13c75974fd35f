"""`reef descriptors` names the axes, and says what they tell apart in a search."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from archive.descriptors import DESCRIPTORS
from archive.records import Search
from service.cli import app
from service.errors import BadInput
from tests.service.lineages import SEED, Made, opened, stored

Reef = Callable[..., Result]


@pytest.fixture
def reef(tmp_path: Path) -> Reef:
    return lambda *arguments: CliRunner().invoke(
        app, ["descriptors", *arguments], env={"REEF_DATA_DIR": str(tmp_path), "COLUMNS": "200"}
    )


@pytest.fixture
def search(tmp_path: Path) -> Search:
    async def fill() -> Search:
        async with opened(tmp_path) as store:
            return await stored(store, (SEED, Made("gained", 8.0, note="num_warps 8 -> 4"), Made("lost", 12.0)))

    return asyncio.run(fill())


def test_every_axis_is_listed(reef: Reef) -> None:
    listed = json.loads(reef("list", "--json").stdout)
    assert [axis["name"] for axis in listed] == list(DESCRIPTORS)
    shown = reef("list").stdout
    assert all(name in shown for name in DESCRIPTORS)


def test_the_report_counts_the_kernels_of_the_newest_search(reef: Reef, search: Search) -> None:
    census = json.loads(reef("report", "--json").stdout)
    assert census["search"] == search.id
    assert census["kernels"] == census["descriptors"]["num_warps"]["kernels"] > 0
    shown = reef("report", search.id).stdout
    assert f"{census['kernels']} kernels on {census['device']}" in shown
    assert f"{census['axes'][0]} *" in shown


def test_a_device_that_the_search_does_not_use_is_refused(reef: Reef, search: Search) -> None:
    with pytest.raises(BadInput):
        raise reef("report", search.id, "--device", "h200").exception
