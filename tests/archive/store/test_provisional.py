"""Provisional holders: beside the elites, one per cell, and gone with one word, on both databases."""

from dataclasses import replace

import pytest

from archive.descriptors import coordinates
from archive.errors import RecordConflict
from archive.records import EMPTY_CELL, MeasuredBaselines, Offer, Placement, SearchState
from archive.store import Store
from tests.archive.samples import DEVICE, READINGS, new_variant, offer, stored_candidate, stored_search, traced

MARGIN = 0.005


@pytest.fixture
async def subject(store: Store) -> tuple[str, str]:
    """A search and a candidate."""
    search = (await stored_search(store)).id
    return search, await stored_candidate(store, search)


def challenge(subject: tuple[str, str], low: float, **changes: object) -> Offer:
    bounds = {"low": low, "mid": low + 0.1, "high": low + 0.2}
    return offer(*subject, low, **{**bounds, **changes})


async def test_a_cell_is_held_beside_its_elite(store: Store, subject: tuple[str, str]) -> None:
    elite, challenger = challenge(subject, 1.0), challenge(subject, 1.2)
    await store.elites.offer(elite)
    before = await store.elites.version(subject[0], DEVICE, 1)
    assert await store.provisional.hold(challenger, MARGIN) is Placement.PROVISIONAL
    assert await store.elites.version(subject[0], DEVICE, 1) != before
    [holder] = await store.provisional.list(subject[0], DEVICE, 1)
    assert (holder.bundle, holder.objective) == (challenger.bundle, 1.2)
    assert await store.provisional.get(subject[0], DEVICE, 1, 0) == holder
    assert await store.provisional.get(subject[0], DEVICE, 1, 1) is None
    best = await store.elites.best(subject[0], DEVICE)
    assert best is not None and best.bundle == elite.bundle
    assert [each.bundle for each in await store.elites.holders(subject[0], DEVICE, 1)] == [challenger.bundle]
    progress = await store.elites.progress(subject[0], DEVICE, 10)
    assert (progress.best, progress.elites) == (1.0, 1)
    assert progress.emitters[elite.emitter]["promotions"] == 1, "no credit without a confirm"


@pytest.mark.parametrize(
    ("low", "placement"), [(1.1, "rejected"), (1.1 * 1.005, "rejected"), (1.11, "provisional"), (0.9, "rejected")]
)
async def test_it_is_held_by_more_than_the_margin(
    store: Store, subject: tuple[str, str], low: float, placement: str
) -> None:
    await store.elites.offer(challenge(subject, 1.0))
    assert (await store.provisional.hold(challenge(subject, low), MARGIN)).value == placement
    other = challenge(subject, 1.0, cell=1)
    assert await store.provisional.hold(other, MARGIN) is Placement.PROVISIONAL
    assert (await store.provisional.hold(challenge(subject, low, cell=1), MARGIN)).value == placement
    history = await store.elites.history(subject[0], DEVICE)
    assert history[0].placement.value == placement and history[0].revision is None


async def test_a_job_is_decided_once(store: Store, subject: tuple[str, str]) -> None:
    first, second = challenge(subject, 1.0), challenge(subject, 2.0)
    await store.provisional.hold(first, MARGIN)
    await store.provisional.hold(second, MARGIN)
    assert await store.provisional.hold(first, MARGIN) is Placement.PROVISIONAL, "what it was told before"
    assert [each.bundle for each in await store.provisional.list(subject[0], DEVICE, 1)] == [second.bundle]
    assert len(await store.elites.history(subject[0], DEVICE)) == 2
    with pytest.raises(ValueError, match="finite"):
        await store.provisional.hold(replace(first, objective=float("nan")), MARGIN)
    with pytest.raises(RecordConflict):
        await store.provisional.hold(replace(first, search="nobody", job="other"), MARGIN)


@pytest.mark.parametrize("placement", [Placement.REJECTED, Placement.WITHDRAWN])
async def test_what_a_confirm_does_not_bear_out_is_given_back(
    store: Store, subject: tuple[str, str], placement: Placement
) -> None:
    elite, challenger = challenge(subject, 1.0), challenge(subject, 1.2)
    await store.elites.offer(elite)
    await store.provisional.hold(challenger, MARGIN)
    refused = replace(challenger, job="confirm", incumbent=elite.bundle)
    assert not await store.provisional.give_back(replace(refused, job="of another", bundle="b" * 64), placement, MARGIN)
    assert await store.provisional.give_back(refused, placement, MARGIN)
    assert not await store.provisional.give_back(refused, placement, MARGIN), "once is enough"
    assert await store.provisional.list(subject[0], DEVICE, 1) == []
    assert [each.bundle for each in await store.elites.list(subject[0], DEVICE, 1)] == [elite.bundle]
    assert (await store.elites.history(subject[0], DEVICE))[0].placement is placement
    assert await store.provisional.hold(challenger, MARGIN) is Placement.PROVISIONAL
    assert await store.provisional.list(subject[0], DEVICE, 1) == [], "the same job holds nothing again"


async def test_an_elite_ends_what_it_outdoes(store: Store, subject: tuple[str, str]) -> None:
    better = challenge(subject, 2.0, cell=1)
    mine, theirs = challenge(subject, 1.0), challenge(subject, 1.2, cell=1)
    for each in (mine, theirs, better):
        await store.provisional.hold(each, MARGIN)
    assert await store.elites.offer(replace(mine, job="c1", incumbent=EMPTY_CELL)) is Placement.NEW
    assert await store.elites.offer(replace(theirs, job="c2", incumbent=EMPTY_CELL)) is Placement.NEW
    assert [each.bundle for each in await store.provisional.list(subject[0], DEVICE, 1)] == [better.bundle]
    assert await store.elites.offer(challenge(subject, 1.9, cell=1, incumbent=theirs.bundle)) is Placement.IMPROVED
    assert await store.provisional.list(subject[0], DEVICE, 1) == []


async def test_what_a_finalist_is_found_wrong_by_holds_nothing(store: Store, subject: tuple[str, str]) -> None:
    challenger = challenge(subject, 1.2, cell=4)
    await store.provisional.hold(challenger, MARGIN)
    assert await store.elites.withdraw(subject[0], DEVICE, challenger.bundle, "final") == [4]
    assert await store.provisional.list(subject[0], DEVICE, 1) == []


async def test_figures_turn_with_those_of_the_elites(store: Store, subject: tuple[str, str]) -> None:
    await store.provisional.hold(challenge(subject, 1.0), MARGIN)
    await store.searches.relate(subject[0], DEVICE, MeasuredBaselines(low=0.5, mid=0.5, high=0.5))
    [holder] = await store.provisional.list(subject[0], DEVICE, 1)
    assert (holder.objective, holder.low, holder.mid) == pytest.approx((0.5, 0.5, 0.55))


async def test_it_is_deleted_with_its_search(store: Store, subject: tuple[str, str]) -> None:
    await store.provisional.hold(challenge(subject, 1.0), MARGIN)
    await store.searches.set_state(subject[0], SearchState.DONE)
    assert (await store.retention.delete(subject[0]))["provisional_holders"] == 1


async def _waiting(store: Store, search: str, ordinal: int, low: float, **changes: object) -> Offer:
    """Offer a traced candidate of its own its cell provisionally."""
    candidate = await stored_candidate(store, search, ordinal)
    bundle = str(changes.get("bundle", f"{ordinal:064x}"))
    await store.candidates.save_trace(candidate, traced(new_variant(bundle=bundle)))
    challenger = challenge((search, candidate), low, bundle=bundle)
    await store.provisional.hold(challenger, MARGIN)
    return challenger


async def test_a_cell_that_is_given_back_goes_to_the_best_that_the_holder_kept_out(
    store: Store, subject: tuple[str, str]
) -> None:
    search = subject[0]
    await store.elites.offer(challenge(subject, 0.9))
    followed = await _waiting(store, search, 1, 1.2)
    holder = await _waiting(store, search, 2, 2.0)
    kept_out, slower = await _waiting(store, search, 3, 1.5), await _waiting(store, search, 4, 0.95)
    wrong = await _waiting(store, search, 5, 1.7)
    await store.candidates.judge(wrong.candidate, "wrong_result", "", None, None)
    twin = await _waiting(store, search, 6, 1.9, bundle=holder.bundle)
    for refused, following in ((holder, kept_out), (kept_out, followed), (followed, None)):
        assert await store.provisional.give_back(replace(refused, job=f"{refused.job}:c"), Placement.REJECTED, MARGIN)
        held = await store.provisional.list(search, DEVICE, 1)
        assert [each.job for each in held] == ([] if following is None else [following.job])
    placed = {each.job: each.placement.value for each in await store.elites.history(search, DEVICE)}
    assert [placed[each.job] for each in (followed, kept_out, slower, wrong, twin)] == [
        *("provisional", "provisional"),
        *("rejected", "rejected", "rejected"),
    ]


async def test_a_holder_whose_confirm_finds_less_keeps_no_better_one_out(
    store: Store, subject: tuple[str, str]
) -> None:
    search = subject[0]
    lucky = await _waiting(store, search, 1, 2.0)
    kept_out, slower = await _waiting(store, search, 2, 1.5), await _waiting(store, search, 3, 1.05)
    confirm = challenge((search, lucky.candidate), 1.0, bundle=lucky.bundle, job="c1", incumbent=EMPTY_CELL)
    for _ in range(2):
        assert await store.provisional.promote(confirm, MARGIN) is Placement.NEW
        [held] = await store.provisional.list(search, DEVICE, 1)
        assert held.job == kept_out.job
    stale = replace(confirm, candidate=slower.candidate, bundle=slower.bundle, job="c2")
    assert await store.provisional.promote(stale, MARGIN) is Placement.STALE
    better = challenge((search, kept_out.candidate), 1.2, bundle=kept_out.bundle, job="c3", incumbent=lucky.bundle)
    assert await store.provisional.promote(better, MARGIN) is Placement.IMPROVED
    assert await store.provisional.list(search, DEVICE, 1) == [], "no former elite, and none that was slower"
    placed = {each.job: each.placement.value for each in await store.elites.history(search, DEVICE)}
    assert (placed[kept_out.job], placed[slower.job]) == ("provisional", "rejected")


async def test_a_former_elite_holds_nothing_again(store: Store, subject: tuple[str, str]) -> None:
    search = subject[0]
    seed = await stored_candidate(store, search, 1)
    await store.candidates.save_trace(seed, traced(new_variant(bundle="e" * 64)))
    elite = challenge((search, seed), 2.0, bundle="e" * 64, incumbent=EMPTY_CELL)
    assert await store.provisional.promote(elite, MARGIN) is Placement.NEW
    better = challenge(subject, 1.5, incumbent=elite.bundle)
    assert await store.provisional.promote(better, MARGIN) is Placement.IMPROVED, "side by side it was faster"
    assert await store.provisional.list(search, DEVICE, 1) == []


async def test_objectives_fall_with_the_holder_and_rise_with_the_next(store: Store, subject: tuple[str, str]) -> None:
    holder, kept_out = await _waiting(store, subject[0], 1, 2.0), await _waiting(store, subject[0], 2, 1.5)
    await store.provisional.give_back(replace(holder, job="confirm"), Placement.WITHDRAWN, MARGIN)
    [held] = await store.provisional.list(subject[0], DEVICE, 1)
    assert (held.bundle, held.candidate, held.objective, held.low, held.mid) == (
        *(kept_out.bundle, kept_out.candidate),
        *(kept_out.objective, kept_out.low, kept_out.mid),
    )
    assert held.coordinates == coordinates(READINGS)
    assert [each.objective for each in await store.elites.holders(subject[0], DEVICE, 1)] == [1.5]
