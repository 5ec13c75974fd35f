"""Leases on searches, and their priority.

Revision: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Say whose each search is and how much it matters, and who runs it."""
    op.add_column("searches", sa.Column("owner", sa.Text(), nullable=False, server_default=""))
    op.add_column("searches", sa.Column("priority", sa.Integer(), nullable=False, server_default="5"))
    op.create_table(
        "tenures",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("until_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_tenures_search_searches"),
        sa.PrimaryKeyConstraint("search", name="pk_tenures"),
    )
    op.create_index("ix_tenures_holder", "tenures", ["holder"])


def downgrade() -> None:
    """Forget both."""
    op.drop_table("tenures")
    op.drop_column("searches", "priority")
    op.drop_column("searches", "owner")
