"""Entries say what all their findings say together; to ask a search again changes nothing."""

import asyncio
from dataclasses import replace

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.records import ImportedEntryRecord, KnowledgeFindingRecord, KnowledgeState, NewKnowledgeEntry, SearchState
from archive.store import Store
from tests.archive.samples import DEVICE, stored_search

ENDED = (SearchState.DONE, SearchState.STOPPED)
ENTRY = NewKnowledgeEntry(
    move="num_warps down",
    traits=("reduction", "rows:long", "dtype:bfloat16"),
    bottleneck="memory",
    device=DEVICE,
    sentence="Fewer warps helped.",
)


def finding(search: str, **changes: object) -> KnowledgeFindingRecord:
    values: dict[str, object] = {
        "search": search,
        "operator": "rmsnorm",
        "successes": 2,
        "failures": 1,
        "low": 1.2,
        "mid": 1.3,
        "high": 1.4,
        "jobs": ("child", "parent"),
        "before": {"num_warps": 8},
        "after": {"num_warps": 4},
        "example": "num_warps 8 -> 4",
    }
    return KnowledgeFindingRecord(**{**values, **changes})  # type: ignore[arg-type]


async def learn(
    store: Store, *lessons: tuple[NewKnowledgeEntry, KnowledgeFindingRecord], **carried: tuple[int, int]
) -> str:
    """Id of a search that taught this."""
    search = (await stored_search(store)).id
    taught = [(entry, replace(found, search=search)) for entry, found in lessons]
    await store.knowledge.learn(search, "rmsnorm", taught, carried)
    return search


async def test_an_entry_is_kept_with_its_evidence(store: Store) -> None:
    search = await learn(store, (ENTRY, finding("")))
    known = await store.knowledge.get(ENTRY.id)
    assert (known.move, known.traits, known.sentence) == (ENTRY.move, ENTRY.traits, ENTRY.sentence)
    assert (known.successes, known.failures, known.low, known.jobs) == (2, 1, 1.2, ("child", "parent"))
    assert (known.before, known.after) == ({"num_warps": 8}, {"num_warps": 4})
    assert (known.state, known.held) == (KnowledgeState.ACTIVE, False)
    assert known.worth > 0
    assert await store.knowledge.findings(ENTRY.id) == [finding(search)]
    assert (await store.knowledge.named_by(search), await store.knowledge.named_by("x")) == (1, 0)


async def test_to_learn_the_same_again_changes_nothing(store: Store) -> None:
    search = await learn(store, (ENTRY, finding("")))
    first = await store.knowledge.get(ENTRY.id)
    await store.knowledge.learn(search, "rmsnorm", [(ENTRY, finding(search))], {})
    again = await store.knowledge.get(ENTRY.id)
    assert replace(again, updated_at=first.updated_at) == first


async def test_searches_add_up_and_the_best_gain_is_shown(store: Store) -> None:
    await learn(store, (ENTRY, finding("")))
    await learn(store, (ENTRY, finding("", successes=3, low=1.5, mid=1.6, high=1.7, example="num_warps 16 -> 4")))
    known = await store.knowledge.get(ENTRY.id)
    assert (known.successes, known.failures) == (5, 2)
    assert (known.low, known.example) == (1.5, "num_warps 16 -> 4")


async def test_searches_that_teach_at_once_all_count(store: Store) -> None:
    searches = [(await stored_search(store)).id for _ in range(8)]
    other = replace(ENTRY, move="BLOCK up")
    await asyncio.gather(
        *(
            store.knowledge.learn(id, "rmsnorm", [(entry, finding(id)) for entry in (ENTRY, other)], {})
            for id in searches
        )
    )
    assert {(await store.knowledge.get(entry.id)).successes for entry in (ENTRY, other)} == {16}


async def test_prompts_that_carried_an_entry_credit_it(store: Store) -> None:
    await learn(store, (ENTRY, finding("")))
    search = await learn(store, **{ENTRY.id: (1, 4), "no such entry": (9, 9)})
    await store.knowledge.learn(search, "rmsnorm", [], {ENTRY.id: (1, 4)})
    known = await store.knowledge.get(ENTRY.id)
    assert (known.successes, known.failures, known.wins, known.losses) == (2, 1, 1, 4)
    assert known.low == 1.2


async def test_what_does_not_pay_retires_and_may_come_back(store: Store) -> None:
    await learn(store, (ENTRY, finding("", successes=1, failures=0)))
    await learn(store, **{ENTRY.id: (0, 60)})
    assert (await store.knowledge.get(ENTRY.id)).state is KnowledgeState.RETIRED
    assert await store.knowledge.find(ENTRY.traits, None, (DEVICE,), 5) == []
    await learn(store, (ENTRY, finding("", successes=40)))
    assert (await store.knowledge.get(ENTRY.id)).state is KnowledgeState.ACTIVE


async def test_what_a_person_decided_stays(store: Store) -> None:
    await learn(store, (ENTRY, finding("")))
    edited = await store.knowledge.edit(ENTRY.id, sentence="Mind the warps.", state=KnowledgeState.RETIRED)
    assert (edited.sentence, edited.state, edited.held) == ("Mind the warps.", KnowledgeState.RETIRED, True)
    await learn(store, (ENTRY, finding("", successes=40)))
    known = await store.knowledge.get(ENTRY.id)
    assert (known.sentence, known.state, known.successes) == ("Mind the warps.", KnowledgeState.RETIRED, 42)


async def test_a_sentence_alone_does_not_hold_the_state(store: Store) -> None:
    await learn(store, (ENTRY, finding("")))
    assert (await store.knowledge.edit(ENTRY.id, sentence="Mind.")).held is False


async def test_what_is_not_there_cannot_be_changed(store: Store) -> None:
    with pytest.raises(RecordNotFound):
        await store.knowledge.get("x")
    with pytest.raises(RecordNotFound):
        await store.knowledge.edit("x", state=KnowledgeState.RETIRED)
    with pytest.raises(RecordConflict):
        await store.knowledge.learn("no such search", "rmsnorm", [], {})


async def test_entries_are_handed_in_from_elsewhere(store: Store) -> None:
    given = ImportedEntryRecord(replace(ENTRY, sentence="From afar."), findings=(finding("a search elsewhere"),))
    await store.knowledge.put([given])
    await store.knowledge.put([given])
    await store.knowledge.put(
        [ImportedEntryRecord(replace(ENTRY, move="by hand"), state=KnowledgeState.RETIRED, held=True)]
    )
    known = await store.knowledge.get(ENTRY.id)
    assert (known.sentence, known.successes, known.state) == ("From afar.", 2, KnowledgeState.ACTIVE)
    by_hand = await store.knowledge.get(replace(ENTRY, move="by hand").id)
    assert (by_hand.state, by_hand.low) == (KnowledgeState.RETIRED, None)


async def test_the_most_fitting_come_first(store: Store) -> None:
    def about(move: str, **changes: object) -> NewKnowledgeEntry:
        return replace(ENTRY, move=move, **changes)  # type: ignore[arg-type]

    near = about("same in all")
    weak = about("same, of less worth")
    bound = about("another bottleneck", bottleneck="compute")
    card = about("another device", device="h200")
    short = about("another row", traits=("reduction", "rows:short", "dtype:bfloat16"))
    strange = about("another kind", traits=("matmul", "rows:long", "dtype:bfloat16"))
    lessons = [(entry, finding("")) for entry in (strange, short, card, bound, near)]
    await learn(store, *lessons, (weak, finding("", low=1.01)))
    found = await store.knowledge.find(ENTRY.traits, "memory", (DEVICE, "h200"), 10)
    assert [entry.move for entry in found] == [entry.move for entry in (near, weak, card, bound, short)]
    assert [entry.move for entry in await store.knowledge.find(ENTRY.traits, "memory", (DEVICE,), 1)] == [near.move]
    assert await store.knowledge.find(("gather",), "memory", (DEVICE,), 10) == []


async def test_a_list_is_paged_by_worth(store: Store) -> None:
    lessons = [(replace(ENTRY, move=f"move {number}"), finding("", low=(11 + number) / 10)) for number in range(5)]
    await learn(store, *lessons, (replace(ENTRY, move="twin"), finding("", low=1.1)))
    everything = await store.knowledge.list()
    assert [entry.low for entry in everything] == [1.5, 1.4, 1.3, 1.2, 1.1, 1.1]
    paged, after = [], None
    while page := await store.knowledge.list(limit=2, after=after):
        paged += page
        after = (page[-1].worth, page[-1].id)
    assert paged == everything
    await store.knowledge.edit(everything[0].id, state=KnowledgeState.RETIRED)
    assert [entry.low for entry in await store.knowledge.list(state=KnowledgeState.RETIRED)] == [1.5]


async def test_ended_searches_that_were_never_asked_are_found(store: Store) -> None:
    asked, missed, running = [(await stored_search(store)).id for _ in range(3)]
    for id in (asked, missed):
        await store.searches.set_state(id, SearchState.DONE)
    await store.searches.set_state(running, SearchState.RUNNING)
    await store.knowledge.learn(asked, "rmsnorm", [], {})
    assert await store.knowledge.undistilled(ENDED) == [missed]
    assert await store.knowledge.undistilled((SearchState.STOPPED,)) == []


async def test_hostile_text_is_kept_without_harm(store: Store) -> None:
    hostile = replace(ENTRY, move="a\0b\ud800", sentence="'; DROP TABLE knowledge; --\0")
    await learn(store, (hostile, finding("", example="\0")))
    (known,) = await store.knowledge.list()
    assert "\0" not in known.move + known.sentence + known.example
