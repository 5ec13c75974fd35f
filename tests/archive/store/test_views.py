from archive.records import AxisStride, SearchFilter, SearchResult, SearchVersion
from archive.store import Store
from tests.archive.samples import (
    DEVICE,
    new_candidate,
    new_report,
    new_variant,
    offer,
    stored_candidate,
    stored_search,
    traced,
)


async def test_marks_are_the_present_elites_best_first(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    for cell, objective in ((2, 1.25), (0, 3.0)):
        await store.elites.offer(offer(search, candidate, objective, cell=cell))
    await store.elites.offer(offer(search, candidate, 9.0, cell=1, axes_version=2))
    marks = await store.views.top_elites(search, DEVICE, 1, limit=9)
    assert [(mark.cell, mark.objective, mark.emitter) for mark in marks] == [(0, 3.0, "tune"), (2, 1.25, "tune")]
    assert [mark.cell for mark in await store.views.top_elites(search, DEVICE, 1, limit=1)] == [0]
    assert await store.views.top_elites(search, "h200", 1, limit=9) == []


async def test_places_hold_the_best_of_all_cells_that_fall_on_them(store: Store) -> None:
    """A grid of 2 by 3 by 2 cells, seen over its first two axes."""
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    for cell, objective in ((0, 1.5), (1, 2.5), (4, 3.0), (5, 3.0), (11, 0.5)):
        await store.elites.offer(offer(search, candidate, objective, cell=cell))
    await store.elites.offer(offer(search, candidate, 9.0, cell=0, axes_version=2))
    grid, first, second, third = (search, DEVICE, 1), AxisStride(6, 2), AxisStride(2, 3), AxisStride(1, 2)
    places = await store.views.places(grid, first, second)
    found = {(place.x, place.y): (place.held, place.mark.cell, place.mark.objective) for place in places}
    assert found == {(0, 0): (2, 1, 2.5), (0, 2): (2, 4, 3.0), (1, 2): (1, 11, 0.5)}
    sliced = await store.views.places(grid, first, second, [(third, 0)])
    assert {(place.x, place.y): place.mark.cell for place in sliced} == {(0, 0): 0, (0, 2): 4}
    flat = await store.views.places(grid, third, AxisStride(1, 1))
    assert {(place.x, place.y, place.held, place.mark.cell) for place in flat} == {(0, 0, 2, 4), (1, 0, 3, 5)}
    assert await store.views.places((search, "h200", 1), first, second) == []


async def test_shared_cells_are_those_that_both_have_filled(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    for version, cells in ((1, (0, 3, 4)), (2, (3, 4, 5))):
        for cell in cells:
            await store.elites.offer(offer(search, candidate, cell=cell, axes_version=version))
    assert await store.views.shared((search, DEVICE, 1), (search, DEVICE, 2)) == 2
    assert await store.views.shared((search, DEVICE, 1), (search, "h200", 1)) == 0


async def test_children_come_in_the_order_they_were_proposed(store: Store) -> None:
    search = (await stored_search(store)).id
    seed = await stored_candidate(store, search)
    children = [await stored_candidate(store, search, ordinal, parents=(seed,)) for ordinal in (1, 2, 3)]
    grandchild = await stored_candidate(store, search, 4, parents=(children[0], children[1], children[0]))
    found = await store.views.children(seed, 9)
    assert sorted(each.id for each in found) == sorted(children)
    assert {each.generation for each in found} == {-1}
    assert len(await store.views.children(seed, 2)) == 2
    assert [each.id for each in await store.views.children(children[0], 9)] == [grandchild]
    assert await store.views.children(grandchild, 9) == []


async def test_a_lineage_goes_back_generation_by_generation(store: Store) -> None:
    search = (await stored_search(store)).id
    seed = await stored_candidate(store, search)
    left = await stored_candidate(store, search, 1, parents=(seed,))
    right = await stored_candidate(store, search, 2, parents=(seed, left))
    child = await stored_candidate(store, search, 3, parents=(left, right))
    kin = {each.id: each.generation for each in await store.views.lineage((child,), 5)}
    assert kin == {child: 0, left: 1, right: 1, seed: 2}
    assert {each.id for each in await store.views.lineage((child,), 1)} == {child, left, right}
    assert await store.views.lineage(("nobody",), 3) == []


async def test_documents_come_by_job(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    report = new_report(search, candidate)
    await store.reports.save(report)
    assert await store.views.documents([report.job, "unknown"]) == {report.job: report.document}
    assert await store.views.documents([]) == {}


async def test_a_version_changes_with_whatever_is_told_of_a_search_and_with_nothing_else(store: Store) -> None:
    search, other = (await stored_search(store)).id, (await stored_search(store)).id
    seen: list[SearchVersion] = []

    async def look(changed: bool = True) -> None:
        found = await store.views.versions([search, other, "none"])
        assert found.keys() == {search, other}
        assert (found[search] not in seen) is changed, found[search]
        seen.append(found[search])

    await look()
    first, second = [await stored_candidate(store, search, ordinal) for ordinal in (0, 1)]
    await look()
    duplicate = new_candidate(search, 0, digest=(await store.candidates.get(second)).digest)
    assert await store.candidates.add(duplicate) is None
    await look()
    await store.candidates.save_trace(first, traced(new_variant()))
    await look()
    for objective in (2.0, 1.0):
        await store.elites.offer(offer(search, first, objective))
        await look()
    await store.candidates.judge(first, "correct", "", None, 2.0)
    await look()
    elite = await store.elites.get(search, DEVICE, 1, 0)
    assert await store.elites.withdraw(search, DEVICE, elite.bundle, "examined") == [0]
    await look()
    await store.searches.change(search, evaluations=7)
    await look()
    await stored_candidate(store, other, 0)
    await look(changed=False)
    assert (seen[-1].search, seen[-1].asks) == (search, False)


async def test_a_version_says_which_searches_ask_models(store: Store) -> None:
    asking = await stored_search(store, llm={"backend": "local"})
    assert (await store.views.versions([asking.id]))[asking.id].asks


async def test_results_of_searches_are_their_evaluations_and_best_objectives(store: Store) -> None:
    search, other = await stored_search(store), await stored_search(store)
    for ordinal, (device, objective) in enumerate((("model:sm_90", 1.5), ("model:sm_90", 1.25), ("h200", 1.0))):
        candidate = await stored_candidate(store, search.id, ordinal)
        await store.elites.offer(offer(search.id, candidate, objective, device=device, cell=ordinal))
        await store.elites.offer(offer(search.id, candidate, 9.0, device=device, cell=ordinal, axes_version=0))
    found = await store.views.results([search.id, other.id, "nothing"])
    assert found == {
        search.id: SearchResult(0, {"model:sm_90": 1.5, "h200": 1.0}),
        other.id: SearchResult(0, {}),
    }
    await store.searches.set_admitted(search.id, "the checks accept 'zeros'")
    assert (await store.views.results([search.id]))[search.id].best == {}
    first = await store.listings.searches(SearchFilter(), sort="-best")
    assert {each.id: each.admitted for each in first.items} == {search.id: "the checks accept 'zeros'", other.id: ""}
