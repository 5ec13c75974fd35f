"""Add the line in which a model says what it changed, and the exchange that a candidate is from.

Revision: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; candidates of earlier exchanges have none."""
    op.add_column("exchanges", sa.Column("change", sa.Text(), nullable=False, server_default=""))
    op.add_column("candidates", sa.Column("exchange", sa.Text()))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("candidates", "exchange")
    op.drop_column("exchanges", "change")
