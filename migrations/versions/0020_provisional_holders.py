"""Add the table of provisional holders: cells on cards are held by a first measurement until a confirm decides.

Revision: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

CELL = ("search", "device", "axes_version", "cell")


def upgrade() -> None:
    """Create the table. Elites of stored searches are confirmed already."""
    op.create_table(
        "provisional_holders",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("axes_version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cell", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("coordinates", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("variant", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("bundle", "job", "emitter")),
        *(sa.Column(name, sa.Double(), nullable=False) for name in ("objective", "low", "mid", "high")),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_provisional_holders_search_searches"),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name="fk_provisional_holders_candidate_candidates"),
        sa.PrimaryKeyConstraint(*CELL, name="pk_provisional_holders"),
    )
    op.create_index("ix_provisional_holders_candidate", "provisional_holders", ["candidate"])


def downgrade() -> None:
    """Drop the table: cells that were held provisionally are given back."""
    op.drop_table("provisional_holders")
