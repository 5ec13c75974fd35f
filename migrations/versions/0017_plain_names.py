"""Rename tables and columns to the words of the glossary. Every row stays.

Revision: 0017
"""

from collections.abc import Mapping

import sqlalchemy as sa
from alembic import op

from migrations.plain_names import COLUMNS, TABLES

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

STOP_RULE = ("judging_s", "device_seconds")


def upgrade() -> None:
    """Rename tables, columns and the stop rule of stored searches."""
    _rename(TABLES, COLUMNS)
    _rename_stop_rule(*STOP_RULE)


def downgrade() -> None:
    """Give everything its former name."""
    columns = {table: {new: old for old, new in names.items()} for table, names in COLUMNS.items()}
    _rename({new: old for old, new in TABLES.items()}, columns)
    _rename_stop_rule(*reversed(STOP_RULE))


def _rename(tables: Mapping[str, str], columns: Mapping[str, Mapping[str, str]]) -> None:
    inspector = sa.inspect(op.get_bind())
    for old, new in tables.items():
        constraints = [inspector.get_pk_constraint(old), *inspector.get_foreign_keys(old)]
        indexes = inspector.get_indexes(old)
        for index in indexes:
            op.drop_index(index["name"], table_name=old)
        op.rename_table(old, new)
        for index in indexes:
            op.create_index(_name(index["name"], old, new), new, index["column_names"])
        if op.get_bind().dialect.name == "postgresql":  # SQLite keeps a constraint's name inside its table only.
            for constraint in constraints:
                name = constraint["name"]
                op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT {name} TO {_name(name, old, new)}")
    for table, names in columns.items():
        for old, new in names.items():
            op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


def _name(name: str, old: str, new: str) -> str:
    """Name of an index or constraint, of which a table's name is the second word."""
    return name.replace(f"_{old}", f"_{new}", 1)


def _rename_stop_rule(old: str, new: str) -> None:
    statement = sa.text("""UPDATE searches SET stop = replace(stop, :old, :new) WHERE stop LIKE '%' || :old || '%'""")
    op.execute(statement.bindparams(old=f'"{old}"', new=f'"{new}"'))
