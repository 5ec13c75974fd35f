"""Milestones: how searches got where they are."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table. Searches that ran before have no milestones: their course is not known."""
    op.create_table(
        "milestones",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("evaluations", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("elites", sa.Integer(), nullable=False),
        sa.Column("qd_score", sa.Double(), nullable=False),
        sa.Column("best", sa.Double(), nullable=True),
        sa.Column("reached_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name=op.f("fk_milestones_search_searches")),
        sa.PrimaryKeyConstraint("search", "device", "evaluations", name=op.f("pk_milestones")),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("milestones")
