from dataclasses import replace

import pytest

from archive.records import SearchState
from service.dashboard.charts import ProgressCharts
from service.dashboard.maps import MapView
from service.dashboard.rendering import PageFrame, render_fragment
from service.dashboard.search import EmitterTable, OutcomeTable, SearchStatus, actions_in, load_search
from service.evaluation.admissions import NOT_ADMITTED
from tests.archive.samples import new_candidate
from tests.service.dashboard.conftest import Filled, Hostile, Service
from tests.service.lineages import SEED, Made, stored

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "state, actions",
    [
        (SearchState.PREPARING, ["pause", "stop"]),
        (SearchState.RUNNING, ["pause", "stop"]),
        (SearchState.PAUSED, ["resume", "stop"]),
        (SearchState.DONE, []),
        (SearchState.FAILED, []),
    ],
)
async def test_only_what_can_be_done_is_offered(state: SearchState, actions: list[str]) -> None:
    assert [action for action, _ in actions_in(state)] == actions


async def test_the_parts_say_what_the_archive_holds(service: Service, filled: Filled) -> None:
    page = await load_search(service.coordinator, filled.search, MapView.of(filled.search, {}))
    status, charts, emitters, outcomes = (page.parts[name] for name in ("status", "charts", "emitters", "outcomes"))
    assert isinstance(status, SearchStatus) and status.best is not None
    assert (status.best.candidate, status.done, status.provenance) == (filled.best, 1.0, "predicted")
    assert [tab.device for tab in status.tabs] == list(filled.search.devices)
    assert isinstance(charts, ProgressCharts)
    assert [chart.title for chart in charts.charts] == ["Best speedup", "Coverage", "QD score"]
    assert charts.charts[0].now == "\u22481.50\u00d7"
    assert isinstance(emitters, EmitterTable) and [row.name for row in emitters.rows] == ["seed", "tune"]
    assert sum(row.share for row in emitters.rows) == pytest.approx(1.0)
    assert isinstance(outcomes, OutcomeTable)
    assert dict((name, times) for name, times, _ in outcomes.outcomes) == {"correct": 2, "compile_error": 1}


async def test_the_page_says_that_the_best_is_unexamined_and_what_time_is_left(
    service: Service, filled: Filled
) -> None:
    store, view = service.coordinator.store, MapView.of(filled.search, {})
    search = replace(filled.search, finishing=True)
    page = await load_search(service.coordinator, search, view)
    status, use = (render_fragment(page.parts[name], PageFrame()) for name in ("status", "use"))
    assert "over the seed kernel, unexamined" in status and "examining finalists 1 of 2" in status
    assert "The best kernel is unexamined: its examination as a finalist is still to come." in use
    assert " left" not in status
    running = replace(search, state=SearchState.RUNNING, finishing=False, stop={"seconds": 90})
    await store.searches.count_time([search.id], 30_000)
    page = await load_search(service.coordinator, running, view)
    assert "1 min 0 s left<" in render_fragment(page.parts["status"], PageFrame()).replace("\xa0", " ")


async def test_the_reason_of_an_end_is_an_error_only_if_the_search_failed(service: Service, filled: Filled) -> None:
    view, shown = MapView.of(filled.search, {}), {}
    for state in (SearchState.DONE, SearchState.PAUSED, SearchState.FAILED):
        search = replace(filled.search, state=state, reason="it has run for 60 s")
        page = await load_search(service.coordinator, search, view)
        said = render_fragment(page.parts["status"], PageFrame())
        shown[state] = said.partition(">it has run for 60 s<")[0].rpartition("<p class=")[2]
    assert [shown[state] for state in shown] == ['"notice plain"', '"notice"', '"notice bad"']


@pytest.mark.parametrize("reason", ["it has run for 60 s", f"{NOT_ADMITTED}: the checks accept 'ones'"])
async def test_kernels_of_an_operator_that_mutation_testing_fails_are_not_offered(
    service: Service, filled: Filled, reason: str
) -> None:
    search = replace(filled.search, state=SearchState.FAILED, reason=reason)
    page = await load_search(service.coordinator, search, MapView.of(search, {}))
    offered = "Use the result" in render_fragment(page.parts["use"], PageFrame())
    assert offered == (not reason.startswith(NOT_ADMITTED))


async def test_courses_may_run_along_the_time(service: Service, filled: Filled) -> None:
    page = await load_search(service.coordinator, filled.search, MapView.of(filled.search, {"along": "time"}))
    charts = page.parts["charts"]
    assert isinstance(charts, ProgressCharts) and charts.charts[0].end.endswith(" s")


async def test_what_people_said_and_what_models_cost_is_there(service: Service, hostile: Hostile) -> None:
    page = await load_search(service.coordinator, hostile.search, MapView.of(hostile.search, {}))
    guidance, spending = vars(page.parts["guidance"]), vars(page.parts["spending"])
    assert (len(guidance["pins"]), len(guidance["hints"]), guidance["open"]) == (1, 1, True)
    assert spending["asks"] is True


@pytest.mark.parametrize("screening", [True, False])
async def test_emitters_say_what_screening_brought(service: Service, screening: bool) -> None:
    store = service.coordinator.store
    search = await stored(store, (SEED, Made("gained", 8.0)), selection={"screening": screening})
    dropped = ("tune", "tune", "rewrite") if screening else ()
    assert await store.candidates.add(new_candidate(search.id, 2), screened=dropped) is not None
    page = await load_search(service.coordinator, search, MapView.of(search, {}))
    shown = render_fragment(page.parts["emitters"], PageFrame())
    said = (
        "skipped 3 edits. Of the recent proposals that it chose, 0 of 0 won a cell; of those made without it, 0 of 1."
    )
    assert (said in shown, "Screening" in shown) == (screening, screening)
