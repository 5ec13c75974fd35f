"""A whole search is gone through in the order of its proposals, a page at a time."""

from archive.records import LlmReply
from archive.store import Store
from tests.archive.samples import (
    READINGS,
    new_exchange,
    new_report,
    new_variant,
    stored_candidate,
    stored_search,
    traced,
)


async def test_judged_candidates_come_in_order_by_pages(store: Store) -> None:
    search = (await stored_search(store)).id
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(5)]
    for id in ids[:3] + ids[4:]:
        await store.candidates.judge(id, "correct", "", None, 1.0)
    first = await store.lineage.judged(search, limit=2)
    rest = await store.lineage.judged(search, after=first[-1].ordinal)
    assert [candidate.id for candidate in first + rest] == [*ids[:3], ids[4]]
    assert await store.lineage.judged("x") == []


async def test_candidates_are_found_by_id(store: Store) -> None:
    search = (await stored_search(store)).id
    id = await stored_candidate(store, search)
    assert await store.lineage.candidates([id, "x"]) == {id: await store.candidates.get(id)}


async def test_what_was_said_comes_by_candidate(store: Store) -> None:
    search = (await stored_search(store)).id
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(3)]
    said = [new_report(search, ids[index]) for index in (0, 1, 0)]
    for report in said:
        await store.reports.save(report)
    found = await store.lineage.reports(ids)
    first, second, third = ({each.job: each.document} for each in said)
    assert found == {ids[0]: {**first, **third}, ids[1]: second, ids[2]: {}}
    assert list(found[ids[0]]) == [said[0].job, said[2].job], "oldest first"


async def test_variants_and_readings_come_together(store: Store) -> None:
    search = (await stored_search(store)).id
    id = await stored_candidate(store, search)
    await store.candidates.save_trace(id, traced(new_variant(0), new_variant(1)))
    variants = await store.lineage.variants([id])
    assert {key: variant.index for key, variant in variants.items()} == {(id, 0): 0, (id, 1): 1}
    bundle = variants[id, 0].bundle
    assert bundle is not None
    assert await store.lineage.readings([bundle, "x"]) == {bundle: (READINGS,)}


async def test_exchanges_come_with_the_proposal_and_with_what_they_led_to(store: Store) -> None:
    search = (await stored_search(store)).id
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(3)]
    first, second = await _asked(store, search, 1, 0), await _asked(store, search, 1, 1)
    await store.exchanges.conclude(first, "candidate", candidate=ids[2])
    found = await store.lineage.exchanges(search, list((await store.lineage.candidates(ids)).values()))
    assert {id: [exchange.id for exchange in asked] for id, asked in found.items()} == {
        ids[1]: [first, second],
        ids[2]: [first],
    }


async def _asked(store: Store, search: str, ordinal: int, step: int) -> str:
    """Id of an answered exchange."""
    asked = await store.exchanges.open(new_exchange(search, ordinal, step=step))
    await store.exchanges.answer(asked.id, LlmReply("", "", 0, 0, None))
    return asked.id
