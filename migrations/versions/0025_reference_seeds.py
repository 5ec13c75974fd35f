"""Name the seed that a search's figures relate to, as a refused one no longer ends its search.

Revision: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; figures of earlier searches relate to their first seed."""
    op.add_column("searches", sa.Column("reference_seed", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("searches", sa.Column("refused_seeds", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the columns; figures of searches with another reference seed would be read as those over the first."""
    op.drop_column("searches", "refused_seeds")
    op.drop_column("searches", "reference_seed")
