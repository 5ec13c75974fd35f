"""Reports are kept whole, once a job, and reused where they hold."""

import asyncio
from typing import Any

import pytest

from archive.errors import RecordConflict
from archive.store import ReportKey, Store
from tests.archive.samples import DEVICE, OPERATOR, new_report, stored_candidate, stored_search

KEY: dict[str, Any] = {"operator": OPERATOR, "bundle": "b" * 64, "device": DEVICE, "protocol_version": 1}


@pytest.fixture
async def subject(store: Store) -> tuple[str, str]:
    """A search and a candidate."""
    search = (await stored_search(store)).id
    return search, await stored_candidate(store, search)


async def test_a_job_has_one_report(store: Store, subject: tuple[str, str]) -> None:
    report = new_report(*subject)
    assert await store.reports.save(report) is True
    assert await store.reports.save(report) is False
    assert await store.reports.of_candidate(subject[1]) == [report.document]


async def test_what_judging_took_is_counted_once(store: Store, subject: tuple[str, str]) -> None:
    first, second = new_report(*subject), new_report(*subject)
    for report, taken_ms in ((first, 1500), (first, 1500), (second, 250)):
        await store.reports.save(report, taken_ms)
    assert (await store.candidates.count(subject[0])).device_ms == 1750


async def test_of_equal_reports_at_once_one_is_stored(store: Store, subject: tuple[str, str]) -> None:
    report = new_report(*subject)
    saved = await asyncio.gather(*(store.reports.save(report) for _ in range(10)))
    assert saved.count(True) == 1


async def test_a_candidates_reports_come_oldest_first(store: Store, subject: tuple[str, str]) -> None:
    reports = [new_report(*subject, variant=variant) for variant in (2, 0, 1)]
    for report in reports:
        await store.reports.save(report)
    assert await store.reports.of_candidate(subject[1]) == [report.document for report in reports]
    assert await store.reports.of_candidate("x") == []


async def test_reports_on_an_equal_bundle_come_oldest_first(store: Store, subject: tuple[str, str]) -> None:
    assert await store.reports.measures(ReportKey(**KEY)) == []
    first, second = new_report(*subject), new_report(*subject)
    await store.reports.save(first)
    await store.reports.save(second)
    assert await store.reports.measures(ReportKey(**KEY)) == [first.document, second.document]


@pytest.mark.parametrize(
    "field, other", [*[(key, "x") for key in KEY if key != "protocol_version"], ("protocol_version", 2)]
)
async def test_a_report_is_reused_for_equal_things_only(
    store: Store, subject: tuple[str, str], field: str, other: object
) -> None:
    await store.reports.save(new_report(*subject))
    assert await store.reports.measures(ReportKey(**{**KEY, field: other})) == []


@pytest.mark.parametrize("changes", [{"outcome": "worker_lost"}, {"outcome": "not_interpretable"}, {"kind": "confirm"}])
async def test_what_says_nothing_about_the_bundle_is_not_reused(
    store: Store, subject: tuple[str, str], changes: dict[str, Any]
) -> None:
    await store.reports.save(new_report(*subject, **changes))
    assert await store.reports.measures(ReportKey(**KEY)) == []


async def test_confirms_of_equal_bundles_come_oldest_first(store: Store, subject: tuple[str, str]) -> None:
    first, second = new_report(*subject, kind="confirm"), new_report(*subject, kind="confirm", outcome="wrong_result")
    others = [{"kind": "measure"}, {"kind": "confirm", "outcome": "worker_lost"}, {"kind": "confirm", "bundle": "x"}]
    for report in (first, *(new_report(*subject, **changes) for changes in others), second):
        await store.reports.save(report)
    assert await store.reports.confirms(ReportKey(**KEY)) == [first.document, second.document]
    assert await store.reports.confirms(ReportKey(**{**KEY, "device": "h200"})) == []


async def test_a_report_about_nothing_is_refused(store: Store, subject: tuple[str, str]) -> None:
    with pytest.raises(RecordConflict):
        await store.reports.save(new_report(subject[0], "no such candidate"))


async def test_finals_are_found_by_what_they_are_about_and_by_candidate(store: Store, subject: tuple[str, str]) -> None:
    final, lost = new_report(*subject, kind="final"), new_report(*subject, kind="final", outcome="worker_lost")
    for report in (new_report(*subject), lost, final):
        await store.reports.save(report)
    assert await store.reports.finals(ReportKey(**KEY)) == [final.document]
    assert await store.reports.finals(ReportKey(**{**KEY, "bundle": "c" * 64})) == []
    assert await store.reports.finals_on([subject[1], "x"]) == [lost.document, final.document]
    assert await store.reports.finals_on([]) == []


async def test_jobs_with_a_report_are_known(store: Store, subject: tuple[str, str]) -> None:
    report = new_report(*subject)
    await store.reports.save(report)
    assert await store.reports.known([report.job, "another"]) == {report.job}
    assert await store.reports.known([]) == frozenset()
