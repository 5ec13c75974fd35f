"""The view of a running search says evaluations, coverage, the best, the emitters, and what failed and why."""

import time

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


def test_a_device_that_nobody_serves_is_named_once_that_lasts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.progress.PLAIN_EVERY_S", 0.0)
    monkeypatch.setattr("service.cli.progress.PATIENCE_S", 0.02)
    view, search = ProgressView(records.search()), records.search(devices=("h200",))
    view.show(search, PROGRESS, ["h200"])
    assert "nobody" not in capsys.readouterr().err
    time.sleep(0.03)
    view.show(search, PROGRESS, ["h200"])
    assert "nobody measures on h200" in capsys.readouterr().err
    view.show(search, PROGRESS, [])
    view.show(search, PROGRESS, ["h200"])
    assert "nobody" not in capsys.readouterr().err


def test_failures_are_shown_with_their_reason() -> None:
    view = ProgressView(records.search())
    view.note(CandidateJudged("s", "c", 1, "rewrite", "compile_error", "no such name\nat line 3"))
    view.note(ElitePromoted("s", records.DEVICE, 4, "c", 1.5, "improved"))
    assert [text.plain.split() for text in view.recent] == [
        ["rewrite", "compile_error:", "no", "such", "name"],
        ["improved", "cell", "4", "1.500x"],
    ]
