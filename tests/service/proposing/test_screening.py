"""Of several proposals the one is stored of which most is expected; what that saves can be told."""

from archive.records import NewCandidate, Search
from archive.store import Store
from service.emitters.bandit import Account
from service.emitters.base import Proposal, Trial
from service.proposing import screening
from service.proposing.ledger import Ledger
from service.proposing.screening import Offered, Screening, is_blind, moves_of, tell
from service.proposing.worth import FEWEST
from tests.service import records
from tests.service.proposing.making import begin, make
from tests.service.searching.test_evolution import TUNABLE

ON = {"bandit": True, "screening": True}


def text(warps: int, stages: int = 2) -> str:
    return TUNABLE.replace("num_warps=4", f"num_warps={warps}").replace("num_stages=2", f"num_stages={stages}")


async def judged(store: Store, search: Search, ordinal: int, warps: int, objective: float | None) -> None:
    id = f"{search.id}:{ordinal}"
    await store.candidates.add(
        NewCandidate(id, search.id, ordinal, "tune", text(warps, 1 + ordinal), id, id, ("p",), "num_warps")
    )
    await store.candidates.judge(id, "correct" if objective else "compile_error", "", None, objective)


async def test_the_proposal_is_chosen_that_does_best_in_this_search(store: Store) -> None:
    search, screen = await begin(store), Screening(store)
    offered = [Offered("tune", Proposal(text(warps), ("p",), "num_warps")) for warps in (16, 1, 4)]
    assert await screen.choose(search, "sm_90", offered) is None
    for ordinal in range(FEWEST):
        warps = (1, 4, 16)[ordinal % 3]
        await judged(store, search, ordinal, warps, {1: 2.0, 4: 1.0, 16: None}[warps])
    assert await screen.choose(search, "sm_90", offered) == 1
    assert await Screening(store).choose(search, "sm_90", offered) == 1  # What was remembered changes nothing.


async def test_what_was_dropped_is_counted_and_one_is_stored(store: Store) -> None:
    search = await begin(store, choosing=ON)
    for ordinal in range(FEWEST):
        await judged(store, search, ordinal, (1, 4)[ordinal % 2], (2.0, 1.0)[ordinal % 2])
    ordinal = next(number for number in range(FEWEST, 99) if not is_blind(search, number))
    candidate = await make(store, search, ordinal)
    progress = await store.elites.progress(search.id, records.DEVICE, 6)
    assert candidate is not None
    assert 1 <= sum(counts.get("screened", 0) for counts in progress.emitters.values()) < screening.CHOICES
    assert (await store.candidates.count(search.id)).candidates == FEWEST + 1


async def test_a_search_that_screens_nothing_drops_nothing(store: Store) -> None:
    search = await begin(store)
    for ordinal in range(FEWEST + 4):
        await judged(store, search, ordinal, (1, 4)[ordinal % 2], (2.0, 1.0)[ordinal % 2])
    await make(store, search, FEWEST + 4)
    progress = await store.elites.progress(search.id, records.DEVICE, 6)
    assert all("screened" not in counts for counts in progress.emitters.values())


def test_moves_are_rules_or_the_emitter() -> None:
    assert moves_of("rewrite", "exp2 + backward") == ["exp2", "backward"]
    assert moves_of("tune", "num_warps 4 -> 8") == ("tune",)


def test_what_is_saved_is_told_by_those_that_were_stored_unseen() -> None:
    search = records.search()
    blind = [number for number in range(400) if is_blind(search, number)]
    later = [number for number in blind if number >= FEWEST]
    assert set(range(FEWEST)) <= set(blind) and 0.1 < len(later) / (400 - FEWEST) < 0.3
    chosen = [number for number in range(400) if number not in blind]
    trials = tuple(Trial("", "correct", 1.0, gain=0.1, ordinal=number) for number in (*blind[:40], *chosen[:20]))
    told = tell(search, Ledger({"tune": Account()}, {"tune": trials}))
    assert (told.chosen, told.chosen_promotions, told.blind, told.blind_promotions) == (20, 20, 40, 40)
