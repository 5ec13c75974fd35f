"""Tables of prompts: exchanges with models, what each call cost, and counts of both."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from archive.column_types import CompressedColumn, DollarColumn, EnumColumn, JsonColumn, TextColumn, TimestampColumn
from archive.records import ChargeState, ExchangeState
from archive.tables.schema import metadata

RESERVED = text("state = 'reserved'")
"""Condition of the partial index on charges; queries must repeat it word for word for the index to be used."""


def _spent() -> list[Column[Any]]:
    """Columns for the summed cost of calls."""
    return [
        Column("calls", BigInteger, nullable=False),
        Column("tokens", BigInteger, nullable=False),
        Column("usd", DollarColumn, nullable=False),
        Column("unpriced", BigInteger, nullable=False),
    ]


exchanges = Table(
    "exchanges",
    metadata,
    Column("id", Text, primary_key=True),
    Column("search", Text, ForeignKey("searches.id"), nullable=False),
    Column("ordinal", BigInteger, nullable=False),
    Column("step", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("backend", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("template", Text, nullable=False),
    Column("claims", JsonColumn(dict), nullable=False),
    Column("parents", JsonColumn(tuple), nullable=False),
    Column("cell", Integer),
    Column("system", CompressedColumn, nullable=False),
    Column("user", CompressedColumn, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("state", EnumColumn(ExchangeState), nullable=False),
    Column("reason", TextColumn, nullable=False),
    Column("claimed_by", Text),
    Column("lease_until", TimestampColumn),
    Column("text", CompressedColumn),
    Column("model", TextColumn, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost_usd", DollarColumn),
    Column("truncated", Boolean, nullable=False),
    Column("outcome", Text),
    Column("outcome_reason", TextColumn, nullable=False),
    Column("change", TextColumn, nullable=False, server_default=""),
    Column("candidate", Text, ForeignKey("candidates.id"), index=True),
    Column("opened_at", TimestampColumn, nullable=False),
    Column("answered_at", TimestampColumn),
    Column("concluded_at", TimestampColumn),
    UniqueConstraint("search", "ordinal", "step", "digest"),
    Index(None, "search", "id"),
    Index(None, "search", "state", "id"),
    Index(None, "state", "id"),
)

# One row per call, so that a reservation outlives its process and any coordinator can settle it.
charges = Table(
    "charges",
    metadata,
    Column("id", Text, primary_key=True),
    Column("exchange", Text, ForeignKey("exchanges.id"), nullable=False),
    Column("search", Text, ForeignKey("searches.id"), nullable=False),
    Column("backend", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("usd", DollarColumn),
    Column("state", EnumColumn(ChargeState), nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    Index(None, "exchange", "id"),
    Index("ix_charges_reserved", "search", "id", sqlite_where=RESERVED, postgresql_where=RESERVED),
)

# Spent and reserved together; backend "" is the search as a whole.
llm_budgets = Table(
    "llm_budgets",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("backend", Text, primary_key=True),
    *_spent(),
    Column("calls_limit", BigInteger),
    Column("tokens_limit", BigInteger),
    Column("usd_limit", DollarColumn),
)

llm_stats = Table(
    "llm_stats",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("backend", Text, primary_key=True),
    Column("strategy", Text, primary_key=True),
    *_spent(),
    Column("candidates", BigInteger, nullable=False),
)

llm_outcomes = Table(
    "llm_outcomes",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("backend", Text, primary_key=True),
    Column("strategy", Text, primary_key=True),
    Column("outcome", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)
