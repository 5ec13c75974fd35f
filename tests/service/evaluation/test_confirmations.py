"""Who is confirmed, and in which order: those that lead, then whoever there is time for."""

from dataclasses import replace

import pytest

from archive.records import EliteRecord, NewPin, Offer, Placement, SearchRecord
from service.evaluation.confirmations import FREQUENT_PARENT, LAST_CONFIRMS, Confirmations
from service.evaluation.jobs import measure_id
from tests.archive.samples import new_report, offer, stored_candidate
from tests.service import records
from tests.service.measured import DEVICE
from tests.service.workbench import Workbench


@pytest.fixture
async def search(card: Workbench) -> SearchRecord:
    return await card.begin(evaluations=3)


async def hold(card: Workbench, search: SearchRecord, cell: int, low: float) -> Offer:
    """Store a candidate that holds a cell provisionally."""
    candidate = await stored_candidate(card.store, search.id, 100 + cell)
    held = offer(search.id, candidate, low, cell=cell, device=DEVICE, low=low, mid=low + 0.01, high=low + 0.02)
    await card.store.provisional.hold(held, 0.005)
    return held


async def chosen(
    card: Workbench, search: SearchRecord, *, busy: bool = True, last: bool = False, awaited: tuple[str, ...] = ()
) -> list[int]:
    queued = {measure_id("other", 0, DEVICE)} if busy else set()
    found = await Confirmations(card.store, card.dispatcher).choose(search, DEVICE, queued, awaited, last=last)
    return [holder.cell for holder in found]


async def test_the_best_of_all_is_confirmed_at_once(card: Workbench, search: SearchRecord) -> None:
    await hold(card, search, 1, 1.1)
    await hold(card, search, 2, 1.3)
    assert await chosen(card, search) == [2]
    elite = await hold(card, search, 3, 1.5)
    await card.store.elites.offer(replace(elite, job="confirm", incumbent=""))
    assert await chosen(card, search) == [], "none is better than the elite"
    assert await chosen(card, search, busy=False) == [2], "while the card has nothing to measure"


async def test_one_at_a_time_while_candidates_are_measured(card: Workbench, search: SearchRecord) -> None:
    first = await hold(card, search, 1, 1.1)
    await hold(card, search, 2, 1.0)
    assert await chosen(card, search, awaited=(first.candidate,)) == []


async def test_frequent_parents_and_pinned_ones_lead_too(card: Workbench, search: SearchRecord) -> None:
    elite = await hold(card, search, 3, 1.5)
    await card.store.elites.offer(replace(elite, job="confirm", incumbent=""))
    parent = await hold(card, search, 1, 1.1)
    await hold(card, search, 2, 1.2)
    for ordinal in range(FREQUENT_PARENT):
        await stored_candidate(card.store, search.id, 200 + ordinal, parents=(parent.candidate,))
    assert await chosen(card, search) == []
    await stored_candidate(card.store, search.id, 300, parents=(parent.candidate,))
    assert await chosen(card, search) == [1]
    await card.store.pins.put(NewPin("pin", search.id, DEVICE, 2, None), most=9)
    assert await chosen(card, search) == [2], "of two that lead, the better one"


async def test_at_the_end_the_best_are_confirmed_within_the_budget(card: Workbench, search: SearchRecord) -> None:
    held = [await hold(card, search, cell, 1.0 + cell / 100) for cell in range(LAST_CONFIRMS + 2)]
    confirmations = Confirmations(card.store, card.dispatcher)
    first = await confirmations.choose(search, DEVICE, (), (), last=True)
    assert [holder.cell for holder in first] == [*range(LAST_CONFIRMS + 1, 1, -1)]
    for holder in held[2:]:
        await card.store.provisional.give_back(replace(holder, job=f"confirm{holder.cell}"), Placement.REJECTED, 0.005)
    again = await confirmations.choose(search, DEVICE, (), (), last=True)
    assert [holder.cell for holder in again] == [1], "nobody is confirmed, so the best left leads"
    confirmations.forget(search.id)
    assert len(await confirmations.choose(search, DEVICE, (), (), last=True)) == 1, "a sweep adds none"


async def test_holders_are_read_again_only_when_one_has_changed(
    card: Workbench, search: SearchRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, read = await hold(card, search, 1, 1.1), list[str]()
    listed = card.store.elites.list

    async def counted(search: str, device: str, axes_version: int) -> list[EliteRecord]:
        read.append(device)
        return await listed(search, device, axes_version)

    monkeypatch.setattr(card.store.elites, "list", counted)
    confirmations = Confirmations(card.store, card.dispatcher)
    for _ in range(3):
        found = await confirmations.choose(search, DEVICE, (), ())
        assert [holder.cell for holder in found] == [1]
    assert read == [DEVICE]
    await card.store.elites.offer(replace(held, job="confirm", incumbent=""))
    assert await confirmations.choose(search, DEVICE, (), ()) == []
    await hold(card, search, 2, 1.3)
    assert [holder.cell for holder in await confirmations.choose(search, DEVICE, (), ())] == [2]
    assert read == [DEVICE] * 3


async def test_whoever_is_fastest_at_a_shape_leads(card: Workbench, search: SearchRecord) -> None:
    elite = await hold(card, search, 3, 1.5)
    await card.store.elites.offer(replace(elite, job="confirm", incumbent=""))
    narrow, wide = await hold(card, search, 1, 1.1), await hold(card, search, 2, 1.2)
    for held, job, times in (
        (elite, "confirm", {"N=1024": 10.0, "N=4096": 10.0}),
        (narrow, narrow.job, {"N=1024": 5.0, "N=4096": 30.0}),
        (wide, wide.job, {"N=1024": 20.0, "N=4096": 20.0}),
    ):
        await _report(card, search, held, job, times)
    assert await chosen(card, search) == [1]


async def _report(card: Workbench, search: SearchRecord, held: Offer, job: str, times_us: dict[str, float]) -> None:
    said = records.report(times_us, job=job, search=search.id, candidate=held.candidate, bundle=held.bundle)
    shapes = tuple(shape.model_copy(update={"pacer_us": 10.0}) for shape in said.shapes)
    document = said.model_copy(update={"shapes": shapes}).model_dump_json()
    await card.store.reports.save(new_report(search.id, held.candidate, job=job, device=DEVICE, document=document))
