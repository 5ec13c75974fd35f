"""Operators by digest and by name."""

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.store import Store


async def test_an_operator_is_kept_once(store: Store) -> None:
    await store.operators.put("d1", "rmsnorm", '{"name": "rmsnorm"}')
    first = await store.operators.get("d1")
    await store.operators.put("d1", "rmsnorm", '{"name": "rmsnorm"}')
    assert await store.operators.get("d1") == first
    assert (first.digest, first.name, first.document) == ("d1", "rmsnorm", '{"name": "rmsnorm"}')


async def test_the_newest_of_a_name_is_the_latest(store: Store) -> None:
    for digest, name in [("d1", "rmsnorm"), ("d2", "softmax"), ("d3", "rmsnorm")]:
        await store.operators.put(digest, name, "{}")
    assert (await store.operators.latest("rmsnorm")).digest == "d3"
    assert [(record.name, record.digest) for record in await store.operators.list()] == [
        ("rmsnorm", "d3"),
        ("softmax", "d2"),
    ]


async def test_an_unknown_operator_is_not_found(store: Store) -> None:
    with pytest.raises(RecordNotFound, match="digest"):
        await store.operators.get("d9")
    with pytest.raises(RecordNotFound, match="gelu"):
        await store.operators.latest("gelu")
    assert await store.operators.list() == []


async def test_names_come_by_pages(store: Store) -> None:
    for digest, name in [("d1", "rmsnorm"), ("d2", "softmax"), ("d3", "gelu"), ("d4", "gelu")]:
        await store.operators.put(digest, name, "{}")
    first = await store.operators.list(limit=2)
    assert [(record.name, record.digest) for record in first] == [("gelu", "d4"), ("rmsnorm", "d1")]
    assert [record.name for record in await store.operators.list(limit=2, after="rmsnorm")] == ["softmax"]


async def test_the_last_mutation_report_is_kept(store: Store) -> None:
    await store.operators.put("d1", "rmsnorm", "{}")
    with pytest.raises(RecordNotFound, match="no mutation report yet"):
        await store.operators.mutation_report("d1")
    await store.operators.keep_mutation_report("d1", "untested", '{"verdict": "untested"}')
    await store.operators.keep_mutation_report("d1", "passed", '{"verdict": "passed"}')
    report = await store.operators.mutation_report("d1")
    assert (report.operator, report.verdict, report.document) == ("d1", "passed", '{"verdict": "passed"}')
    assert await store.operators.mutation_reports_of(["d1", "d9"]) == {"d1": report}
    assert await store.operators.mutation_reports_of([]) == {}
    with pytest.raises(RecordConflict):
        await store.operators.keep_mutation_report("d9", "passed", "{}")
