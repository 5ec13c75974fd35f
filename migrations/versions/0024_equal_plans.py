"""Count the candidates whose plans had a verdict in their search already apart from its evaluations.

Revision: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; candidates that were judged before stay evaluations."""
    op.add_column("candidates", sa.Column("equal_plan", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("counters", sa.Column("equal_plans", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop the columns; such candidates are in no count any more."""
    op.drop_column("counters", "equal_plans")
    op.drop_column("candidates", "equal_plan")
