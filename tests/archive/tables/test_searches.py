"""No query scans a table that grows with the number of candidates."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from archive import records, tables
from archive.records import AxisStride, CandidateVerdict, NewHint, NewPin, RemoteWorkerState, SearchState
from archive.store import ReportKey, Store
from archive.store.engine import Database
from tests.archive import access, listing, prompting
from tests.archive.samples import AXES, DEVICE, new_report, new_variant, offer, stored_candidate, stored_search, traced

QUERIES: dict[str, Callable[[Store, str, str], Awaitable[object]]] = {
    "operators.get": lambda store, search, candidate: store.operators.get("0" * 64),
    "operators.latest": lambda store, search, candidate: store.operators.latest("rmsnorm"),
    "searches.get": lambda store, search, candidate: store.searches.get(search),
    "searches.list": lambda store, search, candidate: store.searches.list(states=[SearchState.RUNNING]),
    "searches.label": lambda store, search, candidate: store.searches.label(search, name="x", tags=["y"]),
    **listing.QUERIES,
    "searches.change": lambda store, search, candidate: store.searches.change(search, evaluations=7, priority=2),
    "operators.mutation_report": lambda store, search, candidate: store.operators.mutation_report("0" * 64),
    "operators.gates": lambda store, search, candidate: store.operators.mutation_reports_of(["0" * 64, "1" * 64]),
    "searches.count_time": lambda store, search, candidate: store.searches.count_time([search, "x"], 5),
    "searches.set_state": lambda store, search, candidate: store.searches.set_state(search, SearchState.RUNNING),
    "candidates.get": lambda store, search, candidate: store.candidates.get(candidate),
    "candidates.list": lambda store, search, candidate: store.candidates.list(search, before=candidate),
    "candidates.list of one outcome": lambda store, search, candidate: store.candidates.list(search, outcome="correct"),
    "candidates.list of one emitter": lambda store, search, candidate: store.candidates.list(search, emitter="tune"),
    "candidates.unfinished": lambda store, search, candidate: store.candidates.unfinished(search),
    "candidates.seeds": lambda store, search, candidate: store.candidates.seeds(search),
    "candidates.count": lambda store, search, candidate: store.candidates.count(search),
    "candidates.find_traced": lambda store, search, candidate: store.candidates.find_traced("key"),
    "candidates.variants": lambda store, search, candidate: store.candidates.variants(candidate),
    "candidates.trials": lambda store, search, candidate: store.candidates.trials(search, "tune"),
    "candidates.latest": lambda store, search, candidate: store.candidates.latest(search, 9),
    "candidates.known_digests": lambda store, search, candidate: store.candidates.known_digests(search, ["d", "e"]),
    "candidates.judge": lambda store, search, candidate: store.candidates.judge(candidate, "correct", "", None, 1.0),
    "candidates.save_trace": lambda store, search, candidate: store.candidates.save_trace(
        candidate, traced(new_variant())
    ),
    "bundles.get": lambda store, search, candidate: store.bundles.get("0" * 64),
    "reports.measures": lambda store, search, candidate: store.reports.measures(ReportKey("o", "b", DEVICE, 1)),
    "reports.finals": lambda store, search, candidate: store.reports.finals(ReportKey("o", "b", DEVICE, 1)),
    "reports.finals_on": lambda store, search, candidate: store.reports.finals_on([candidate, "x"]),
    "elites.withdraw": lambda store, search, candidate: store.elites.withdraw(search, DEVICE, "b", "job"),
    "reports.known": lambda store, search, candidate: store.reports.known(["j", "x"]),
    "reports.of_candidate": lambda store, search, candidate: store.reports.of_candidate(candidate),
    "remote_workers.unverified_traces_of": lambda store, search, candidate: store.remote_workers.unverified_traces_of(
        [candidate, "b", "c"]
    ),
    "batch.flush": lambda store, search, candidate: _flush(store, search, candidate),
    "remote_workers.list": lambda store, search, candidate: store.remote_workers.list(
        [RemoteWorkerState.ACTIVE, RemoteWorkerState.DRAINING]
    ),
    "remote_workers.unverified_trace": lambda store, search, candidate: store.remote_workers.unverified_trace(
        candidate
    ),
    "retraces.find": lambda store, search, candidate: store.retraces.find("key"),
    "elites.offer": lambda store, search, candidate: store.elites.offer(offer(search, candidate)),
    "elites.offer against an incumbent": lambda store, search, candidate: store.elites.offer(
        offer(search, candidate, incumbent="b")
    ),
    "elites.version": lambda store, search, candidate: store.elites.version(search, DEVICE, 1),
    "pins.list": lambda store, search, candidate: store.pins.list(search, DEVICE),
    "pins.put": lambda store, search, candidate: store.pins.put(NewPin("p", search, DEVICE, 1, None), most=9),
    "hints.list": lambda store, search, candidate: store.hints.list(search),
    "hints.put": lambda store, search, candidate: store.hints.put(NewHint("h", search, "wider"), most=9),
    "elites.list": lambda store, search, candidate: store.elites.list(search, DEVICE, 1),
    "elites.top": lambda store, search, candidate: store.elites.top(search, DEVICE, 1, 9),
    "elites.get": lambda store, search, candidate: store.elites.get(search, DEVICE, 1, 0),
    "elites.best": lambda store, search, candidate: store.elites.best(search, DEVICE),
    "elites.holders": lambda store, search, candidate: store.elites.holders(search, DEVICE, 1),
    "bundles.readings": lambda store, search, candidate: store.bundles.readings("0" * 64),
    "elites.visits": lambda store, search, candidate: store.elites.visits(search, DEVICE, 1),
    "elites.history": lambda store, search, candidate: store.elites.history(search, DEVICE, before=9),
    "elites.history of a cell": lambda store, search, candidate: store.elites.history(search, DEVICE, cell=0),
    "search_leases.take": lambda store, search, candidate: store.search_leases.take("me", 5.0, most=8),
    "search_leases.take by force": lambda store, search, candidate: store.search_leases.take(
        "you", 5.0, most=8, by_force=True
    ),
    "search_leases.attend": lambda store, search, candidate: store.search_leases.attend("you", 5.0),
    "search_leases.leave": lambda store, search, candidate: store.search_leases.leave("you"),
    "search_leases.renew": lambda store, search, candidate: store.search_leases.renew("you", 5.0),
    "search_leases.release": lambda store, search, candidate: store.search_leases.release("me", [search]),
    "search_leases.get": lambda store, search, candidate: store.search_leases.get(search),
    "search_leases.fingerprints": lambda store, search, candidate: store.search_leases.fingerprints(),
    "elites.progress": lambda store, search, candidate: store.elites.progress(search, DEVICE, 12),
    **access.QUERIES,
    **prompting.QUERIES,
    "attempts.asked": lambda store, search, candidate: store.attempts.asked(search),
    "attempts.open": lambda store, search, candidate: store.attempts.open(search),
    "attempts.begun": lambda store, search, candidate: store.attempts.begun(search, 3),
    "attempts.proposed": lambda store, search, candidate: store.attempts.proposed(search, 3),
    "attempts.equal": lambda store, search, candidate: store.attempts.equal(search, "d"),
    "attempts.pass_over": lambda store, search, candidate: store.attempts.pass_over(search, 3, "llm"),
    "attempts.of": lambda store, search, candidate: store.attempts.of(search, "tune"),
    "attempts.offers": lambda store, search, candidate: store.attempts.offers(search, "tune"),
    "lineage.judged": lambda store, search, candidate: store.lineage.judged(search, after=3),
    "lineage.candidates": lambda store, search, candidate: store.lineage.candidates([candidate, "x"]),
    "lineage.reports": lambda store, search, candidate: store.lineage.reports([candidate, "x"]),
    "lineage.variants": lambda store, search, candidate: store.lineage.variants([candidate, "x"]),
    "lineage.readings": lambda store, search, candidate: store.lineage.readings(["a", "b"]),
    "lineage.exchanges": lambda store, search, candidate: exchanges_of(store, search),
    "views.top_elites": lambda store, search, candidate: store.views.top_elites(search, DEVICE, 1, limit=9),
    "views.places": lambda store, search, candidate: store.views.places(
        (search, DEVICE, 1), AxisStride(4, 3), AxisStride(1, 4), [(AxisStride(12, 2), 0)]
    ),
    "views.shared": lambda store, search, candidate: store.views.shared((search, DEVICE, 1), (search, "h200", 1)),
    "views.milestones": lambda store, search, candidate: store.views.milestones(search, DEVICE),
    "views.versions": lambda store, search, candidate: store.views.versions([search, "x"]),
    "views.lineage": lambda store, search, candidate: store.views.lineage((candidate,), 2),
    "views.children": lambda store, search, candidate: store.views.children(candidate, 9),
    "views.documents": lambda store, search, candidate: store.views.documents(["job"]),
    "rebinning.rebin": lambda store, search, candidate: _rebinned(store, search),
}


async def _rebinned(store: Store, search: str) -> object:
    await store.searches.set_state(search, SearchState.DONE)
    return await store.rebinning.rebin(search, AXES)


async def _flush(store: Store, search: str, candidate: str) -> object:
    batch = store.batch()
    await batch.save_trace(candidate, traced(new_variant()))
    await batch.save_report(new_report(search, candidate))
    await batch.keep_retrace("key", candidate, ["b"])
    for cell in (0, 1):
        batch.offer(offer(search, candidate, cell=cell))
    batch.judge(CandidateVerdict(candidate, "correct", "", None, 1.0))
    return await batch.flush()


async def exchanges_of(store: Store, search: str) -> object:
    return await store.lineage.exchanges(search, await store.candidates.list(search))


@pytest.fixture
def statements() -> Iterator[list[tuple[str, Any]]]:
    """What was sent to any database, with its parameters."""
    sent: list[tuple[str, Any]] = []

    def note(connection: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        if statement.startswith(("SELECT", "UPDATE", "INSERT", "DELETE")):
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
    await store.operators.keep_mutation_report("0" * 64, "passed", "{}")
    scans = {}
    for name, query in QUERIES.items():
        statements.clear()
        await query(store, search, candidate)
        assert statements, name
        plans = [await explain(database, sent, _first(given)) for sent, given in list(statements)]
        if found := [line for plan in plans for line in plan if is_costly(line)]:
            scans[name] = found
    await database.close()
    assert scans == {}


def is_costly(line: str) -> bool:
    """Whether a step of a plan reads a whole table, or sorts all it found."""
    scans = line.startswith("SCAN ") and line != "SCAN CONSTANT ROW"
    return scans or "Seq Scan" in line or line == "USE TEMP B-TREE FOR ORDER BY"


@pytest.mark.parametrize(
    "line, costly",
    [
        ("SCAN candidates", True),
        ("SCAN CONSTANT ROW", False),
        ("Seq Scan on candidates  (cost=0.00..1.01 rows=1 width=8)", True),
        ("USE TEMP B-TREE FOR ORDER BY", True),
        ("USE TEMP B-TREE FOR RIGHT PART OF ORDER BY", False),
        ("SEARCH candidates USING INDEX ix_candidates_trace_key (trace_key=?)", False),
    ],
)
def test_costly_plans_are_told_apart(line: str, costly: bool) -> None:
    assert is_costly(line) is costly


def _first(given: Any) -> Any:
    """The parameters of a statement; of its first row, where it was sent for many."""
    return given[0] if isinstance(given, list) and given else given


async def explain(database: Database, statement: str, parameters: Any) -> list[str]:
    """Lines of the plan that the database makes for a statement; sequential scans only where nothing else will do."""
    async with database.read(steady=True) as connection:
        if connection.dialect.name == "sqlite":
            plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return [row.detail for row in plan]
        await connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
        return [row[0] for row in plan]


FROM_REPORTS = {"protocol_version", "compiler"}
"""What an elite's report says of it."""


@pytest.mark.parametrize(
    "table, record",
    [
        (tables.operators, records.OperatorRecord),
        (tables.searches, records.SearchRecord),
        (tables.counters, records.SearchCounts),
        (tables.candidates, records.CandidateRecord),
        (tables.variants, records.VariantRecord),
        (tables.bundles, records.BundleRecord),
        (tables.reports, records.NewReport),
        (tables.elites, records.EliteRecord),
        (tables.search_leases, records.SearchLease),
        (tables.placements, records.PlacementRecord),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_columns_are_named_like_the_fields_of_records(table: Any, record: type) -> None:
    read_elsewhere = FROM_REPORTS if table is tables.elites else set()
    assert {field.name for field in fields(record)} - read_elsewhere <= set(table.c.keys())
