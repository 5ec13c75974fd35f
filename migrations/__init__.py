"""Alembic migrations of the archive's schema."""
