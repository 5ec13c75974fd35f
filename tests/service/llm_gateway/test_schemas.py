"""What is shown of prompts and money has the names of what is stored."""

from dataclasses import fields

import pytest
from pydantic import ValidationError

from archive import records
from service.llm_gateway import schemas


@pytest.mark.parametrize(
    "shown, stored, hidden",
    [
        (schemas.PromptSummary, records.ExchangeSummary, {"digest"}),
        (schemas.Prompt, records.Exchange, {"digest"}),
        (schemas.Budget, records.BudgetRecord, {"search"}),
        (schemas.StrategyStats, records.StrategyStatsRecord, {"search"}),
    ],
)
def test_everything_stored_is_shown(shown: type[schemas.LlmResource], stored: type, hidden: set[str]) -> None:
    assert set(shown.model_fields) == {field.name for field in fields(stored)} - hidden


@pytest.mark.parametrize(
    "change", [{"answerer": ""}, {"answerer": "a b"}, {"lease_s": 0}, {"lease_s": 1e9}, {"other": 1}]
)
def test_a_claim_that_cannot_be_right(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        schemas.ClaimRequest.model_validate(change)


@pytest.mark.parametrize(
    "change", [{}, {"text": "x" * 1_000_001}, {"text": "", "cost_usd": -1}, {"text": "", "input_tokens": -1}]
)
def test_an_answer_that_cannot_be_right(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        schemas.AnswerRequest.model_validate(change)


def test_what_may_be_left_out() -> None:
    assert schemas.ClaimRequest().lease_s == schemas.LEASE_S
    assert schemas.AnswerRequest(text="x").cost_usd is None
