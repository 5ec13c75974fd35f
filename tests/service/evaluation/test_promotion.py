"""Who takes a cell: a confirm that is correct, trusted, and faster than the incumbent."""

import pytest

from archive.records import EMPTY_CELL
from service.evaluation.jobs import confirm_id
from service.evaluation.promotion import first_benchmark, outdoes
from tests.service import records
from workers.protocol import PRACTICAL_MARGIN, Device, Outcome, Ratio, Report, Trust

H200 = Device.parse("h200")
BASELINE_US = {"N=1024": 10.0, "N=4096": 10.0}
WEIGHTS = {"N=1024": 1.0, "N=4096": 3.0}
SPEEDUP = Ratio(low=1.2, mid=1.25, high=1.3)


def confirm(incumbent: str, low: float | None = None, **changes: object) -> Report:
    rival = None if low is None else Ratio(low=low, mid=low + 0.01, high=low + 0.02)
    fields = {"kind": "confirm", "job": confirm_id("c", 0, "h200", incumbent), "device": H200, "speedup": SPEEDUP}
    return records.report({}, **{**fields, "rival": rival, **changes})


def test_coordinates_come_from_the_first_benchmark_shape() -> None:
    assert first_benchmark(records.search()) == 1


def test_an_empty_cell_takes_whoever_is_still_correct() -> None:
    assert outdoes(confirm(EMPTY_CELL))
    assert not outdoes(confirm(EMPTY_CELL, outcome=Outcome.NONDETERMINISTIC))
    assert [outdoes(confirm(EMPTY_CELL, trust=trust)) for trust in (Trust.B, Trust.D)] == [True, False]


@pytest.mark.parametrize(
    ("low", "outdone"),
    [(None, False), (0.99, False), (1.0, False), (1 + PRACTICAL_MARGIN, False), (1.0051, True), (2.0, True)],
)
def test_an_incumbent_is_beaten_by_more_than_the_margin_or_not_at_all(low: float | None, outdone: bool) -> None:
    assert outdoes(confirm("b" * 64, low)) is outdone
    assert not outdoes(confirm("b" * 64, low, outcome=Outcome.WORKER_LOST))
