"""Offers: exactly one challenger gets a cell, whoever else wants it, and however often it asks."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from archive.errors import RecordConflict, RecordNotFound
from archive.records import EMPTY_CELL, AxisStride, EliteRecord, Offer, Placement
from archive.store import Store
from tests.archive.samples import DEVICE, new_report, offer, stored_candidate, stored_search

NEW, IMPROVED, REJECTED, STALE = Placement.NEW, Placement.IMPROVED, Placement.REJECTED, Placement.STALE
RIVALS = 40
CELLS = 3


@pytest.fixture
async def subject(store: Store) -> tuple[str, str]:
    """A search and a candidate."""
    search = (await stored_search(store)).id
    return search, await stored_candidate(store, search)


async def test_an_offer_becomes_the_elite(store: Store, subject: tuple[str, str]) -> None:
    challenger = offer(*subject, 1.25, cell=7, low=1.25, mid=1.5, high=1.75, variant=3)
    assert await store.elites.offer(challenger) is NEW
    elite = await store.elites.get(subject[0], DEVICE, 1, 7)
    kept = {name: value for name, value in vars(challenger).items() if name != "incumbent"}
    assert elite == EliteRecord(**kept, revision=1, placed_at=elite.placed_at)
    assert await store.elites.list(subject[0], DEVICE, 1) == [elite]


async def test_an_elite_names_its_protocol_and_its_compiler(store: Store, subject: tuple[str, str]) -> None:
    known, unknown = offer(*subject, 1.5, cell=3), offer(*subject, 1.25, cell=4)
    await store.reports.save(new_report(*subject, job=known.job, protocol_version=7, compiler="Triton 3.9.0"))
    for each in (known, unknown):
        await store.elites.offer(each)
    versions = [elite.protocol_version for elite in await store.elites.list(subject[0], DEVICE, 1)]
    assert versions == [7, None]
    compilers = [elite.compiler for elite in await store.elites.list(subject[0], DEVICE, 1)]
    assert compilers == ["Triton 3.9.0", ""]
    best = await store.elites.best(subject[0], DEVICE)
    mark, _ = await store.views.top_elites(subject[0], DEVICE, 1, limit=2)
    assert best is not None and best.protocol_version == mark.protocol_version == 7
    (place,) = await store.views.places((subject[0], DEVICE, 1), AxisStride(5, 1), AxisStride(1, 1))
    assert place.mark.protocol_version == 7


async def test_a_device_is_known_once_any_search_has_an_elite_on_it(store: Store, subject: tuple[str, str]) -> None:
    assert not await store.elites.any_on(DEVICE)
    await store.elites.offer(offer(*subject))
    assert await store.elites.any_on(DEVICE) and not await store.elites.any_on("a10")


@pytest.mark.parametrize("objective, placement", [(1.1, IMPROVED), (1.0, REJECTED), (0.9, REJECTED)])
async def test_only_a_strictly_greater_objective_wins(
    store: Store, subject: tuple[str, str], objective: float, placement: Placement
) -> None:
    first, second = offer(*subject, 1.0), offer(*subject, objective)
    await store.elites.offer(first)
    assert await store.elites.offer(second) is placement
    elite = await store.elites.get(subject[0], DEVICE, 1, 0)
    assert elite.bundle == (second.bundle if placement is IMPROVED else first.bundle)
    assert elite.revision == (2 if placement is IMPROVED else 1)


async def test_a_confirmed_challenger_takes_over_from_its_incumbent_only(
    store: Store, subject: tuple[str, str]
) -> None:
    holder = offer(*subject, 1.0)
    await store.elites.offer(holder)
    assert await store.elites.offer(offer(*subject, 9.0, incumbent="somebody else")) is STALE
    # A confirm compares side by side: figures from other hours do not matter.
    confirmed = offer(*subject, 0.9, incumbent=holder.bundle)
    assert await store.elites.offer(confirmed) is IMPROVED
    assert await store.elites.offer(offer(*subject, 2.0, incumbent=holder.bundle)) is STALE
    assert (await store.elites.get(subject[0], DEVICE, 1, 0)).bundle == confirmed.bundle


async def test_an_empty_cell_has_no_incumbent(store: Store, subject: tuple[str, str]) -> None:
    assert await store.elites.offer(offer(*subject, incumbent="gone")) is STALE
    with pytest.raises(RecordNotFound):
        await store.elites.get(subject[0], DEVICE, 1, 0)


async def test_who_was_confirmed_for_an_empty_cell_takes_it_only_while_it_is_empty(
    store: Store, subject: tuple[str, str]
) -> None:
    first, better = (offer(*subject, objective, incumbent=EMPTY_CELL) for objective in (1.0, 9.0))
    assert [await store.elites.offer(each) for each in (first, better, first)] == [NEW, STALE, NEW]
    assert (await store.elites.get(subject[0], DEVICE, 1, 0)).bundle == first.bundle


async def test_of_many_confirmed_for_an_empty_cell_one_gets_it(
    store: Store, database_url: str, subject: tuple[str, str]
) -> None:
    rivals = [offer(*subject, 1.0 + place, incumbent=EMPTY_CELL) for place in range(RIVALS)]
    assert Counter(await at_once(store, database_url, rivals)) == {NEW: 1, STALE: RIVALS - 1}


async def test_a_job_is_applied_once(store: Store, subject: tuple[str, str]) -> None:
    first, second = offer(*subject, 1.0), offer(*subject, 2.0)
    assert [await store.elites.offer(each) for each in (first, second, first, second)] == [NEW, IMPROVED, NEW, IMPROVED]
    assert (await store.elites.get(subject[0], DEVICE, 1, 0)).revision == 2
    assert len(await store.elites.history(subject[0], DEVICE)) == 2
    progress = await store.elites.progress(subject[0], DEVICE, CELLS)
    assert progress.emitters["tune"]["promotions"] == 2


async def test_a_repeated_swap_does_not_come_back(store: Store, subject: tuple[str, str]) -> None:
    first = offer(*subject, 1.0, bundle="a")
    there, back = offer(*subject, bundle="b", incumbent="a"), offer(*subject, bundle="a", incumbent="b")
    placements = [await store.elites.offer(each) for each in (first, there, back, there)]
    assert placements == [NEW, IMPROVED, IMPROVED, IMPROVED]
    assert (await store.elites.get(subject[0], DEVICE, 1, 0)).bundle == "a"


@pytest.mark.parametrize("field", ["objective", "low", "mid", "high"])
@pytest.mark.parametrize("figure", [float("nan"), float("inf"), float("-inf")])
async def test_figures_are_finite(store: Store, subject: tuple[str, str], field: str, figure: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        await store.elites.offer(replace(offer(*subject), **{field: figure}))
    assert await store.elites.history(subject[0], DEVICE) == []


async def test_an_offer_about_nothing_leaves_nothing_behind(store: Store, subject: tuple[str, str]) -> None:
    with pytest.raises(RecordConflict):
        await store.elites.offer(offer(subject[0], "no such candidate"))
    with pytest.raises(RecordConflict):
        await store.elites.offer(offer("no such search", subject[1]))
    assert await store.elites.history(subject[0], DEVICE) == []


async def test_of_many_equals_one_gets_an_empty_cell(store: Store, database_url: str, subject: tuple[str, str]) -> None:
    placements = await at_once(store, database_url, [offer(*subject, 1.0) for _ in range(RIVALS)])
    assert Counter(placements) == {NEW: 1, REJECTED: RIVALS - 1}


async def test_of_many_confirmed_one_swaps(store: Store, database_url: str, subject: tuple[str, str]) -> None:
    holder = offer(*subject, 1.0)
    await store.elites.offer(holder)
    rivals = [offer(*subject, 1.0 + place, incumbent=holder.bundle) for place in range(RIVALS)]
    placements = await at_once(store, database_url, rivals)
    assert Counter(placements) == {IMPROVED: 1, STALE: RIVALS - 1}
    winner = rivals[placements.index(IMPROVED)]
    assert (await store.elites.get(subject[0], DEVICE, 1, 0)).bundle == winner.bundle


async def test_of_many_different_ones_the_best_stays(store: Store, database_url: str, subject: tuple[str, str]) -> None:
    placements = await at_once(store, database_url, [offer(*subject, 1.0 + place) for place in range(RIVALS)])
    elite = await store.elites.get(subject[0], DEVICE, 1, 0)
    assert elite.objective == RIVALS
    assert placements.count(NEW) == 1
    assert elite.revision == 1 + placements.count(IMPROVED)


async def test_one_job_sent_many_times_at_once_is_applied_once(
    store: Store, database_url: str, subject: tuple[str, str]
) -> None:
    placements = await at_once(store, database_url, [offer(*subject)] * RIVALS)
    assert placements == [NEW] * RIVALS
    assert len(await store.elites.history(subject[0], DEVICE)) == 1


async def at_once(store: Store, database_url: str, offers: list[Offer]) -> list[Placement]:
    """Send offers at the same time, half of them through a second store, as another process would."""
    other = await Store.open(database_url)
    stores = (store, other)
    placements = await asyncio.gather(*(stores[place % 2].elites.offer(each) for place, each in enumerate(offers)))
    await other.close()
    return placements


async def test_searches_devices_versions_and_cells_are_apart(store: Store, subject: tuple[str, str]) -> None:
    other = (await stored_search(store)).id
    search, candidate = subject
    for each in (
        offer(search, candidate),
        offer(other, candidate),
        offer(search, candidate, device="model:sm_80"),
        offer(search, candidate, axes_version=2),
        offer(search, candidate, cell=1),
    ):
        assert await store.elites.offer(each) is NEW
    assert [elite.cell for elite in await store.elites.list(search, DEVICE, 1)] == [0, 1]


async def test_a_job_may_be_offered_again_under_new_axes(store: Store, subject: tuple[str, str]) -> None:
    old = offer(*subject)
    assert await store.elites.offer(old) is NEW
    assert await store.elites.offer(replace(old, axes_version=2)) is NEW


async def test_the_best_is_that_of_the_present_axes(store: Store, subject: tuple[str, str]) -> None:
    search = subject[0]
    assert await store.elites.best(search, DEVICE) is None
    for cell, objective in enumerate([1.5, 3.0, 3.0, 2.0]):
        await store.elites.offer(offer(*subject, objective, cell=cell))
    await store.elites.offer(offer(*subject, 9.0, axes_version=2))
    best = await store.elites.best(search, DEVICE)
    assert best is not None and (best.objective, best.cell) == (3.0, 1)
    assert (await store.elites.progress(search, DEVICE, 12)).best == 3.0
    assert await store.elites.best(search, "model:sm_80") is None


async def test_history_keeps_every_offer_newest_first(store: Store, subject: tuple[str, str]) -> None:
    search = subject[0]
    offers = [offer(*subject, 1.0), offer(*subject, 0.5), offer(*subject, 2.0), offer(*subject, 1.0, cell=1)]
    offers.append(offer(*subject, 3.0, incumbent="somebody else"))
    for each in offers:
        await store.elites.offer(each)
    history = await store.elites.history(search, DEVICE)
    assert [record.job for record in history] == [each.job for each in reversed(offers)]
    assert [(record.placement, record.revision) for record in history] == [
        (STALE, None),
        (NEW, 1),
        (IMPROVED, 2),
        (REJECTED, None),
        (NEW, 1),
    ]
    assert [record.job for record in await store.elites.history(search, DEVICE, cell=1)] == [offers[3].job]
    page = await store.elites.history(search, DEVICE, limit=2, before=history[1].seq)
    assert page == history[2:4]


async def test_visits_start_at_none(store: Store, subject: tuple[str, str]) -> None:
    await store.elites.offer(offer(*subject, cell=5))
    assert await store.elites.visits(subject[0], DEVICE, 1) == {5: 0}


class Offers(RuleBasedStateMachine):
    """The archive against a dictionary: whatever is offered, in whatever order, both agree."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        super().__init__()
        self.runner, self.store = runner, store
        self.search = runner.run(stored_search(store)).id
        self.candidate = runner.run(stored_candidate(store, self.search))
        self.holders: dict[int, tuple[str, float, int]] = {}
        self.made: list[tuple[Offer, Placement]] = []

    def expected(self, made: Offer) -> Placement:
        holder = self.holders.get(made.cell)
        if made.incumbent == EMPTY_CELL:
            return STALE if holder else NEW
        if made.incumbent is not None:
            return IMPROVED if holder and holder[0] == made.incumbent else STALE
        if holder is None:
            return NEW
        return IMPROVED if made.objective > holder[1] else REJECTED

    def make(self, cell: int, objective: float, incumbent: str | None) -> None:
        made = offer(self.search, self.candidate, objective, cell=cell, incumbent=incumbent)
        placement = self.expected(made)
        assert self.runner.run(self.store.elites.offer(made)) is placement
        if placement in (NEW, IMPROVED):
            revision = self.holders[cell][2] + 1 if cell in self.holders else 1
            self.holders[cell] = (made.bundle, objective, revision)
        self.made.append((made, placement))

    @rule(cell=st.integers(0, CELLS - 1), objective=st.sampled_from([-1.0, 0.0, 1.0, 1.5, 2.0]))
    def challenge(self, cell: int, objective: float) -> None:
        self.make(cell, objective, None)

    @rule(cell=st.integers(0, CELLS - 1), objective=st.sampled_from([0.5, 3.0]), data=st.data())
    def confirm(self, cell: int, objective: float, data: st.DataObject) -> None:
        seen = [made.bundle for made, _ in self.made if made.cell == cell]
        self.make(cell, objective, data.draw(st.sampled_from([*seen[-4:], "nobody", EMPTY_CELL])))

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        made, placement = data.draw(st.sampled_from(self.made))
        assert self.runner.run(self.store.elites.offer(made)) is placement

    @invariant()
    def holders_agree(self) -> None:
        elites = self.runner.run(self.store.elites.list(self.search, DEVICE, 1))
        assert {elite.cell: (elite.bundle, elite.objective, elite.revision) for elite in elites} == self.holders

    @invariant()
    def history_agrees(self) -> None:
        history = self.runner.run(self.store.elites.history(self.search, DEVICE))
        assert [(record.job, record.placement) for record in reversed(history)] == [
            (made.job, placement) for made, placement in self.made
        ]

    @invariant()
    def progress_agrees(self) -> None:
        progress = self.runner.run(self.store.elites.progress(self.search, DEVICE, CELLS))
        objectives = [holder[1] for holder in self.holders.values()]
        assert progress.coverage == len(objectives) / CELLS
        assert progress.qd_score == sum(objectives)
        assert progress.best == max(objectives, default=None)
        promotions = sum(placement in (NEW, IMPROVED) for _, placement in self.made)
        assert progress.emitters["tune"]["promotions"] == promotions


def test_any_sequence_of_offers_agrees_with_a_dictionary(database_url: str) -> None:
    checks: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
    made: list[list[tuple[Offer, Placement]]] = []
    with asyncio.Runner() as runner:
        store = runner.run(Store.open(database_url))

        def begin() -> Offers:
            machine = Offers(runner, store)
            made.append(machine.made)
            return machine

        try:
            run_state_machine_as_test(begin, settings=settings(max_examples=15, stateful_step_count=20, **checks))
        finally:
            runner.run(store.close())
    assert any(made), "offers were made, and each was held against the dictionary"


async def test_the_version_changes_with_every_promotion_and_only_then(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    seen = [await store.elites.version(search, DEVICE, 1)]
    for cell, objective in [(0, 1.0), (0, 2.0), (1, 1.0)]:
        await store.elites.offer(offer(search, candidate, objective, cell=cell))
        seen.append(await store.elites.version(search, DEVICE, 1))
    assert len(set(seen)) == len(seen)
    await store.elites.offer(offer(search, candidate, 0.5, cell=0))
    assert await store.elites.version(search, DEVICE, 1) == seen[-1]


async def test_no_version_comes_again_when_a_cell_is_filled_after_a_withdrawal(
    store: Store, subject: tuple[str, str]
) -> None:
    made = offer(*subject, bundle="wrong")
    await store.elites.offer(made)
    before = await store.elites.version(subject[0], DEVICE, 1)
    assert await store.elites.withdraw(subject[0], DEVICE, "wrong", "final") == [made.cell]
    assert await store.elites.offer(offer(*subject, 2.0, cell=made.cell + 1, bundle="other")) is NEW
    assert await store.elites.version(subject[0], DEVICE, 1) != before


async def test_who_is_withdrawn_leaves_the_cell_empty_and_an_entry_behind(
    store: Store, subject: tuple[str, str]
) -> None:
    wrong, other = offer(*subject, cell=1, bundle="wrong"), offer(*subject, cell=2, bundle="other")
    for each in (wrong, other):
        await store.elites.offer(each)
    assert await store.elites.withdraw(subject[0], DEVICE, "wrong", "final") == [1]
    assert await store.elites.withdraw(subject[0], DEVICE, "wrong", "final") == []
    assert [elite.cell for elite in await store.elites.list(subject[0], DEVICE, 1)] == [2]
    last = (await store.elites.history(subject[0], DEVICE))[0]
    assert (last.placement, last.bundle, last.job, last.cell) == (Placement.WITHDRAWN, "wrong", "final", 1)
    assert await store.elites.offer(offer(*subject, 0.5, cell=1, incumbent=EMPTY_CELL)) is NEW


async def test_the_top_are_the_best_first(store: Store, subject: tuple[str, str]) -> None:
    for cell, objective in enumerate([1.5, 3.0, 2.0]):
        await store.elites.offer(offer(*subject, objective, cell=cell))
    assert [elite.cell for elite in await store.elites.top(subject[0], DEVICE, 1, 2)] == [1, 2]
    assert await store.elites.top(subject[0], "h200", 1, 2) == []
