from archive.store import Store
from tests.archive.samples import DEVICE, new_report, offer, stored_candidate, stored_search


async def test_marks_are_the_present_elites_best_first(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    for cell, objective in ((2, 1.25), (0, 3.0)):
        await store.elites.offer(offer(search, candidate, objective, cell=cell))
    await store.elites.offer(offer(search, candidate, 9.0, cell=1, axes_version=2))
    marks = await store.views.marks(search, DEVICE, 1)
    assert [(mark.cell, mark.objective, mark.emitter) for mark in marks] == [(0, 3.0, "tune"), (2, 1.25, "tune")]
    assert await store.views.marks(search, "h200", 1) == []


async def test_sightings_are_newest_first_and_leave_the_source_out(store: Store) -> None:
    search = (await stored_search(store)).id
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(4)]
    await store.candidates.judge(ids[1], "precision", "too far off", 3, None)
    seen = await store.views.sightings(search, limit=2)
    assert [each.id for each in seen] == [ids[3], ids[2]]
    assert not hasattr(seen[0], "source")
    assert [each.id for each in await store.views.sightings(search, before=2)] == [ids[1], ids[0]]
    (judged,) = await store.views.sightings(search, outcome="precision")
    assert (judged.reason, judged.line, judged.state) == ("too far off", 3, "judged")


async def test_a_lineage_goes_back_generation_by_generation(store: Store) -> None:
    search = (await stored_search(store)).id
    seed = await stored_candidate(store, search)
    left = await stored_candidate(store, search, 1, parents=(seed,))
    right = await stored_candidate(store, search, 2, parents=(seed, left))
    child = await stored_candidate(store, search, 3, parents=(left, right))
    kin = {each.id: each.generation for each in await store.views.lineage(child, 5)}
    assert kin == {child: 0, left: 1, right: 1, seed: 2}
    assert {each.id for each in await store.views.lineage(child, 1)} == {child, left, right}
    assert await store.views.lineage("nobody", 3) == []


async def test_documents_come_by_job(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    report = new_report(search, candidate)
    await store.reports.save(report)
    assert await store.views.documents([report.job, "unknown"]) == {report.job: report.document}
    assert await store.views.documents([]) == {}
