"""Second traces."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table. What holds a cell already was traced once, and its certificate says so."""
    op.create_table(
        "retraces",
        sa.Column("trace_key", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("bundles", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name=op.f("fk_retraces_candidate_candidates")),
        sa.PrimaryKeyConstraint("trace_key", name=op.f("pk_retraces")),
    )
    op.create_index("ix_retraces_candidate", "retraces", ["candidate"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("retraces")
