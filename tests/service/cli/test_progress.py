"""The view of a running search says evaluations, coverage, the best, the emitters, and what failed and why."""

import time

import pytest

from archive import records as records_of
from kernelreef import Event
from kernelreef.models import Progress
from kernelreef.states import SearchState
from service.api.builders import device_progress_of, search_of
from service.api.examples import EXAMPLES
from service.cli.progress import ProgressView
from tests.service import records

HERE = device_progress_of(
    records.search(),
    records.DEVICE,
    records_of.ProgressRecord(
        evaluated=7,
        correct=5,
        elites=3,
        cells=12,
        coverage=0.25,
        qd_score=3.5,
        norm_qd_score=3.5 / 12,
        best=1.4,
        outcomes={"correct": 5, "compile_error": 2},
        emitters={"tune": {"judged": 4}, "rewrite": {"judged": 3}},
    ),
)
PROGRESS = Progress.model_validate({**EXAMPLES["Progress"], "evaluations": 10, "devices": [HERE]})
SEARCH = search_of(records.search())


def test_a_line_says_where_the_search_stands(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(SEARCH) as view:
        view.show(PROGRESS)
    line = capsys.readouterr().err
    assert "42 s, 273 s left] tracing 2, evaluating 6:" in line
    for fact in (
        "7/10 evaluations",
        "5 correct",
        "3 of 12 cells",
        "1.400x",
        "compile_error 2",
        "tune",
    ):
        assert fact in line


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"left_s": 17.6, "evaluated": 3}, "s, 18 s left] "),
        ({"left_s": 60.0, "evaluated": 0}, "s, 60 s left from the first verdict] "),
        ({"left_s": None}, "42 s] tracing"),
        ({"left_s": 0.0, "state": "done", "activity": "", "finishing": False}, "42 s] done: "),
        (
            {"state": "done", "activity": "examining finalists 2 of 3", "finishing": True},
            "42 s] done, examining finalists 2 of 3: ",
        ),
    ],
)
def test_a_line_says_what_time_is_left_and_what_a_done_search_lacks(
    changes: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressView(SEARCH) as view:
        view.show(PROGRESS.model_copy(update={**changes, "state": SearchState(changes.get("state", "running"))}))
    assert said in capsys.readouterr().err


def test_lines_are_not_repeated_at_every_look(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressView(SEARCH) as view:
        for _ in range(5):
            view.show(PROGRESS)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_line_that_says_nothing_new_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.progress.PLAIN_EVERY_S", -1.0)
    with ProgressView(SEARCH) as view:
        for seconds in (42.0, 42.0, 48.0):
            view.show(PROGRESS.model_copy(update={"elapsed_s": seconds}))
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_whom_a_search_waits_for_is_said_once_that_lasts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cli.progress.PLAIN_EVERY_S", 0.0)
    monkeypatch.setattr("service.cli.progress.PATIENCE_S", 0.02)
    view, alone = (
        ProgressView(SEARCH),
        PROGRESS.model_copy(update={"missing_workers": ("a worker that judges on h200",)}),
    )
    view.show(alone)
    assert "waits for" not in capsys.readouterr().err
    time.sleep(0.03)
    view.show(alone)
    assert "waits for a worker that judges on h200, and none is connected" in capsys.readouterr().err
    view.show(PROGRESS)
    view.show(alone)
    assert "waits for" not in capsys.readouterr().err


def test_failures_are_shown_with_their_reason() -> None:
    view = ProgressView(SEARCH)
    failed = {"emitter": "rewrite", "outcome": "compile_error", "reason": "no such name\nat line 3"}
    view.note(Event(id="a-1", kind="candidate.judged", at=records.NOW, data=failed))
    promoted = {"placement": "improved", "cell": 4, "objective": 1.5}
    view.note(Event(id="a-2", kind="elite.promoted", at=records.NOW, data=promoted))
    assert [text.plain.split() for text in view.recent] == [
        ["rewrite", "compile_error:", "no", "such", "name"],
        ["improved", "cell", "4", "1.500x"],
    ]


@pytest.mark.parametrize("standing", ["failed", "passed"])
def test_a_finalist_that_fails_is_told_with_its_reason(standing: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        "standing": standing,
        "candidate": "01a22980",
        "reason": "out_of_bounds: memcheck: [a] write",
        "device": "h200",
    }
    ProgressView(SEARCH).note(Event(id="a-1", kind="elite.examined", at=records.NOW, data=found))
    told = " ".join(capsys.readouterr().err.split())
    assert told.endswith("fails its examination and is no elite: out_of_bounds: memcheck: [a] write") == (
        standing == "failed"
    )
