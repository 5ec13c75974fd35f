"""Tables of knowledge: entries, what each search found about them, and which searches were asked."""

from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, Table, Text

from archive.column_types import EnumColumn, JsonColumn, TextColumn, TimestampColumn
from archive.records import KnowledgeState
from archive.tables.schema import metadata


def _best() -> list[Column[object]]:
    """What the finding with the largest lower bound says: in findings of itself, in an entry of the best of them."""
    return [
        Column("successes", Integer, nullable=False),
        Column("failures", Integer, nullable=False),
        Column("wins", Integer, nullable=False),
        Column("losses", Integer, nullable=False),
        Column("low", Double),
        Column("mid", Double),
        Column("high", Double),
        Column("jobs", JsonColumn(tuple), nullable=False),
        Column("before", JsonColumn(dict), nullable=False),
        Column("after", JsonColumn(dict), nullable=False),
        Column("example", TextColumn, nullable=False),
        Column("operator", TextColumn, nullable=False),
    ]


knowledge = Table(
    "knowledge",
    metadata,
    Column("id", Text, primary_key=True),
    Column("move", TextColumn, nullable=False),
    Column("kind", Text, nullable=False),
    Column("traits", JsonColumn(tuple), nullable=False),
    Column("bottleneck", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("sentence", TextColumn, nullable=False),
    Column("state", EnumColumn(KnowledgeState), nullable=False),
    Column("held", Boolean, nullable=False),
    Column("worth", Double, nullable=False),
    *_best(),
    Column("created_at", TimestampColumn, nullable=False),
    Column("updated_at", TimestampColumn, nullable=False),
    Index("ix_knowledge_find", "kind", "device", "state", "worth", "id"),
    Index("ix_knowledge_worth", "worth", "id"),
)

# Searches are named without a foreign key: an imported finding is of a search that was never here.
findings = Table(
    "findings",
    metadata,
    Column("entry", Text, ForeignKey("knowledge.id"), primary_key=True),
    Column("search", Text, primary_key=True),
    *_best(),
    Index("ix_findings_best", "entry", "low"),
    Index(None, "search"),
)

distillations = Table(
    "distillations",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("at", TimestampColumn, nullable=False),
)
