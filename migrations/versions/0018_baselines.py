"""Baselines of a search on each device that measures. Objectives of stored searches are over them already.

Revision: 0018
"""

import json
from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and fill it from the reports that elites rest on."""
    op.add_column("searches", sa.Column("baselines", sa.Text(), nullable=False, server_default="{}"))
    connection = op.get_bind()
    statement = """
        SELECT DISTINCT elites.search, elites.device, searches.shapes, reports.document
        FROM elites JOIN searches ON searches.id = elites.search JOIN reports ON reports.job = elites.job
        WHERE reports.provenance = 'measured'
    """
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for search, device, shapes, document in connection.execute(sa.text(statement)):
        if device not in found.setdefault(search, {}):
            baselines = baselines_of(json.loads(shapes), json.loads(document).get("shapes", ()))
            if baselines is not None:
                found[search][device] = baselines
    change = sa.text("UPDATE searches SET baselines = :baselines WHERE id = :search")
    for search, baselines in found.items():
        connection.execute(change, {"search": search, "baselines": json.dumps(baselines, separators=(",", ":"))})


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("searches", "baselines")


def baselines_of(shapes: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the baselines that a report shows; None if a shape has none.

    Args:
        shapes: Shapes of the search, in the order of the report's results where they are benchmarks.
        results: Results of the report, one per benchmark shape.
    """
    weights = [shape.get("weight", 1.0) for shape in shapes if shape.get("role", "benchmark") == "benchmark"]
    if not results or len(weights) != len(results) or not all(each.get("baselines_us") for each in results):
        return None
    gains = [log(min(each["baselines_us"].values()) / each["pacer_us"]) for each in results]
    mid = exp(sum(weight * gain for weight, gain in zip(weights, gains, strict=True)) / sum(weights))
    return {
        "low": mid,
        "mid": mid,
        "high": mid,
        "pacer_us": {each["shape"]: each["pacer_us"] for each in results},
        "times_us": {each["shape"]: each["baselines_us"] for each in results},
    }
