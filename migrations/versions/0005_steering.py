"""Pins, hints, and what the gate said of operators."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and what lists of searches by operator need."""
    op.create_table(
        "pins",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("cell", sa.Integer(), nullable=True),
        sa.Column("candidate", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_pins_search_searches"),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name="fk_pins_candidate_candidates"),
        sa.PrimaryKeyConstraint("id", name="pk_pins"),
        sa.UniqueConstraint("search", "device", "subject", name="uq_pins_search_device_subject"),
    )
    op.create_index("ix_pins_search_id", "pins", ["search", "id"])
    op.create_table(
        "hints",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_hints_search_searches"),
        sa.PrimaryKeyConstraint("id", name="pk_hints"),
    )
    op.create_index("ix_hints_search_id", "hints", ["search", "id"])
    op.create_table(
        "gates",
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["operator"], ["operators.digest"], name="fk_gates_operator_operators"),
        sa.PrimaryKeyConstraint("operator", name="pk_gates"),
    )
    op.create_index("ix_searches_operator_name_id", "searches", ["operator_name", "id"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_searches_operator_name_id", "searches")
    for table in ("gates", "hints", "pins"):
        op.drop_table(table)
