"""Columns of prompts and money are named like the fields of their records."""

from dataclasses import fields
from typing import Any

import pytest

from archive import records, tables


@pytest.mark.parametrize(
    "table, record, besides",
    [
        (tables.exchanges, records.Exchange, set()),
        (tables.charges, records.Charge, {"created_at"}),
        (tables.llm_budgets, records.BudgetRecord, set()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_record_is_a_row(table: Any, record: type, besides: set[str]) -> None:
    assert {field.name for field in fields(record)} | besides == set(table.c.keys())


def test_statistics_of_a_strategy_are_a_row_and_its_outcomes() -> None:
    assert {field.name for field in fields(records.StrategyStatsRecord)} - {"outcomes"} == set(
        tables.llm_stats.c.keys()
    )
    assert {"outcome", "count"} < set(tables.llm_outcomes.c.keys())
