"""Lists of searches and candidates: filtered, sorted, a page at a time.

A page follows a sort key, not a number of items, so that the last page costs as much as the first one. Only one filter
of candidates is looked up in an index; for the others a page reads a limited number of candidates, and may hold few
items although more follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, TextClause, func, literal, or_, select, tuple_, type_coerce
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from archive.records import CandidateFilter, CandidateRow, CandidateState, Listed, SearchFilter, SearchRecord, SortKey
from archive.store.engine import Database, select_record
from archive.tables import RANKED, UNFINISHED, candidates, elites, placements, search_tags, searches

READ_PER_PAGE = 5_000
"""Maximum number of candidates that a page of a filtered list reads."""

ANY_SEARCH, ANY_CANDIDATE = SearchFilter(), CandidateFilter()
"""Filters without a condition."""
Condition = ColumnElement[bool] | TextClause


class FirstText(GenericFunction[str]):
    """First item of a column that holds a JSON array of texts."""

    type = Text()
    inherit_cache = True


@compiles(FirstText, "sqlite")
def _first_on_sqlite(element: FirstText, compiler: SQLCompiler, **given: object) -> str:
    return f"json_extract({compiler.process(element.clauses, **given)}, '$[0]')"


@compiles(FirstText, "postgresql")
def _first_on_postgresql(element: FirstText, compiler: SQLCompiler, **given: object) -> str:
    return f"(({compiler.process(element.clauses, **given)})::json ->> 0)"


class ListingStore:
    """Pages of lists."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def searches(
        self,
        where: SearchFilter = ANY_SEARCH,
        *,
        sort: str = "-created",
        after: SortKey | None = None,
        limit: int = 50,
    ) -> Listed[SearchRecord]:
        """List searches.

        Args:
            where: Conditions that they meet.
            sort: A key of `SEARCH_SORTS`, with a minus sign for the reverse order.
            after: Sort key that the page follows; None for the first page.
            limit: Maximum number of items.
        """
        key = SEARCH_KEYS[sort.removeprefix("-")]
        statement = select_record(searches, SearchRecord).where(*_search_conditions(where))
        async with self._database.read() as connection:
            rows, last = await _page(connection, _sorted(statement, key, sort, after), key, limit)
        names = [field.name for field in fields(SearchRecord)]
        return Listed(tuple(SearchRecord(**dict(zip(names, row, strict=True))) for row in rows), last)

    async def candidates(
        self,
        search: str,
        where: CandidateFilter = ANY_CANDIDATE,
        *,
        sort: str = "-created",
        after: SortKey | None = None,
        limit: int = 50,
    ) -> Listed[CandidateRow]:
        """List the candidates of a search without their sources. Sorted by their objective, they are those with one.

        Args:
            search: Id of the search.
            where: Conditions that they meet.
            sort: A key of `CANDIDATE_SORTS`, with a minus sign for the reverse order.
            after: Sort key that the page follows; None for the first page.
            limit: Maximum number of items. If not all conditions have an index, there may be fewer on any page.
        """
        name = sort.removeprefix("-")
        key = CANDIDATE_KEYS[name]
        indexed, filtered = _candidate_conditions(search, where, ranked=name == "objective")
        statement = _sorted(select_record(candidates, CandidateRow).where(*indexed), key, sort, after)
        async with self._database.read() as connection:
            border = None
            if filtered:
                border = await _nth(connection, _sorted(select(*key).where(*indexed), key, sort, after))
                statement = statement.where(*filtered)
            if border is not None:
                statement = statement.where(_compared(key, border, before=not sort.startswith("-"), or_equal=True))
            rows, last = await _page(connection, statement, key, limit)
        return Listed(tuple(CandidateRow(*row) for row in rows), last or border)


async def _page(
    connection: AsyncConnection, statement: Select[Any], key: Sequence[ColumnElement[Any]], limit: int
) -> tuple[list[Sequence[Any]], SortKey | None]:
    """Read one page: its rows without the sort key, and the key of its last row if more rows follow."""
    labelled = [column.label(f"sort_key_{place}") for place, column in enumerate(key)]
    rows = (await connection.execute(statement.add_columns(*labelled).limit(limit + 1))).all()
    last = tuple(rows[limit - 1][-len(key) :]) if len(rows) > limit else None
    return [row[: -len(key)] for row in rows[:limit]], last


async def _nth(connection: AsyncConnection, statement: Select[Any]) -> SortKey | None:
    """Return the sort key of the last candidate that a page reads; None if the list ends before."""
    row = (await connection.execute(statement.offset(READ_PER_PAGE - 1).limit(1))).one_or_none()
    return None if row is None else tuple(row)


def _sorted(statement: Select[Any], key: Sequence[ColumnElement[Any]], sort: str, after: SortKey | None) -> Select[Any]:
    """Sort a statement, and begin behind a sort key."""
    descending = sort.startswith("-")
    if after is not None:
        statement = statement.where(_compared(key, after, before=descending))
    return statement.order_by(*(column.desc() if descending else column.asc() for column in key))


def _compared(key: Sequence[ColumnElement[Any]], value: SortKey, *, before: bool, or_equal: bool = False) -> Condition:
    """Compare a sort key with a value: smaller if `before`, else greater."""
    left = tuple_(*key)
    right = tuple_(*(literal(part, column.type) for part, column in zip(value, key, strict=True)))
    if or_equal:
        return left <= right if before else left >= right
    return left < right if before else left > right


def _search_conditions(where: SearchFilter) -> list[Condition]:
    conditions: list[Condition] = []
    if where.states:
        conditions.append(searches.c.state.in_(where.states))
    if where.operator is not None:
        conditions.append(searches.c.operator_name == where.operator)
    if where.owner is not None:
        conditions.append(searches.c.owner == where.owner)
    if where.device is not None:
        conditions.append(_holds(searches.c.devices, where.device))
    for tag in where.tags:
        conditions.append(searches.c.id.in_(select(search_tags.c.search).where(search_tags.c.tag == tag)))
    if where.text is not None:
        said = (searches.c.name, searches.c.operator_name, searches.c.notes)
        conditions.append(or_(*(_says(column, where.text) for column in said)))
    return conditions


def _candidate_conditions(
    search: str, where: CandidateFilter, *, ranked: bool
) -> tuple[list[Condition], list[Condition]]:
    """Return the conditions that an index answers together with the order, and the others."""
    filtered: list[Condition] = []
    if where.cell is None:
        indexed: list[Condition] = [candidates.c.search == search]
    else:
        # Few candidates, all of this search: named here, the search would make SQLite read all of its candidates.
        indexed = [candidates.c.id.in_(_offered(search, where))]
    if where.cell is None and where.device is not None:
        filtered.append(_holds(candidates.c.objectives, where.device))
    if where.state is not None:
        indexed.append(candidates.c.state == where.state)
        if where.state != CandidateState.JUDGED:
            indexed.append(UNFINISHED)
    equal = {"outcome": where.outcome, "emitter": where.emitter}
    given = [candidates.c[name] == value for name, value in equal.items() if value is not None]
    if ranked:
        indexed.append(RANKED)
        given.reverse()
    indexed += given[:1]
    filtered += given[1:]
    if where.text is not None:
        said = (candidates.c.note, candidates.c.reason, candidates.c.source)
        filtered.append(or_(*(_says(column, where.text) for column in said)))
    return indexed, filtered


def _offered(search: str, where: CandidateFilter) -> Select[Any]:
    """Candidates that were offered to a cell as the axes are now."""
    axes_version = select(searches.c.axes_version).where(searches.c.id == search).scalar_subquery()
    statement = select(placements.c.candidate).where(
        placements.c.search == search,
        placements.c.cell == where.cell,
        placements.c.axes_version == axes_version,
    )
    return statement if where.device is None else statement.where(placements.c.device == where.device)


def _holds(column: ColumnElement[Any], name: str) -> Condition:
    """Return the condition that a column of JSON holds a name, as an item or a key."""
    return type_coerce(column, Text()).contains(f'"{name}"', autoescape=True)


def _says(column: ColumnElement[Any], part: str) -> Condition:
    return func.lower(column, type_=Text()).contains(part.lower(), autoescape=True)


def _best() -> ColumnElement[float]:
    """Best objective of a search on its first device; 0 without an elite, or if admitted against mutation testing."""
    here = (
        elites.c.search == searches.c.id,
        elites.c.device == FirstText(searches.c.devices),
        elites.c.axes_version == searches.c.axes_version,
        searches.c.admitted == "",
    )
    best = select(func.max(elites.c.objective)).where(*here).correlate(searches).scalar_subquery()
    return func.coalesce(best, 0.0)


SEARCH_KEYS: Mapping[str, tuple[ColumnElement[Any], ...]] = {
    "created": (searches.c.id,),
    "name": (searches.c.name, searches.c.id),
    "operator": (searches.c.operator_name, searches.c.id),
    "best": (_best(), searches.c.id),
}
"""Columns of the sort keys of `SEARCH_SORTS`."""
CANDIDATE_KEYS: Mapping[str, tuple[ColumnElement[Any], ...]] = {
    "created": (candidates.c.ordinal,),
    "objective": (candidates.c.objective, candidates.c.ordinal),
}
"""Columns of the sort keys of `CANDIDATE_SORTS`."""
