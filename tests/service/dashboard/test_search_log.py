import httpx
import pytest

from service.dashboard.search_log import load_log
from tests.service.dashboard.conftest import Filled, Hostile, Service
from tests.service.dashboard.reading import faults, read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_events_are_lines_of_words_newest_first(service: Service, filled: Filled) -> None:
    log = await load_log(service.coordinator.store, filled.search)
    times = [line.at for line in log.lines]
    assert times == sorted(times, reverse=True) and not log.cut
    said = [line.text for line in log.lines]
    assert "The search is done." in said
    assert any(text.startswith("The search was submitted, for ") for text in said)
    taken = [line for line in log.lines if "cell 1 on model:sm_90" in line.text]
    assert filled.best in [line.candidate for line in taken]
    assert any(line.candidate == filled.failed and "verdict: compile error" in line.text for line in log.lines)


async def test_the_log_has_a_page_and_a_part(pages: httpx.AsyncClient, filled: Filled, hostile: Hostile) -> None:
    assert "The search is done." in read(await pages.get(f"/searches/{filled.search.id}/log")).text
    part = await pages.get(f"/searches/{filled.search.id}/log-lines")
    assert part.text.lstrip().startswith("<ol")
    assert faults(read(await pages.get(f"/searches/{hostile.search.id}/log"))) == []
