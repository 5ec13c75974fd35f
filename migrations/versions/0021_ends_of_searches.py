"""Ends of searches: when they ended, if a done one still has work, and the running time that stop rules count.

An open search begins with a running time of 0: the archive did not record its pauses.

Revision: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

TIMES = ("starting_ms", "running_ms")


def upgrade() -> None:
    """Add the columns; a search has ended when its record changed last."""
    op.add_column("searches", sa.Column("ended_at", sa.DateTime(timezone=True)))
    op.add_column("searches", sa.Column("finishing", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_searches_finishing_id", "searches", ["finishing", "id"])
    op.execute("UPDATE searches SET ended_at = updated_at WHERE state IN ('done', 'stopped', 'failed')")
    for name in TIMES:
        op.add_column("counters", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop what `upgrade` added; unfinished examinations are lost."""
    for name in TIMES:
        op.drop_column("counters", name)
    op.drop_index("ix_searches_finishing_id", table_name="searches")
    op.drop_column("searches", "finishing")
    op.drop_column("searches", "ended_at")
