"""Tables of searches: requests, candidates, variants, bundles, reports and cells."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from archive.column_types import CompressedColumn, EnumColumn, JsonColumn, TextColumn, TimestampColumn
from archive.records import PRIORITY, AxisRecord, CandidateState, MeasuredBaselines, Placement, SearchState
from archive.tables.schema import metadata, sequence

UNFINISHED = text("state <> 'judged'")
"""Condition of the partial index on candidates; queries must repeat it word for word for the index to be used."""
RANKED = text("objective IS NOT NULL")
"""Condition of the partial indexes by which candidates are sorted by their objective; likewise."""


def _axes(parsed: list[dict[str, Any]]) -> tuple[AxisRecord, ...]:
    return tuple(AxisRecord(**axis) for axis in parsed)


def _baselines(parsed: dict[str, Any]) -> dict[str, MeasuredBaselines]:
    return {device: MeasuredBaselines(**figures) for device, figures in parsed.items()}


def _challenger() -> list[Column[Any]]:
    """Columns of an elite and its history about the offered candidate."""
    return [
        Column("candidate", Text, ForeignKey("candidates.id"), nullable=False, index=True),
        Column("variant", Integer, nullable=False),
        Column("bundle", Text, nullable=False),
        Column("job", Text, nullable=False),
        Column("emitter", Text, nullable=False),
        Column("objective", Double, nullable=False),
        Column("low", Double, nullable=False),
        Column("mid", Double, nullable=False),
        Column("high", Double, nullable=False),
    ]


operators = Table(
    "operators",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    Index(None, "name", "created_at"),
)

searches = Table(
    "searches",
    metadata,
    Column("id", Text, primary_key=True),
    Column("operator", Text, ForeignKey("operators.digest"), nullable=False),
    Column("operator_name", Text, nullable=False),
    Column("devices", JsonColumn(tuple), nullable=False),
    Column("emitters", JsonColumn(tuple), nullable=False),
    Column("axes", JsonColumn(_axes), nullable=False),
    Column("axes_version", Integer, nullable=False),
    Column("evaluations", BigInteger, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("shapes", JsonColumn(tuple), nullable=False),
    Column("graphs", JsonColumn(tuple), nullable=False),
    Column("llm", JsonColumn(dict)),
    Column("stop", JsonColumn(dict)),
    Column("selection", JsonColumn(dict)),
    Column("baselines", JsonColumn(_baselines), nullable=False, server_default="{}"),
    Column("state", EnumColumn(SearchState), nullable=False),
    Column("reason", TextColumn, nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    Column("updated_at", TimestampColumn, nullable=False),
    Column("owner", Text, nullable=False, server_default=""),
    Column("priority", Integer, nullable=False, server_default=str(PRIORITY)),
    Column("name", TextColumn, nullable=False, server_default=""),
    Column("tags", JsonColumn(tuple), nullable=False, server_default="[]"),
    Column("notes", TextColumn, nullable=False, server_default=""),
    Column("ended_at", TimestampColumn),
    Column("finishing", Boolean, nullable=False, server_default=false()),
    Column("admit", Boolean, nullable=False, server_default=false()),
    Column("admitted", TextColumn, nullable=False, server_default=""),
    Column("reference_seed", Integer, nullable=False, server_default="0"),
    Column("refused_seeds", TextColumn, nullable=False, server_default=""),
    Column("compiler", Text),
    Index(None, "state", "id"),
    Index(None, "finishing", "id"),
    Index(None, "operator_name", "id"),
    Index(None, "owner", "id"),
    Index(None, "name", "id"),
)

# Searches by tag; their own column has the same in their order.
search_tags = Table(
    "search_tags",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("tag", Text, primary_key=True),
    Index(None, "tag", "search"),
)

# Separate from searches, whose rows are wide: SQLite would write the graphs again with every candidate.
counters = Table(
    "counters",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("proposals", BigInteger, nullable=False),
    Column("candidates", BigInteger, nullable=False),
    Column("evaluated", BigInteger, nullable=False),
    Column("equal_plans", BigInteger, nullable=False, server_default="0"),
    Column("device_ms", BigInteger, nullable=False, server_default="0"),
    Column("starting_ms", BigInteger, nullable=False, server_default="0"),
    Column("running_ms", BigInteger, nullable=False, server_default="0"),
)

# Counts of events of `archive.progress`, and of outcomes, by emitter; device "" if an event is about none.
tallies = Table(
    "tallies",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("device", Text, primary_key=True),
    Column("emitter", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

candidates = Table(
    "candidates",
    metadata,
    Column("id", Text, primary_key=True),
    Column("search", Text, ForeignKey("searches.id"), nullable=False),
    Column("ordinal", BigInteger, nullable=False),
    Column("emitter", Text, nullable=False),
    Column("source", TextColumn, nullable=False),
    Column("digest", Text, nullable=False),
    Column("trace_key", Text, nullable=False, index=True),
    Column("parents", JsonColumn(tuple), nullable=False),
    Column("children", BigInteger, nullable=False),
    Column("note", TextColumn, nullable=False),
    Column("exchange", Text),
    Column("equal_plan", Boolean, nullable=False, server_default=false()),
    Column("state", EnumColumn(CandidateState), nullable=False),
    Column("outcome", Text),
    Column("reason", TextColumn, nullable=False),
    Column("line", Integer),
    Column("objective", Double),
    Column("objectives", JsonColumn(dict), nullable=False, server_default="{}"),
    Column("stages_s", JsonColumn(dict), nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    UniqueConstraint("search", "digest"),
    UniqueConstraint("search", "ordinal"),
    Index(None, "search", "emitter", "ordinal"),
    Index(None, "search", "outcome", "ordinal"),
    Index("ix_candidates_unfinished", "search", "ordinal", sqlite_where=UNFINISHED, postgresql_where=UNFINISHED),
    Index("ix_candidates_ranked", "search", "objective", "ordinal", sqlite_where=RANKED, postgresql_where=RANKED),
    Index(
        "ix_candidates_ranked_emitter",
        "search",
        "emitter",
        "objective",
        "ordinal",
        sqlite_where=RANKED,
        postgresql_where=RANKED,
    ),
)

# Candidates by parent; a candidate's own column has its parents in order. A parent may be unknown to the archive.
candidate_parents = Table(
    "candidate_parents",
    metadata,
    Column("parent", Text, primary_key=True),
    Column("child", Text, ForeignKey("candidates.id"), primary_key=True, index=True),
)

bundles = Table(
    "bundles",
    metadata,
    Column("identity", Text, primary_key=True),
    Column("document", CompressedColumn, nullable=False),
    Column("readings", JsonColumn(tuple), nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
)

variants = Table(
    "variants",
    metadata,
    Column("candidate", Text, ForeignKey("candidates.id"), primary_key=True),
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("configuration", JsonColumn(dict), nullable=False),
    Column("bundle", Text, ForeignKey("bundles.identity"), index=True),
    Column("outcome", Text),
    Column("reason", TextColumn, nullable=False),
    Column("line", Integer),
)

reports = Table(
    "reports",
    metadata,
    sequence(),
    Column("job", Text, nullable=False, unique=True),
    Column("search", Text, ForeignKey("searches.id"), nullable=False, index=True),
    Column("candidate", Text, ForeignKey("candidates.id"), nullable=False),
    Column("variant", Integer, nullable=False),
    Column("bundle", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("protocol_version", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", TextColumn, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("document", TextColumn, nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    Column("compiler", Text, nullable=False, server_default=""),
    Index(None, "candidate", "seq"),
    Index("ix_reports_reuse", "bundle", "device", "operator", "protocol_version", "seq"),
)

elites = Table(
    "elites",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("device", Text, primary_key=True),
    Column("axes_version", Integer, primary_key=True, autoincrement=False),
    Column("cell", Integer, primary_key=True, autoincrement=False),
    Column("coordinates", JsonColumn(dict), nullable=False),
    *_challenger(),
    Column("revision", Integer, nullable=False),
    Column("placed_at", TimestampColumn, nullable=False),
    Index("ix_elites_objective", "search", "device", "axes_version", "objective", "cell"),
)

provisional_holders = Table(
    "provisional_holders",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("device", Text, primary_key=True),
    Column("axes_version", Integer, primary_key=True, autoincrement=False),
    Column("cell", Integer, primary_key=True, autoincrement=False),
    Column("coordinates", JsonColumn(dict), nullable=False),
    *_challenger(),
    Column("placed_at", TimestampColumn, nullable=False),
)

placements = Table(
    "placements",
    metadata,
    sequence(),
    Column("search", Text, ForeignKey("searches.id"), nullable=False),
    Column("device", Text, nullable=False),
    Column("axes_version", Integer, nullable=False),
    Column("cell", Integer, nullable=False),
    *_challenger(),
    Column("placement", EnumColumn(Placement), nullable=False),
    Column("revision", Integer),
    Column("offered_at", TimestampColumn, nullable=False),
    UniqueConstraint("job", "axes_version", "cell"),
    Index(None, "search", "emitter", "seq"),
    Index(None, "search", "device", "seq"),
    Index(None, "search", "device", "cell", "seq"),
)
