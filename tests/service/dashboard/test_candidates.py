import ast

import httpx
import pytest

from tests.service import records
from tests.service.dashboard.conftest import Filled, Hostile
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import Document, faults, read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_candidate_is_shown_whole(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/candidates/{filled.best}"))
    for said in (
        "holds cell 1",
        "N=1024",
        "\u224810.00 \u00b5s",
        "launch double_kernel",
        "memory floor",
        "seed kernel",
    ):
        assert said in page.text
    assert "# 1" in page.text and "Changes since" in page.text
    assert f"/candidates/{filled.best}?against={filled.first}#diff-title" in [link["href"] for link in page.all("a")]


async def test_one_that_failed_says_where_and_why(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/candidates/{filled.failed}"))
    assert "compile error" in page.text and "no such name" in page.text
    assert {"href": "#L3"} in page.all("a")
    assert "No plan: it did not get that far." in page.text


async def test_assembly_is_read_on_demand(pages: httpx.AsyncClient, filled: Filled) -> None:
    answer = await pages.get(f"/candidates/{filled.best}/assembly?variant=0")
    fragment = Document(answer.text)
    assert "visible .entry kernel" in fragment.text and faults(fragment) == []
    assert (await pages.get(f"/candidates/{filled.failed}/assembly")).status_code == 404


async def test_sources_and_elites_are_files_to_keep(pages: httpx.AsyncClient, filled: Filled) -> None:
    source = await pages.get(f"/candidates/{filled.best}/source")
    assert source.text == f"{records.SEED}# 1\n"
    assert source.headers["content-disposition"].startswith("attachment; ")
    kernel = await pages.get(f"/candidates/{filled.best}/kernel?device=model:sm_90")
    assert ast.parse(kernel.text) and "predicted, not measured" in kernel.text
    assert (await pages.get(f"/candidates/{filled.failed}/kernel?device=model:sm_90")).status_code == 404


async def test_the_list_is_narrowed_by_outcome(pages: httpx.AsyncClient, filled: Filled) -> None:
    every = read(await pages.get(f"/searches/{filled.search.id}/candidates"))
    failed = read(await pages.get(f"/searches/{filled.search.id}/candidates?outcome=compile_error"))
    assert {"href": f"/candidates/{filled.failed}", "class": "id", "title": filled.failed} in failed.all("a")
    assert filled.best in str(every.tags) and filled.best not in str(failed.tags)


async def test_nothing_hostile_gets_through(pages: httpx.AsyncClient, hostile: Hostile) -> None:
    read(await pages.get(f"/searches/{hostile.search.id}/candidates"))
    for id, text in zip(hostile.candidates, CORPUS, strict=True):
        page = read(await pages.get(f"/candidates/{id}"))
        assert " ".join(text.split())[:20] in page.text
