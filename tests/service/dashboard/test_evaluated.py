import pytest

from service.dashboard.candidate import load_candidate
from service.dashboard.evaluated import load_judged, seed_times
from service.evaluation.reports import reports_on
from tests.service import records
from tests.service.dashboard.conftest import Filled, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_device_of_the_search_has_its_say(service: Service, filled: Filled) -> None:
    store = service.coordinator.store
    reports = await reports_on(store, filled.best)
    here, elsewhere = await load_judged(store, filled.search, reports, None)
    assert (here.device, here.provenance, here.relative_to) == (records.DEVICE, "predicted", "seed kernel")
    assert here.report is not None and here.report.job == reports[-1].job
    assert here.cell is None and here.holder is None, "without a bundle nobody knows where it lies"
    assert elsewhere.report is None and elsewhere.times == () and elsewhere.speedup is None


async def test_times_are_held_against_the_seeds(service: Service, filled: Filled) -> None:
    store = service.coordinator.store
    seed_us = await seed_times(store, filled.search, records.DEVICE)
    assert set(seed_us) == {"N=1024", "N=4096"}
    assert await seed_times(store, filled.search, "model:sm_80") == {}
    judged = (await load_candidate(store, filled.best, None, None)).judged[0]
    assert judged.holder is not None and judged.holder.candidate == filled.best
    assert judged.times[0].floors.memory_us is not None and judged.times[0].floors.arithmetic_us is None
    assert judged.roofline is None, "how much arithmetic the reference takes is not known"
