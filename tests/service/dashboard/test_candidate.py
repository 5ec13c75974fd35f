from dataclasses import replace

import httpx
import pytest

from archive.errors import RecordNotFound
from service.dashboard.candidate import facts_by_launch, load_assembly, load_candidate, load_kernel
from service.dashboard.rendering import PageFrame, render_page
from tests.service.dashboard.conftest import Filled, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_variant_is_held_against_the_seed_and_the_floor(service: Service, filled: Filled) -> None:
    page = await load_candidate(service.coordinator.store, filled.best, None, None)
    judged = page.judged[0]
    assert [bar.label for bar in judged.times[0].bars] == ["this kernel", "seed kernel", "memory floor"]
    assert judged.speedup is not None and judged.speedup.mid == pytest.approx(1.0)
    assert [each.device for each in page.holds] == ["model:sm_90"]
    assert {place.axis for place in page.places if place.spans} == {"num_warps"}
    values = {place.axis: place.value for place in page.places}
    assert values["num_warps"] == 2 and values["tensor_core"] is None, "the position of a kind among kinds is no figure"
    assert page.against is not None and page.against.id == filled.first
    assert [line.kind for line in page.changes or ()].count("add") == 1


async def test_a_holder_on_a_card_is_confirmed_or_provisional(service: Service, filled: Filled) -> None:
    page = await load_candidate(service.coordinator.store, filled.best, None, None)
    predicted = page.judged[0]
    measured = replace(predicted, provenance="measured")
    provisional = replace(measured, holder=None, provisional=True)
    for judged, said in (
        (predicted, "holds cell 1</dd>"),
        (measured, "holds cell 1, confirmed</dd>"),
        (provisional, "holds cell 1 provisionally: measured once, not confirmed</dd>"),
    ):
        assert said in render_page(replace(page, judged=(judged,)), PageFrame())


async def test_a_report_of_an_older_protocol_is_marked(pages: httpx.AsyncClient, filled: Filled) -> None:
    shown = {each: (await pages.get(f"/candidates/{each}")).text for each in (filled.first, filled.best)}
    assert ["older protocol" in text for text in shown.values()] == [True, False]
    assert "protocol 1" in shown[filled.first]
    text = (await pages.get(f"/searches/{filled.search.id}")).text
    assert text.count("judged by the older protocol 1") == 1 and "judged by an older protocol" in text


async def test_what_does_not_exist_is_not_found(service: Service, filled: Filled) -> None:
    store = service.coordinator.store
    with pytest.raises(RecordNotFound):
        await load_candidate(store, filled.best, 5, None)
    with pytest.raises(RecordNotFound):
        await load_assembly(store, filled.failed, 0)
    with pytest.raises(RecordNotFound):
        await load_kernel(store, filled.best, "h200", 0)


async def test_facts_by_launch_are_rows_with_a_value_for_every_launch() -> None:
    first = {"programs": 4, "occupancy": 0.5, "bytes_moved": None, "instructions": {"load_global": 2, "matrix": 0}}
    second = {"programs": 8, "spill_bytes": 2048, "looped": {}, "persistent": False}
    assert facts_by_launch([first, second]) == (
        ("programs", ("4", "8")),
        ("occupancy", ("50%", "\u2013")),
        ("instructions", ("load global 2", "\u2013")),
        ("spill", ("\u2013", "2 KiB")),
        ("persistent", ("\u2013", "no")),
    )
    assert facts_by_launch([]) == ()
