"""Who holds a cell, who is confirmed and who gives it back: every step from what is known, without an archive."""

from dataclasses import replace

import pytest

from archive.records import EMPTY_CELL
from service.evaluation.next_step import (
    CaseFacts,
    CellHolder,
    CellState,
    Confirm,
    GiveBack,
    Hold,
    Promote,
    Repeat,
    ReportFacts,
    Rest,
    SecondTrace,
    Step,
    next_step,
)
from workers.protocol import PRACTICAL_MARGIN, Ratio

MINE, ELITE, OTHER = "mine", "elite", "other"
MARGIN = 1 + PRACTICAL_MARGIN


def ratio(low: float) -> Ratio:
    return Ratio(low=low, mid=low + 0.01, high=low + 0.02)


MEASURED = ReportFacts("measure", correct=True, trusted=True, speedup=ratio(1.5))
CASE = CaseFacts(bundle=MINE, measures=True, trusted_trace=True, retraced=None, reports=(MEASURED,))
EMPTY = CellState()
HELD = CellState(elite=CellHolder(ELITE, 0.99, 1.0))


def confirmed(incumbent: str = EMPTY_CELL, rival: float | None = None, **changes: object) -> ReportFacts:
    """A confirm against an incumbent, with the lower bound of the speedup over it."""
    versus = None if rival is None else ratio(rival)
    known = ReportFacts(f"confirm:{incumbent}", True, True, ratio(1.4), incumbent, versus)
    return replace(known, **changes)  # type: ignore[arg-type]


def held_by(bundle: str, low: float = 1.5, elite: CellHolder | None = None) -> CellState:
    return CellState(elite=elite, provisional=CellHolder(bundle, low, low + 0.01))


def case(*reports: ReportFacts, **changes: object) -> CaseFacts:
    return replace(CASE, reports=(MEASURED, *reports), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "cell", "expected"),
    [
        (0.5, EMPTY, True),
        (1.01, HELD, True),
        (1.0 * MARGIN, HELD, False),
        (1.0, HELD, False),
        (1.6, held_by(OTHER), True),
        (0.9, held_by(OTHER), True),
        (1.6, held_by(OTHER, elite=CellHolder(ELITE, 2.0, 2.1)), False),
    ],
)
def test_a_cell_is_offered_from_a_lower_bound_above_the_middle_of_its_elite(
    low: float, cell: CellState, expected: bool
) -> None:
    report = replace(MEASURED, speedup=ratio(low))
    assert next_step(replace(CASE, reports=(report,)), cell) == (Hold(report) if expected else Rest())


@pytest.mark.parametrize(("low", "yields"), [(1.6, True), (1.51 * MARGIN, False)])
def test_an_untrusted_report_is_repeated_only_if_it_exceeds_the_provisional_holder_too(
    low: float, yields: bool
) -> None:
    given = replace(CASE, reports=(replace(MEASURED, speedup=ratio(low), trusted=False),), trusted_trace=False)
    assert next_step(given, held_by(OTHER)) == (SecondTrace() if yields else Rest())
    assert next_step(replace(given, retraced=True), held_by(OTHER)) == (Repeat() if yields else Rest())


@pytest.mark.parametrize("report", [replace(MEASURED, correct=False), replace(MEASURED, speedup=None)])
def test_without_a_right_answer_and_a_figure_nothing_follows(report: ReportFacts) -> None:
    for measures in (True, False):
        assert next_step(replace(CASE, reports=(report,), measures=measures), EMPTY) == Rest()
    assert next_step(replace(CASE, reports=()), EMPTY) == Rest()


def test_an_untrusted_trace_or_report_alone_decides_nothing() -> None:
    untrusted = replace(MEASURED, trusted=False)
    given = replace(CASE, reports=(untrusted,), trusted_trace=False)
    assert next_step(given, EMPTY) == SecondTrace()
    assert next_step(replace(given, retraced=True), EMPTY) == Repeat()
    assert next_step(replace(given, retraced=False), EMPTY) == Rest()
    repeated = replace(given, retraced=True, reports=(untrusted, MEASURED))
    assert next_step(repeated, EMPTY) == Hold(MEASURED)
    wrong = replace(MEASURED, correct=False, reason="wrong_result: bad")
    assert next_step(replace(repeated, reports=(untrusted, wrong)), EMPTY) == Rest()
    by_a_stranger = confirmed(trusted=False)
    assert next_step(case(by_a_stranger, leads=True), held_by(MINE)) == Confirm(EMPTY_CELL)


def test_only_a_holder_that_leads_is_confirmed() -> None:
    assert next_step(CASE, held_by(MINE)) == Rest()
    assert next_step(replace(CASE, leads=True), held_by(MINE)) == Confirm(EMPTY_CELL)
    assert next_step(replace(CASE, leads=True), held_by(MINE, elite=HELD.elite)) == Confirm(ELITE)
    assert next_step(replace(CASE, leads=True), held_by(OTHER, low=1.6)) == Hold(MEASURED), "it is offered"


@pytest.mark.parametrize(
    ("confirm", "elite", "expected"),
    [
        (confirmed(), None, "promoted"),
        (confirmed(correct=False, reason="nondeterministic: differs"), None, "given back"),
        (confirmed(speedup=None), None, "given back"),
        (confirmed(ELITE, 1.0051), HELD.elite, "promoted"),
        (confirmed(ELITE, MARGIN), HELD.elite, "given back"),
        (confirmed(ELITE, 0.9), HELD.elite, "given back"),
        (confirmed(ELITE), HELD.elite, "given back"),
    ],
)
def test_a_confirm_makes_an_elite_or_gives_the_cell_back(
    confirm: ReportFacts, elite: CellHolder | None, expected: str
) -> None:
    cell = held_by(MINE, elite=elite)
    if expected == "given back":
        step = next_step(case(confirm), cell)
        assert isinstance(step, GiveBack) and step.report == confirm and step.reason
        assert next_step(case(confirm), CellState(elite=elite)) == Rest(), "once given back it stays so"
        return
    assert next_step(case(confirm), cell) == SecondTrace()
    assert next_step(case(confirm, retraced=True), cell) == Promote(confirm)
    refused = next_step(case(confirm, retraced=False), cell)
    assert isinstance(refused, GiveBack) and refused.report is None


def test_who_was_confirmed_against_a_former_elite_meets_the_present_one() -> None:
    early, cell = confirmed(), held_by(MINE, elite=HELD.elite)
    assert next_step(case(early), cell) == Rest()
    assert next_step(case(early, leads=True), cell) == Confirm(ELITE)
    back = confirmed(OTHER, 1.1)
    assert isinstance(next_step(case(confirmed(ELITE, 1.1), back, leads=True, retraced=True), cell), GiveBack)


def test_the_elite_itself_rests() -> None:
    for given in (CASE, case(confirmed(), retraced=True, leads=True)):
        assert next_step(given, CellState(elite=CellHolder(MINE, 1.4, 1.41))) == Rest()


@pytest.mark.parametrize(
    ("objective", "changes", "expected"),
    [
        (None, {}, SecondTrace()),
        (1.4, {"retraced": True}, Promote(MEASURED)),
        (1.4, {"retraced": False}, Rest()),
        (1.4, {"retraced": True, "reports": (replace(MEASURED, trusted=False),)}, Repeat()),
        (1.5, {}, Promote(MEASURED)),
        (1.5, {"trusted_trace": False}, Rest()),
        (1.5, {"reports": (replace(MEASURED, trusted=False),)}, Rest()),
    ],
)
def test_computed_figures_need_no_confirm(objective: float | None, changes: dict[str, object], expected: Step) -> None:
    cell = CellState(None if objective is None else CellHolder("", objective, objective))
    assert next_step(replace(CASE, measures=False, **changes), cell) == expected  # type: ignore[arg-type]
