"""The view of a running search says evaluations, coverage, the best, the emitters, and what failed and why."""

import pytest

from archive.records import Progress
from service.cli.progress import ProgressView
from service.events import CandidateJudged, ElitePromoted
from tests.service import records

PROGRESS = Progress(
    evaluations=7,
    correct=5,
    elites=3,
    cells=12,
    coverage=0.25,
    qd_score=3.5,
    norm_qd_score=3.5 / 12,
    best=1.4,
    outcomes={"correct": 5, "compile_error": 2},
    emitters={"tune": {"judged": 4}, "rewrite": {"judged": 3}},
)


def test_a_line_says_where_the_search_stands(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(records.search()) as view:
        view.show(records.search(), PROGRESS)
    line = capsys.readouterr().err
    for fact in ("running", "7/10 evaluations", "5 correct", "3 of 12 cells", "1.400x", "compile_error 2", "tune"):
        assert fact in line


def test_lines_are_not_repeated_at_every_look(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(records.search()) as view:
        for _ in range(5):
            view.show(records.search(), PROGRESS)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_failures_are_shown_with_their_reason() -> None:
    view = ProgressView(records.search())
    view.note(CandidateJudged("s", "c", 1, "rewrite", "compile_error", "no such name\nat line 3"))
    view.note(ElitePromoted("s", records.DEVICE, 4, "c", 1.5, "improved"))
    assert [text.plain.split() for text in view.recent] == [
        ["rewrite", "compile_error:", "no", "such", "name"],
        ["improved", "cell", "4", "1.500x"],
    ]
