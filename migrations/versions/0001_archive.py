"""The archive as first laid down.

Revision: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UNFINISHED = sa.text("state <> 'judged'")


def upgrade() -> None:
    """Create every table."""
    _searches()
    _candidates()
    _reports()
    _cells()


def downgrade() -> None:
    """Drop every table, dependants first."""
    for table in (
        "placements",
        "elites",
        "reports",
        "variants",
        "bundles",
        "candidates",
        "tallies",
        "counters",
        "searches",
        "operators",
    ):
        op.drop_table(table)


def _searches() -> None:
    """What is searched for, and how far each search is."""
    op.create_table(
        "operators",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_operators"),
    )
    op.create_index("ix_operators_name_created_at", "operators", ["name", "created_at"])
    op.create_table(
        "searches",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("operator_name", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("emitters", sa.Text(), nullable=False),
        sa.Column("axes", sa.Text(), nullable=False),
        sa.Column("axes_version", sa.Integer(), nullable=False),
        sa.Column("budget", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("shapes", sa.Text(), nullable=False),
        sa.Column("graphs", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["operator"], ["operators.digest"], name="fk_searches_operator_operators"),
        sa.PrimaryKeyConstraint("id", name="pk_searches"),
    )
    op.create_index("ix_searches_state_id", "searches", ["state", "id"])
    op.create_table(
        "counters",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("proposals", sa.BigInteger(), nullable=False),
        sa.Column("candidates", sa.BigInteger(), nullable=False),
        sa.Column("judged", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_counters_search_searches"),
        sa.PrimaryKeyConstraint("search", name="pk_counters"),
    )
    op.create_table(
        "tallies",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("emitter", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_tallies_search_searches"),
        sa.PrimaryKeyConstraint("search", "device", "emitter", "event", name="pk_tallies"),
    )


def _candidates() -> None:
    """What was proposed and traced."""
    op.create_table(
        "candidates",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("emitter", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("trace_key", sa.Text(), nullable=False),
        sa.Column("parents", sa.Text(), nullable=False),
        sa.Column("children", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=True),
        sa.Column("objective", sa.Double(), nullable=True),
        sa.Column("stages_s", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_candidates_search_searches"),
        sa.PrimaryKeyConstraint("id", name="pk_candidates"),
        sa.UniqueConstraint("search", "digest", name="uq_candidates_search_digest"),
        sa.UniqueConstraint("search", "ordinal", name="uq_candidates_search_ordinal"),
    )
    op.create_index("ix_candidates_search_emitter_ordinal", "candidates", ["search", "emitter", "ordinal"])
    op.create_index("ix_candidates_search_outcome_ordinal", "candidates", ["search", "outcome", "ordinal"])
    op.create_index("ix_candidates_trace_key", "candidates", ["trace_key"])
    op.create_index(
        "ix_candidates_unfinished",
        "candidates",
        ["search", "ordinal"],
        sqlite_where=UNFINISHED,
        postgresql_where=UNFINISHED,
    )
    op.create_table(
        "bundles",
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("readings", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("identity", name="pk_bundles"),
    )
    op.create_table(
        "variants",
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["bundle"], ["bundles.identity"], name="fk_variants_bundle_bundles"),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name="fk_variants_candidate_candidates"),
        sa.PrimaryKeyConstraint("candidate", "index", name="pk_variants"),
    )


def _reports() -> None:
    """What was judged."""
    op.create_table(
        "reports",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("variant", sa.Integer(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("protocol_version", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name="fk_reports_candidate_candidates"),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_reports_search_searches"),
        sa.PrimaryKeyConstraint("seq", name="pk_reports"),
        sa.UniqueConstraint("job", name="uq_reports_job"),
    )
    op.create_index("ix_reports_candidate_seq", "reports", ["candidate", "seq"])
    op.create_index("ix_reports_reuse", "reports", ["bundle", "device", "operator", "protocol_version", "seq"])


def _cells() -> None:
    """Who holds which cell, and every offer."""
    op.create_table(
        "elites",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("axes_version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cell", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("coordinates", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("variant", sa.Integer(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("emitter", sa.Text(), nullable=False),
        sa.Column("objective", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("mid", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name="fk_elites_candidate_candidates"),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_elites_search_searches"),
        sa.PrimaryKeyConstraint("search", "device", "axes_version", "cell", name="pk_elites"),
    )
    op.create_index("ix_elites_objective", "elites", ["search", "device", "axes_version", "objective"])
    op.create_table(
        "placements",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("axes_version", sa.Integer(), nullable=False),
        sa.Column("cell", sa.Integer(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("variant", sa.Integer(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("emitter", sa.Text(), nullable=False),
        sa.Column("objective", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("mid", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("offered_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["candidate"], ["candidates.id"], name="fk_placements_candidate_candidates"),
        sa.ForeignKeyConstraint(["search"], ["searches.id"], name="fk_placements_search_searches"),
        sa.PrimaryKeyConstraint("seq", name="pk_placements"),
        sa.UniqueConstraint("job", "axes_version", "cell", name="uq_placements_job_axes_version_cell"),
    )
    op.create_index("ix_placements_search_device_cell_seq", "placements", ["search", "device", "cell", "seq"])
    op.create_index("ix_placements_search_device_seq", "placements", ["search", "device", "seq"])
