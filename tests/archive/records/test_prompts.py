"""Records of prompts hold what a table row holds, and nothing that can change."""

from dataclasses import FrozenInstanceError, fields

import pytest

from archive.records import (
    Charge,
    ChargeState,
    Exchange,
    ExchangeSummary,
    NewCharge,
    NewExchange,
    SpendingLimits,
    StrategyStatsRecord,
)


def test_a_stored_exchange_has_everything_that_was_asked() -> None:
    asked = {field.name for field in fields(NewExchange)}
    assert asked <= {field.name for field in fields(Exchange)}
    assert {field.name for field in fields(Exchange)} - {field.name for field in fields(ExchangeSummary)} == {
        "system",
        "user",
        "text",
    }


def test_a_charge_begins_as_reserved() -> None:
    new = NewCharge("id", "exchange", "search", "backend", "improve", 10, None)
    assert Charge(**vars(new)).state is ChargeState.RESERVED


def test_without_limits_nothing_is_limited() -> None:
    assert (SpendingLimits().calls, SpendingLimits().tokens, SpendingLimits().usd) == (None, None, None)


def test_what_a_caller_holds_never_changes() -> None:
    arm = StrategyStatsRecord("search", "backend", "improve", 1, 2, 0.5, 0, 1)
    with pytest.raises(FrozenInstanceError):
        arm.calls = 2  # type: ignore[misc]
