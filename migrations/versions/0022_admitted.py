"""Add the mark of searches that go on although mutation testing failed their operator.

Revision: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("searches", sa.Column("admit", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("searches", sa.Column("admitted", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the columns; searches of operators that failed lose their mark."""
    op.drop_column("searches", "admitted")
    op.drop_column("searches", "admit")
