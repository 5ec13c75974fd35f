"""Shared parts of all tables: the metadata they register with, and kinds of columns."""

from sqlalchemy import BigInteger, Column, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def sequence() -> Column[int]:
    """Define a number that grows with every row; SQLite counts only plain integer keys by itself."""
    return Column("seq", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True)
