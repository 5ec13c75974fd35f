"""A search that cannot go on ends once, with the reason."""

import pytest

from archive.records import SearchState
from service.evaluation.failures import SearchFailures
from service.evaluation.reference_seed import ReferenceSeed
from tests.service.workbench import Workbench


@pytest.mark.parametrize("state", [SearchState.PREPARING, SearchState.PAUSED, SearchState.STOPPED])
async def test_open_searches_fail_and_ended_ones_stay(card: Workbench, state: SearchState) -> None:
    search = await card.begin(evaluations=2)
    if state is not SearchState.PREPARING:
        search = await card.store.searches.set_state(search.id, state)
    before = card.events.published
    failures = SearchFailures(card.store, card.events, ReferenceSeed(card.store))
    assert await failures.has_reference(search), "a seed without a verdict is not refused"
    await failures.fail(search, "no way on")
    ended = await card.store.searches.get(search.id)
    open_before = state is not SearchState.STOPPED
    assert (ended.state, ended.reason) == ((SearchState.FAILED, "no way on") if open_before else (state, ""))
    assert card.events.published - before == int(open_before)
