"""When a search ends before its budget is used, and what judging took."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. What judging took in searches that ran before is not known, and counts as nothing."""
    op.add_column("searches", sa.Column("stop", sa.Text(), nullable=True))
    op.add_column("counters", sa.Column("judging_ms", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("counters", "judging_ms")
    op.drop_column("searches", "stop")
