"""Which coordinators there are, so that each holds a fair share of the searches."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; coordinators that run already enter themselves within a second."""
    op.create_table(
        "coordinators",
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("holder", name=op.f("pk_coordinators")),
    )
    op.create_index(op.f("ix_coordinators_until_s"), "coordinators", ["until_s"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("coordinators")
