"""`submit` and `watch`: what is sent, and what is said at the end. `tests/journeys/test_remote.py` runs both."""

import json
from pathlib import Path

import pytest

from archive.records import SearchState
from kernelreef.models import Archive, Progress, ScreeningReport
from service.api.examples import EXAMPLES
from service.cli.watch import conclude, operator_of, options_of, terms_of
from service.errors import InvalidInput
from service.operators.catalogue import load_catalogue
from tests.service.cli.test_operators import spec

PROGRESS = Progress.model_validate(EXAMPLES["Progress"]).model_copy(update={"state": SearchState.DONE})
ARCHIVE = Archive.model_validate(EXAMPLES["Archive"])
EMPTY = ARCHIVE.model_copy(update={"elites": ()})


def test_names_are_left_to_the_service_and_files_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert operator_of("rmsnorm") == "rmsnorm"
    assert operator_of("0" * 64) == "0" * 64
    path = spec(tmp_path, "double", "x * 2")
    assert operator_of(path).name == operator_of(f"{path}/operator.toml").name == "double"
    monkeypatch.chdir(tmp_path)
    assert operator_of("double").name == "double"
    (tmp_path / "rmsnorm").mkdir()
    assert operator_of("rmsnorm") == "rmsnorm" and "rmsnorm" in load_catalogue()
    with pytest.raises(InvalidInput, match="neither a file"):
        operator_of("nothing.toml")


def test_options_become_a_request() -> None:
    assert options_of(None, 7, "tune, rewrite,", 3) == {
        "devices": ("model:sm_90",),
        "emitters": ("tune", "rewrite"),
        "evaluations": 7,
        "seed": 3,
        "priority": 5,
    }
    with pytest.raises(InvalidInput) as caught:
        options_of(["h200"], 0, "tune", 0)
    assert caught.value.field == "evaluations"
    with pytest.raises(InvalidInput) as caught:
        options_of(["h200"], 9, "tune", 0, priority=10)
    assert caught.value.field == "priority"


def test_naming_a_backend_adds_the_emitter_that_asks_it() -> None:
    terms = terms_of("local", "", None, None, None)
    assert options_of(None, None, None, 0, terms=terms)["emitters"] == ("tune", "rewrite", "llm")
    assert options_of(None, None, None, 0)["emitters"] == ("tune", "rewrite")
    assert options_of(None, None, "tune", 0, terms=terms)["emitters"] == ("tune",), "the service refuses it"
    assert options_of(None, None, None, 0)["evaluations"] == 200


def test_what_models_may_cost_is_said_with_options() -> None:
    terms = terms_of("local, other", "improve", 40, None, 2.5)
    assert terms == {"backends": ["local", "other"], "strategies": ["improve"], "calls": 40, "usd": 2.5}
    options = options_of(None, 7, "tune,llm", 3, priority=9, terms=terms)
    assert (options["llm"], options["priority"]) == (terms, 9)
    assert terms_of("", "", None, None, None) is None
    for orphan in (("", "improve", None, None, None), ("", "", 3, None, None), ("", "", None, None, 0.5)):
        with pytest.raises(InvalidInput, match="--llm BACKEND"):
            terms_of(*orphan)
    with pytest.raises(InvalidInput) as caught:
        options_of(None, 7, "llm", 3, terms=terms_of("local", "", None, None, -1.0))
    assert caught.value.field == "llm.usd"


@pytest.mark.parametrize(
    ("state", "archive", "code"),
    [
        (SearchState.DONE, ARCHIVE, 0),
        (SearchState.STOPPED, ARCHIVE, 0),
        (SearchState.DONE, EMPTY, 3),
        (SearchState.FAILED, ARCHIVE, 1),
    ],
)
def test_the_end_has_its_exit_code(
    state: SearchState, archive: Archive, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = PROGRESS.model_copy(update={"state": state})
    assert conclude(ended, archive, None, as_json=True) == code
    shown = json.loads(capsys.readouterr().out)
    assert (shown["state"], shown["best"], shown["figures"][:9]) == (state.value, 1.31, "PREDICTED")
    assert conclude(ended, archive, Path("kernel.py"), as_json=False) == code


@pytest.mark.parametrize(
    ("examined", "said"),
    [(1, "1 of 3 finalists are examined; "), (3, "its baselines are not measured yet; ")],
)
def test_what_a_done_search_lacks_is_said_at_the_end(
    examined: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"state": SearchState.DONE, "reason": "", "finalists": 3, "examined": examined}
    conclude(PROGRESS.model_copy(update={**done, "finishing": True}), ARCHIVE, None, as_json=False)
    told = capsys.readouterr().err.replace("\n", " ")
    assert said in told and f"reef search --resume {PROGRESS.search}" in told
    conclude(PROGRESS.model_copy(update={**done, "finishing": False}), ARCHIVE, None, as_json=False)
    assert "--resume" not in capsys.readouterr().err
    conclude(PROGRESS.model_copy(update={**done, "finishing": True}), ARCHIVE, None, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["finishing"], shown["finalists"], shown["examined"]) == (True, 3, examined)


def test_what_screening_saved_is_said_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    conclude(PROGRESS, ARCHIVE, None, as_json=True)
    assert json.loads(capsys.readouterr().out)["screening"] is None
    conclude(PROGRESS, ARCHIVE, None, as_json=False)
    assert "Screening" not in capsys.readouterr().out
    here = PROGRESS.devices[0].model_copy(update={"emitters": {"tune": {"screened": 9}, "rewrite": {"screened": 4}}})
    screening = ScreeningReport(chosen=20, chosen_promotions=10, blind=40, blind_promotions=4, saved=80.0)
    ended = PROGRESS.model_copy(update={"devices": (here,), "screening": screening})
    conclude(ended, ARCHIVE, None, as_json=True)
    assert json.loads(capsys.readouterr().out)["screening"] == {"dropped": 13, **screening.model_dump()}
    conclude(ended, ARCHIVE, None, as_json=False)
    assert screening.in_words(13) in capsys.readouterr().out.replace("\n", " ")
