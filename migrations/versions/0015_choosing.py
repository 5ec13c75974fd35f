"""How a search chooses what to try: with or without the bandit, with or without screening."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it. Searches that ran before chose as the defaults say."""
    op.add_column("searches", sa.Column("choosing", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("searches", "choosing")
