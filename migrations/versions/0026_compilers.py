"""Keep the compiler that a search asks for, and the one that each report is about.

Revision: 0026
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; older reports name their compiler in their documents alone."""
    op.add_column("searches", sa.Column("compiler", sa.Text()))
    op.add_column("reports", sa.Column("compiler", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("reports", "compiler")
    op.drop_column("searches", "compiler")
