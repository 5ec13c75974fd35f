"""Of several proposals the one is stored of which most is expected; what that saves can be told."""

import pytest

from archive.records import CandidateRecord, NewCandidate, SearchRecord
from archive.store import Store
from kernelreef.models import ScreeningReport
from service.emitters.bandit import ArmStats
from service.emitters.base import Edit, EmitterTrial, Parent
from service.emitters.cross import DEVICE
from service.generation.emitter_stats import EmitterStats
from service.generation.proposals import Proposer
from service.generation.screening import (
    RankedEdit,
    Screening,
    is_blind,
    screened_of,
    screening_report,
    trail_of,
)
from service.generation.surrogate import FEWEST
from tests.service import records
from tests.service.generation.making import OPERATOR, begin, elect, make
from tests.service.records import TUNABLE

ON, OFF = ({"bandit": True, "screening": screening} for screening in (True, False))


def text(warps: int, stages: int = 2) -> str:
    return TUNABLE.replace("num_warps=4", f"num_warps={warps}").replace("num_stages=2", f"num_stages={stages}")


async def judged(
    store: Store, search: SearchRecord, ordinal: int, warps: int, objective: float | None, parent: str = "p"
) -> None:
    id = f"{search.id}:{ordinal}"
    await store.candidates.add(
        NewCandidate(id, search.id, ordinal, "tune", text(warps, 1 + ordinal), id, id, (parent,), "num_warps")
    )
    await store.candidates.judge(id, "correct" if objective else "compile_error", "", None, objective)


def offers(*warps: int, parent: str = "p") -> list[RankedEdit]:
    start = Parent(parent, text(4))
    return [RankedEdit("tune", start, Edit(f"num_warps 4 -> {each}", (), {"num_warps": each})) for each in warps]


async def test_the_way_comes_first_that_did_best_in_this_search(store: Store) -> None:
    search, screen = await begin(store), Screening(store)
    offered = offers(16, 1, 4)
    assert await screen.rank(search, "sm_90", offered) == []
    for ordinal in range(FEWEST):
        warps = (1, 4, 16)[ordinal % 3]
        await judged(store, search, ordinal, warps, {1: 2.0, 4: 1.0, 16: None}[warps])
    ranked = await screen.rank(search, "sm_90", offered)
    assert [each.edit.values["num_warps"] for each in ranked] == [1, 4, 16]
    assert await Screening(store).rank(search, "sm_90", offered) == ranked  # What was remembered changes nothing.


async def test_a_way_that_was_gone_is_not_gone_again(store: Store) -> None:
    search = await begin(store)
    for ordinal in range(FEWEST):
        await judged(store, search, ordinal, (1, 4)[ordinal % 2], (2.0, 1.0)[ordinal % 2])
    gone = RankedEdit("tune", Parent("p", text(4)), Edit("num_warps", (), {"num_warps": 1}))
    ranked = await Screening(store).rank(search, "sm_90", [gone, *offers(2)])
    assert [each.edit.note for each in ranked] == ["num_warps 4 -> 2"]


async def test_ways_passed_over_are_counted_and_the_best_new_one_is_stored(store: Store) -> None:
    search = await begin(store, selection=ON)
    for ordinal in range(FEWEST):
        await judged(store, search, ordinal, (1, 4)[ordinal % 2], (2.0, 1.0)[ordinal % 2])
    await elect(store, search, f"{search.id}:1", 1.0, 3)
    ordinals = [number for number in range(FEWEST, 99) if not is_blind(search, number)][:2]
    proposer = Proposer(store)
    snapshot = proposer.look(search)
    made = [await proposer.propose(snapshot, OPERATOR, ordinal) for ordinal in ordinals]
    again = await Proposer(store).propose(Proposer(store).look(search), OPERATOR, ordinals[0])
    assert made[0] is not None and made[1] is not None and again == made[0]
    assert "num_warps=1," in made[0].proposal.source and made[0].proposal.source != made[1].proposal.source
    assert all(await proposer.keep_all(search, OPERATOR, [each for each in made if each]))
    progress = await store.elites.progress(search.id, records.DEVICE, 6)
    assert sum(counts.get("screened", 0) for counts in progress.emitters.values()) > 2 * len(made)
    assert (await store.candidates.count(search.id)).candidates == FEWEST + 2


async def test_a_search_that_screens_nothing_drops_nothing(store: Store) -> None:
    search = await begin(store, selection=OFF)
    for ordinal in range(FEWEST + 4):
        await judged(store, search, ordinal, (1, 4)[ordinal % 2], (2.0, 1.0)[ordinal % 2])
    await make(store, search, FEWEST + 4)
    progress = await store.elites.progress(search.id, records.DEVICE, 6)
    assert all("screened" not in counts for counts in progress.emitters.values())


async def test_a_trail_holds_rules_and_the_texts_that_no_rule_made(store: Store) -> None:
    search = await begin(store)

    async def came(ordinal: int, emitter: str, note: str) -> CandidateRecord:
        id = f"{search.id}:{ordinal}"
        found = await store.candidates.add(NewCandidate(id, search.id, ordinal, emitter, id, id, id, (), note))
        assert found is not None
        return found

    one, two = frozenset({"seed 0", "exp2"}), frozenset({"seed 0", "persistent"})
    assert trail_of(await came(0, "seed", "seed 0"), []) == {"seed 0"}
    assert trail_of(await came(1, "rewrite", "backward + exp2"), [two]) == two | {"backward", "exp2"}
    assert trail_of(await came(2, "tune", "num_warps 4 -> 8"), [one]) == one
    assert trail_of(await came(3, "cross", DEVICE), [one, two]) == one | two
    assert trail_of(await came(4, "cross", "num_warps 4 -> 8"), [one, two]) == one
    assert trail_of(await came(7, "llm", "a thought"), [one]) == one | {"llm 7"}


async def test_rules_are_known_along_the_whole_way_from_the_seed(store: Store) -> None:
    """Half of the candidates descend from one that a good rule made, half from one that a bad rule made."""
    search = await begin(store)
    for ordinal, (emitter, note) in enumerate([("rewrite", "exp2"), ("rewrite", "backward")]):
        new = NewCandidate(note, search.id, ordinal, emitter, f"{TUNABLE}\n# {note}", note, note, (), note)
        await store.candidates.add(new)
        await store.candidates.judge(note, "correct", "", None, 1.0)
    for ordinal in range(2, FEWEST + 6):
        parent, objective = (("exp2", 3.0), ("backward", 0.5))[ordinal % 2]
        await judged(store, search, ordinal, 4, objective, parent=parent)
    starts = [f"{search.id}:{ordinal}" for ordinal in (3, 2)]
    edit = Edit("num_warps 4 -> 8", (), {"num_warps": 8})
    offered = [RankedEdit("tune", Parent(start, text(4)), edit) for start in starts]
    ranked = await Screening(store).rank(search, "sm_90", offered)
    assert [each.parent.candidate for each in ranked] == starts[::-1]


def test_what_is_saved_is_told_by_those_that_were_stored_unseen() -> None:
    search = records.search()
    blind = [number for number in range(400) if is_blind(search, number)]
    later = [number for number in blind if number >= FEWEST]
    assert set(range(FEWEST)) <= set(blind) and 0.1 < len(later) / (400 - FEWEST) < 0.3
    chosen = [number for number in range(400) if number not in blind]
    trials = tuple(EmitterTrial("", "correct", 1.0, gain=0.1, ordinal=number) for number in (*blind[:40], *chosen[:20]))
    told = screening_report(search, EmitterStats({"tune": ArmStats()}, {"tune": trials}))
    assert (told.chosen, told.chosen_promotions, told.blind, told.blind_promotions) == (20, 20, 40, 40)


def test_savings_are_what_unseen_proposals_would_have_taken() -> None:
    told = screened_of([(True, at % 10 == 0) for at in range(40)] + [(False, at % 2 == 0) for at in range(20)])
    assert (told.chosen, told.chosen_promotions, told.blind, told.blind_promotions) == (20, 10, 40, 4)
    assert told.saved == pytest.approx(10 / 0.1 - 20)


@pytest.mark.parametrize("tried", [[], [(False, True)], [(True, False), (False, True)]])
def test_nothing_is_told_before_an_unseen_one_won(tried: list[tuple[bool, bool]]) -> None:
    assert screened_of(tried).saved is None


def test_screening_may_lose_evaluations() -> None:
    assert screened_of([(True, True), (False, False)]).saved == -1.0


def test_savings_are_said_in_words() -> None:
    told = ScreeningReport(chosen=1200, chosen_promotions=30, blind=40, blind_promotions=0, saved=None)
    assert told.in_words(1234) == (
        "Screening skipped 1,234 edits. Of the recent proposals that it chose, 30 of 1,200 won a cell; "
        "of those made without it, 0 of 40."
    )
    assert told.model_copy(update={"saved": 79.6}).in_words(0).endswith("0 of 40: 80 evaluations saved.")
    assert told.model_copy(update={"saved": -79.6}).in_words(0).endswith("0 of 40: 80 evaluations lost.")
