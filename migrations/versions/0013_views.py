"""What pages show: objectives by device, who came of whom, what a course cost, and maps read from an index alone."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0011"
branch_labels = None
depends_on = None

ONE_DEVICE = {
    "sqlite": "SELECT id FROM searches WHERE json_array_length(devices) = 1",
    "postgresql": "SELECT id FROM searches WHERE json_array_length(devices::json) = 1",
}
"""Searches whose candidates' objectives are known to be of one device."""
OBJECTIVES = {
    "sqlite": "(SELECT json_object(json_extract(devices, '$[0]'), candidates.objective) FROM searches "
    "WHERE searches.id = candidates.search)",
    "postgresql": "(SELECT json_build_object(devices::json ->> 0, candidates.objective)::text FROM searches "
    "WHERE searches.id = candidates.search)",
}
PARENTAGES = {
    "sqlite": "SELECT DISTINCT json_each.value, candidates.id FROM candidates, json_each(candidates.parents)",
    "postgresql": "SELECT DISTINCT parent.value, candidates.id FROM candidates, "
    "json_array_elements_text(candidates.parents::json) AS parent(value)",
}


def upgrade() -> None:
    """Add them, and fill in what is known of earlier candidates.

    In searches on several devices an objective was the largest of them all, whichever device that was: it is dropped.
    """
    dialect = op.get_context().dialect.name
    op.add_column("candidates", sa.Column("objectives", sa.Text(), nullable=False, server_default="{}"))
    op.execute(
        f"UPDATE candidates SET objectives = {OBJECTIVES[dialect]} "
        f"WHERE objective IS NOT NULL AND search IN ({ONE_DEVICE[dialect]})"
    )
    op.execute(
        f"UPDATE candidates SET objective = NULL WHERE objective IS NOT NULL AND search NOT IN ({ONE_DEVICE[dialect]})"
    )
    op.create_table(
        "parentages",
        sa.Column("parent", sa.Text(), nullable=False),
        sa.Column("child", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["child"], ["candidates.id"], name=op.f("fk_parentages_child_candidates")),
        sa.PrimaryKeyConstraint("parent", "child", name=op.f("pk_parentages")),
    )
    op.execute(f"INSERT INTO parentages (parent, child) {PARENTAGES[dialect]}")
    op.create_index(op.f("ix_parentages_child"), "parentages", ["child"])
    op.add_column("milestones", sa.Column("usd", sa.BigInteger(), nullable=True))
    op.drop_index("ix_elites_objective", "elites")
    op.create_index("ix_elites_objective", "elites", ["search", "device", "axes_version", "objective", "cell"])


def downgrade() -> None:
    """Take them away."""
    op.drop_index("ix_elites_objective", "elites")
    op.create_index("ix_elites_objective", "elites", ["search", "device", "axes_version", "objective"])
    op.drop_column("milestones", "usd")
    op.drop_table("parentages")
    op.drop_column("candidates", "objectives")
