import httpx
import pytest

from tests.service.dashboard.conftest import Filled, Hostile
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import faults, read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_two_candidates_stand_side_by_side(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/candidates/compare?left={filled.first}&right={filled.best}"))
    assert "speedup on model:sm_90, lower bound" in page.text and "\u224810.00 \u00b5s" in page.text
    assert "# 1" in page.text and {"class": "add"} in page.all("td")
    assert {"class": "differs"} in page.all("tr")
    assert "Their operators differ" not in page.text


async def test_one_that_failed_and_hostile_text_are_shown_too(
    pages: httpx.AsyncClient, filled: Filled, hostile: Hostile
) -> None:
    page = read(await pages.get(f"/candidates/compare?left={filled.failed}&right={hostile.candidates[0]}"))
    assert faults(page) == [] and "compile error" in page.text
    assert any(text in page.text for text in CORPUS)


@pytest.mark.parametrize("right", ["", "nothing", "0199a2b0-7c1e-7d3f-8a45-6b7c8d9e0f12"])
async def test_an_unknown_candidate_is_named(pages: httpx.AsyncClient, filled: Filled, right: str) -> None:
    page = read(await pages.get(f"/candidates/compare?left={filled.best}&right={right}"), 404)
    assert "candidate" in page.text and right in page.text
