"""Add names, tags and notes of searches, and the indexes by which lists are sorted and searches are deleted.

Revision: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

LABELS = {"name": "", "tags": "[]", "notes": ""}
INDEXES = {
    "ix_searches_owner_id": ("searches", ("owner", "id")),
    "ix_searches_name_id": ("searches", ("name", "id")),
    "ix_elites_candidate": ("elites", ("candidate",)),
    "ix_placements_candidate": ("placements", ("candidate",)),
    "ix_reports_search": ("reports", ("search",)),
    "ix_variants_bundle": ("variants", ("bundle",)),
}
RANKED = {
    "ix_candidates_ranked": ("search", "objective", "ordinal"),
    "ix_candidates_ranked_emitter": ("search", "emitter", "objective", "ordinal"),
}
CONDITION = sa.text("objective IS NOT NULL")


def upgrade() -> None:
    """Add the columns, the table of tags and the indexes."""
    for name, default in LABELS.items():
        op.add_column("searches", sa.Column(name, sa.Text(), nullable=False, server_default=default))
    op.create_table(
        "search_tags",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_search_tags_search_searches"),
        sa.PrimaryKeyConstraint("search", "tag", name="pk_search_tags"),
    )
    op.create_index("ix_search_tags_tag_search", "search_tags", ["tag", "search"])
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, list(columns))
    for name, columns in RANKED.items():
        op.create_index(name, "candidates", list(columns), sqlite_where=CONDITION, postgresql_where=CONDITION)


def downgrade() -> None:
    """Drop what `upgrade` added; names, tags and notes are lost."""
    for name in RANKED:
        op.drop_index(name, table_name="candidates")
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table_name=table)
    op.drop_table("search_tags")
    for name in LABELS:
        op.drop_column("searches", name)
