"""No query scans a table that grows with the number of candidates."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from archive import records, tables
from archive.records import SearchState
from archive.store import Store
from archive.store.engine import Database
from tests.archive.samples import DEVICE, new_report, new_variant, offer, stored_candidate, stored_search, traced

QUERIES: dict[str, Callable[[Store, str, str], Awaitable[object]]] = {
    "operators.get": lambda store, search, candidate: store.operators.get("0" * 64),
    "operators.latest": lambda store, search, candidate: store.operators.latest("rmsnorm"),
    "searches.get": lambda store, search, candidate: store.searches.get(search),
    "searches.list": lambda store, search, candidate: store.searches.list(states=[SearchState.RUNNING], before="x"),
    "searches.set_state": lambda store, search, candidate: store.searches.set_state(search, SearchState.RUNNING),
    "candidates.get": lambda store, search, candidate: store.candidates.get(candidate),
    "candidates.list": lambda store, search, candidate: store.candidates.list(search, before=candidate),
    "candidates.list of one outcome": lambda store, search, candidate: store.candidates.list(search, outcome="correct"),
    "candidates.unfinished": lambda store, search, candidate: store.candidates.unfinished(search),
    "candidates.seeds": lambda store, search, candidate: store.candidates.seeds(search),
    "candidates.count": lambda store, search, candidate: store.candidates.count(search),
    "candidates.find_traced": lambda store, search, candidate: store.candidates.find_traced("key"),
    "candidates.variants": lambda store, search, candidate: store.candidates.variants(candidate),
    "candidates.trials": lambda store, search, candidate: store.candidates.trials(search, "tune"),
    "candidates.judge": lambda store, search, candidate: store.candidates.judge(candidate, "correct", "", None, 1.0),
    "candidates.save_trace": lambda store, search, candidate: store.candidates.save_trace(
        candidate, traced(new_variant())
    ),
    "bundles.get": lambda store, search, candidate: store.bundles.get("0" * 64),
    "reports.find": lambda store, search, candidate: store.reports.find(
        operator="o", bundle="b", device=DEVICE, protocol_version=1
    ),
    "reports.of_candidate": lambda store, search, candidate: store.reports.of_candidate(candidate),
    "elites.offer": lambda store, search, candidate: store.elites.offer(offer(search, candidate)),
    "elites.offer against an incumbent": lambda store, search, candidate: store.elites.offer(
        offer(search, candidate, incumbent="b")
    ),
    "elites.list": lambda store, search, candidate: store.elites.list(search, DEVICE, 1),
    "elites.get": lambda store, search, candidate: store.elites.get(search, DEVICE, 1, 0),
    "elites.best": lambda store, search, candidate: store.elites.best(search, DEVICE),
    "elites.visits": lambda store, search, candidate: store.elites.visits(search, DEVICE, 1),
    "elites.history": lambda store, search, candidate: store.elites.history(search, DEVICE, before=9),
    "elites.history of a cell": lambda store, search, candidate: store.elites.history(search, DEVICE, cell=0),
    "elites.progress": lambda store, search, candidate: store.elites.progress(search, DEVICE, 12),
}


@pytest.fixture
def statements() -> Iterator[list[tuple[str, Any]]]:
    """What was sent to any database, with its parameters."""
    sent: list[tuple[str, Any]] = []

    def note(connection: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        if statement.startswith(("SELECT", "UPDATE", "INSERT")):
            sent.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


async def test_every_query_uses_an_index(database_url: str, statements: list[tuple[str, Any]]) -> None:
    database = Database.open(database_url)
    store = Store(database)
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    await store.candidates.save_trace(candidate, traced(new_variant()))
    await store.reports.save(new_report(search, candidate))
    await store.elites.offer(offer(search, candidate))
    scans = {}
    for name, query in QUERIES.items():
        statements.clear()
        await query(store, search, candidate)
        assert statements, name
        plans = [await explain(database, *statement) for statement in list(statements)]
        if found := [line for plan in plans for line in plan if is_costly(line)]:
            scans[name] = found
    await database.close()
    assert scans == {}


def is_costly(line: str) -> bool:
    """Whether a step of a plan reads a whole table, or sorts all it found."""
    return line.startswith("SCAN ") or "Seq Scan" in line or line == "USE TEMP B-TREE FOR ORDER BY"


@pytest.mark.parametrize(
    "line, costly",
    [
        ("SCAN candidates", True),
        ("Seq Scan on candidates  (cost=0.00..1.01 rows=1 width=8)", True),
        ("USE TEMP B-TREE FOR ORDER BY", True),
        ("USE TEMP B-TREE FOR RIGHT PART OF ORDER BY", False),
        ("SEARCH candidates USING INDEX ix_candidates_trace_key (trace_key=?)", False),
    ],
)
def test_costly_plans_are_told_apart(line: str, costly: bool) -> None:
    assert is_costly(line) is costly


async def explain(database: Database, statement: str, parameters: Any) -> list[str]:
    """Lines of the plan that the database makes for a statement; sequential scans only where nothing else will do."""
    async with database.read() as connection:
        if connection.dialect.name == "sqlite":
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return [row.detail for row in plan]
        await connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
        return [row[0] for row in plan]


@pytest.mark.parametrize(
    "table, record",
    [
        (tables.operators, records.OperatorRecord),
        (tables.searches, records.Search),
        (tables.counters, records.SearchCounts),
        (tables.candidates, records.Candidate),
        (tables.variants, records.Variant),
        (tables.bundles, records.BundleRecord),
        (tables.reports, records.NewReport),
        (tables.elites, records.Elite),
        (tables.placements, records.PlacementRecord),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_columns_are_named_like_the_fields_of_records(table: Any, record: type) -> None:
    assert {field.name for field in fields(record)} <= set(table.c.keys())
