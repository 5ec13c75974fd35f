"""What became of an emitter's candidates, found by the emitter."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index("ix_placements_search_emitter_seq", "placements", ["search", "emitter", "seq"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ix_placements_search_emitter_seq", "placements")
