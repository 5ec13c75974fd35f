"""Drop the tables of knowledge across operators, which the service no longer keeps.

Revision: 0016
"""

from alembic import op

from migrations.baseline import metadata

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

TABLES = [metadata.tables[name] for name in ("findings", "distillations", "knowledge")]


def upgrade() -> None:
    """Drop the tables with their rows."""
    metadata.drop_all(op.get_bind(), TABLES)


def downgrade() -> None:
    """Create the tables again, without rows."""
    metadata.create_all(op.get_bind(), TABLES)
