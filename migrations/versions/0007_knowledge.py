"""What was learned across searches."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create entries, findings and the list of searches that were asked."""
    op.create_table(
        "knowledge",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("move", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("traits", sa.Text(), nullable=False),
        sa.Column("bottleneck", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("worth", sa.Double(), nullable=False),
        *_best(),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_knowledge"),
    )
    op.create_index("ix_knowledge_find", "knowledge", ["kind", "device", "state", "worth", "id"])
    op.create_index("ix_knowledge_worth", "knowledge", ["worth", "id"])
    op.create_table(
        "findings",
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        *_best(),
        sa.ForeignKeyConstraint(["entry"], ["knowledge.id"], name="fk_findings_entry_knowledge"),
        sa.PrimaryKeyConstraint("entry", "search", name="pk_findings"),
    )
    op.create_index("ix_findings_best", "findings", ["entry", "low"])
    op.create_index("ix_findings_search", "findings", ["search"])
    op.create_table(
        "distillations",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_distillations_search_searches"),
        sa.PrimaryKeyConstraint("search", name="pk_distillations"),
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("distillations", "findings", "knowledge"):
        op.drop_table(table)


def _best() -> tuple[sa.Column, ...]:
    """Counts, the best gain and its evidence."""
    counts = (sa.Column(name, sa.Integer(), nullable=False) for name in ("successes", "failures", "wins", "losses"))
    bounds = (sa.Column(name, sa.Double(), nullable=True) for name in ("low", "mid", "high"))
    texts = ("jobs", "before", "after", "example", "operator")
    return (*counts, *bounds, *(sa.Column(name, sa.Text(), nullable=False) for name in texts))
