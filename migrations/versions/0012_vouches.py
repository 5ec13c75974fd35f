"""Machines that an admin vouches for, so that their workers need not be trusted anew after every restart."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Have hosts say which machine they are on, and keep which machines are vouched for."""
    op.add_column("hosts", sa.Column("machine", sa.Text(), nullable=True))
    op.create_index("ix_hosts_machine_state", "hosts", ["machine", "state"])
    op.create_table(
        "vouches",
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("machine", name="pk_vouches"),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_table("vouches")
    op.drop_index("ix_hosts_machine_state", "hosts")
    op.drop_column("hosts", "machine")
