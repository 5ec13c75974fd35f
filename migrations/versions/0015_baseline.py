"""Baseline: the schema of release 0.1.0, in one revision.

`archive.store.migration` refuses an archive that is older.

Revision: 0015
"""

from alembic import op

from migrations.baseline import metadata

revision = "0015"
down_revision = None
branch_labels = None
depends_on = None

REFUSAL = "the audit log is append-only"


def upgrade() -> None:
    """Create every table, and have the database itself refuse to change the audit log."""
    metadata.create_all(op.get_bind())
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f"CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$"
            f" BEGIN RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit"
            " FOR EACH ROW EXECUTE FUNCTION refuse_change()"
        )
    else:
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{change.lower()} BEFORE {change} ON audit"
                f" BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
            )


def downgrade() -> None:
    """Drop every table, with its triggers."""
    metadata.drop_all(op.get_bind())
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change()")
