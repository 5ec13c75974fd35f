"""Prompts: exchanges with models, and what they cost.

Revision: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

RESERVED = sa.text("state = 'reserved'")


def upgrade() -> None:
    """Create the tables; searches say which models they may ask."""
    op.add_column("searches", sa.Column("llm", sa.Text(), nullable=True))
    _exchanges()
    _charges()
    _counts()


def downgrade() -> None:
    """Drop them, dependants first."""
    for table in ("conclusions", "arms", "purses", "charges", "exchanges"):
        op.drop_table(table)
    op.drop_column("searches", "llm")


def _exchanges() -> None:
    """What was asked and answered."""
    op.create_table(
        "exchanges",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("claims", sa.Text(), nullable=False),
        sa.Column("parents", sa.Text(), nullable=False),
        sa.Column("cell", sa.Integer(), nullable=True),
        sa.Column("system", sa.LargeBinary(), nullable=False),
        sa.Column("user", sa.LargeBinary(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("text", sa.LargeBinary(), nullable=True),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.BigInteger(), nullable=True),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("outcome_reason", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("concluded_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name="fk_exchanges_candidate_candidates"),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_exchanges_search_searches"),
        sa.PrimaryKeyConstraint("id", name="pk_exchanges"),
        sa.UniqueConstraint("search", "ordinal", "step", "digest", name="uq_exchanges_search_ordinal_step_digest"),
    )
    op.create_index("ix_exchanges_candidate", "exchanges", ["candidate"])
    op.create_index("ix_exchanges_search_id", "exchanges", ["search", "id"])
    op.create_index("ix_exchanges_search_state_id", "exchanges", ["search", "state", "id"])
    op.create_index("ix_exchanges_state_id", "exchanges", ["state", "id"])


def _charges() -> None:
    """What each call cost."""
    op.create_table(
        "charges",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("usd", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["exchange"], ["exchanges.id"], name="fk_charges_exchange_exchanges"),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_charges_search_searches"),
        sa.PrimaryKeyConstraint("id", name="pk_charges"),
    )
    op.create_index("ix_charges_exchange_id", "charges", ["exchange", "id"])
    op.create_index(
        "ix_charges_reserved", "charges", ["search", "id"], sqlite_where=RESERVED, postgresql_where=RESERVED
    )


def _counts() -> None:
    """What searches spent, and what came of it."""
    op.create_table(
        "purses",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        *_spent(),
        sa.Column("calls_limit", sa.BigInteger(), nullable=True),
        sa.Column("tokens_limit", sa.BigInteger(), nullable=True),
        sa.Column("usd_limit", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_purses_search_searches"),
        sa.PrimaryKeyConstraint("search", "backend", name="pk_purses"),
    )
    op.create_table(
        "arms",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        *_spent(),
        sa.Column("candidates", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_arms_search_searches"),
        sa.PrimaryKeyConstraint("search", "backend", "strategy", name="pk_arms"),
    )
    op.create_table(
        "conclusions",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_conclusions_search_searches"),
        sa.PrimaryKeyConstraint("search", "backend", "strategy", "outcome", name="pk_conclusions"),
    )


def _spent() -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in ("calls", "tokens", "usd", "unpriced")]
