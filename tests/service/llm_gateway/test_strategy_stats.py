"""What came of asking, as figures."""

from dataclasses import replace

import pytest

from archive.records import Attempt, ExchangeState, ExchangeSummary, OfferOutcome, StrategyStatsRecord
from service.emitters.base import StrategyRecord
from service.llm_gateway.strategy_stats import records, standings
from tests.service.records import NOW


def arm(backend: str, strategy: str, calls: int = 1, **changes: object) -> StrategyStatsRecord:
    values = {"tokens": 100 * calls, "usd": 0.5 * calls, "unpriced": 0, "candidates": 0, **changes}
    return StrategyStatsRecord("search-1", backend, strategy, calls, **values)  # type: ignore[arg-type]


def asked(
    id: str, strategy: str, outcome: str | None, candidate: str | None = None, **changes: object
) -> ExchangeSummary:
    values: dict[str, object] = {
        "id": id, "search": "search-1", "ordinal": 0, "step": 0, "digest": id, "backend": "a", "strategy": strategy,
        "template": "", "claims": {}, "parents": (), "cell": None, "max_tokens": 1, "state": ExchangeState.ANSWERED,
        "reason": "", "claimed_by": None, "lease_until": None, "model": "", "input_tokens": 0, "output_tokens": 0,
        "cost_usd": None, "truncated": False, "outcome": outcome, "outcome_reason": "", "candidate": candidate,
        "opened_at": NOW, "answered_at": None, "concluded_at": None,
    }  # fmt: skip
    return ExchangeSummary(**{**values, **changes})  # type: ignore[arg-type]


def attempt(id: str, outcome: str | None = "correct", parents: tuple[str, ...] = ()) -> Attempt:
    return Attempt(id, parents, "", outcome, None)


def test_candidates_promotions_and_gain_are_those_of_the_answers() -> None:
    exchanges = [
        asked("1", "improve", "candidate", "x"),
        asked("2", "improve", "unusable"),
        asked("3", "improve", "duplicate"),
    ]
    landings = [
        OfferOutcome("x", "d", 3, 0.5, filled=True),
        OfferOutcome("x", "e", 4, 0.25),
        OfferOutcome("x", "d", 5, None),
        OfferOutcome("seed", "d", 0, 1.0),
    ]
    (row,) = standings([arm("a", "improve", 3)], exchanges, [attempt("x")], landings).rows
    assert (row.calls, row.unusable, row.candidates, row.correct, row.promotions, row.gain) == (3, 1, 1, 1, 2, 0.75)
    assert row.usd == 1.5 and row.gain_per_cost == pytest.approx(0.5)
    assert (row.filled, row.cost_per_promotion, row.cost_per_filled) == (1, 0.75, 1.5)
    assert row.hit_rate is None and row.repair_rate is None


def test_variations_of_a_template_count_for_its_answer() -> None:
    attempts = [
        attempt("x"),
        attempt("y", "hang", ("x",)),
        attempt("z", "correct", ("x",)),
        attempt("other", parents=("x",)),
    ]
    exchanges = [asked("1", "tune", "candidate", "x"), asked("2", "improve", "candidate", "other")]
    improve, tune = standings([], exchanges, attempts, [OfferOutcome("z", "d", 1, 0.1)]).rows
    assert (tune.candidates, tune.correct, tune.promotions) == (3, 2, 1)
    assert (improve.candidates, improve.promotions) == (1, 0)


def test_credit_goes_to_the_exchange_that_a_candidate_is_from() -> None:
    attempts = [
        attempt("x"),
        replace(attempt("y", parents=("x",)), exchange="2"),
        replace(attempt("z", parents=("x",)), exchange="2"),
    ]
    exchanges = [asked("1", "improve", "candidate", "x"), asked("2", "tune", "duplicate")]
    improve, tune = standings([], exchanges, attempts, [OfferOutcome("z", "d", 1, 0.1)]).rows
    assert (improve.candidates, improve.promotions) == (1, 0), "a template whose first kernel was known keeps its own"
    assert (tune.candidates, tune.correct, tune.promotions) == (2, 2, 1)


def test_the_hit_rate_is_of_answers_for_a_named_cell() -> None:
    exchanges = [
        asked("1", "explore", "candidate", "x", cell=7),
        asked("2", "explore", "candidate", "y", cell=7),
        asked("3", "explore", "unusable", cell=7),
        asked("4", "explore", None, cell=7),
    ]
    landings = [OfferOutcome("x", "d", 7, None), OfferOutcome("y", "d", 8, 0.5)]
    (row,) = standings([], exchanges, [attempt("x"), attempt("y")], landings).rows
    assert (row.aimed, row.hits, row.hit_rate) == (3, 1, pytest.approx(1 / 3))


def test_the_repair_rate_is_of_repairs() -> None:
    exchanges = [
        asked("1", "repair", "candidate", "x"),
        asked("2", "repair", "candidate", "y"),
        asked("3", "repair", None, state=ExchangeState.REFUSED),
        asked("4", "repair", None, state=ExchangeState.FAILED),
    ]
    (row,) = standings([], exchanges, [attempt("x"), attempt("y", "hang")], []).rows
    assert (row.repairs, row.repaired, row.unusable) == (3, 1, 1) and row.repair_rate == pytest.approx(1 / 3)


def test_steps_of_a_conversation_are_no_answers_of_their_own() -> None:
    exchanges = [asked("1", "agentic", "step", cell=3), asked("2", "agentic", "candidate", "x")]
    (row,) = standings([], exchanges, [attempt("x", None)], []).rows
    assert (row.aimed, row.candidates, row.correct) == (0, 1, 0)


@pytest.mark.parametrize(
    "arms, unit, costs",
    [
        ([arm("a", "improve", 2), arm("b", "improve", 1)], "usd", [1.0, 0.5]),
        ([arm("a", "improve", 2), arm("b", "improve", 1, unpriced=1)], "tokens", [200.0, 100.0]),
        ([arm("a", "improve", 2), arm("b", "improve", 1, usd=0.0)], "tokens", [200.0, 100.0]),
        ([arm("a", "improve", 2), arm("b", "improve", 1, tokens=0, unpriced=1)], "calls", [2.0, 1.0]),
        ([], "calls", []),
    ],
)
def test_costs_are_counted_in_what_is_known_of_every_call(
    arms: list[StrategyStatsRecord], unit: str, costs: list[float]
) -> None:
    found = standings(arms, [], [], [])
    assert found.unit == unit and [record.cost for record in records(found)] == costs
    assert [row.usd for row in found.rows] == [None if item.unpriced else item.usd for item in arms]


def test_the_choice_knows_the_same_figures() -> None:
    found = standings(
        [arm("a", "improve", 2)],
        [asked("1", "improve", "candidate", "x")],
        [attempt("x")],
        [OfferOutcome("x", "d", 1, 0.5)],
    )
    assert records(found) == (StrategyRecord("a", "improve", 2, 1.0, 1, 0.5),)
