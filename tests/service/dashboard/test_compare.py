import httpx
import pytest

from tests.service.dashboard.conftest import Filled, Hostile, Service
from tests.service.dashboard.reading import read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_two_devices_stand_side_by_side(pages: httpx.AsyncClient, filled: Filled) -> None:
    id = filled.search.id
    page = read(await pages.get("/compare", params={"left": f"{id}@model:sm_90", "right": f"{id}@model:sm_80"}))
    assert "The devices differ" in page.text and "0 cells are filled on both sides" in page.text
    assert len([table for table in page.all("table") if table.get("class", "").startswith("map")]) == 2


async def test_what_cannot_be_held_against_each_other_is_said(
    pages: httpx.AsyncClient, filled: Filled, hostile: Hostile
) -> None:
    sides = {"left": f"{filled.search.id}@model:sm_90", "right": f"{hostile.search.id}@model:sm_90"}
    page = read(await pages.get("/compare", params=sides))
    assert "The axes differ" in page.text


async def test_a_side_admitted_against_mutation_testing_is_no_rival(
    service: Service, pages: httpx.AsyncClient, filled: Filled
) -> None:
    searches, id = service.coordinator.store.searches, filled.search.id
    sides = {"left": f"{id}@model:sm_90", "right": f"{id}@model:sm_80"}
    first, second, *_ = [each.id for each in await service.coordinator.store.candidates.list(id)]
    await searches.set_admitted(id, "the checks take 'zeros' for right: see `low`")
    try:
        assert (
            "The left search was admitted against mutation testing"
            in read(await pages.get("/compare", params=sides)).text
        )
        assert "admitted" in read(await pages.get("/")).text
        paths = ("", "/candidates", "/shapes", "/ancestry")
        pair = f"/candidates/compare?left={first}&right={second}"
        for path in (f"/candidates/{first}", pair, *(f"/searches/{id}{path}" for path in paths)):
            shown = await pages.get(path)
            assert "the checks take 'zeros' for right: see low" in read(shown).text, path
            assert "<code>low</code>" in shown.text, path
    finally:
        await searches.set_admitted(id, "")


async def test_without_a_choice_there_is_a_form(pages: httpx.AsyncClient, filled: Filled) -> None:
    assert "Choose two searches" in read(await pages.get("/compare")).text
    assert "write a search id" in read(await pages.get("/compare?left=x&right=y"), 422).text
