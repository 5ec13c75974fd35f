"""The table of published kernels: rows are kept as they become known, beside those of other devices."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import PriorityQueue
from typing import Any

import pytest

from benchmarks import published
from benchmarks.published import PublishedTable, chosen, lacks_harness, measure_all, row_of
from workers.protocol import Answer, Device, ExecutorFailure

ABOUT = {"repository": "someone/kernels", "commit": "0" * 40, "operator": "softmax"}
MODEL, CARD = Device.parse("model:sm_90"), Device.parse("h200")


def folder_of(place: Path, name: str, **more: object) -> Path:
    (place / name).mkdir()
    (place / name / "kernel.json").write_text(json.dumps(ABOUT | {"path": f"{name}.py"} | more))
    return place / name


def row(name: str, device: Device, outcome: str, fine: bool | None) -> dict[str, object]:
    told = {"path": f"{name}.py", "device": device.name, "edits": 1, "fine": fine, "outcome": outcome, "reason": ""}
    return ABOUT | told


def test_rows_of_a_card_stand_beside_those_of_the_model(tmp_path: Path) -> None:
    one, other = (folder_of(tmp_path, name) for name in ("001_one", "002_other"))
    out = tmp_path / "published.json"
    model = PublishedTable(out, MODEL)
    model.put(one, row("001_one", MODEL, "correct", True))
    model.put(other, row("002_other", MODEL, "precision", True))
    model.put(other, row("002_other", MODEL, "correct", False))

    card = PublishedTable(out, CARD)
    assert card.known(one) == {}
    card.put(one, row("001_one", CARD, "wrong_result", None) | {"card": "NVIDIA H200"})

    document = json.loads(out.read_text())
    assert [(each["path"], each["device"], each["outcome"]) for each in document["rows"]] == [
        ("001_one.py", "model:sm_90", "correct"),
        ("002_other.py", "model:sm_90", "correct"),
        ("001_one.py", "h200", "wrong_result"),
    ]
    assert document["summary"]["model:sm_90"] | {"outcomes": None} == {
        **{"drawn": 2, "tried": 2, "repositories": 1, "fine": 1, "accepted": 1, "share": 1.0, "outcomes": None},
        "accepted_though_not_fine": 1,
    }
    assert document["summary"]["h200"]["fine"] == 0, "the harness has not run on the card"
    assert {name: (made["machine"]["gpu"], bool(made["date"])) for name, made in document["made"].items()} == {
        "model:sm_90": (None, True),
        "h200": ("NVIDIA H200", True),
    }
    assert document["command"] == "python -m benchmarks.published FOLDER --device h200"
    assert PublishedTable(out, CARD).known(one)["outcome"] == "wrong_result"


def test_rows_of_another_machine_replace_all_of_its_device(tmp_path: Path) -> None:
    one, other = (folder_of(tmp_path, name) for name in ("001_one", "002_other"))
    here, there = tmp_path / "published.json", tmp_path / "there.json"
    PublishedTable(here, MODEL).put(one, row("001_one", MODEL, "correct", True))
    PublishedTable(here, CARD).put(one, row("001_one", CARD, "precision", True))
    PublishedTable(there, CARD).put(other, row("002_other", CARD, "correct", True) | {"card": "NVIDIA H200"})

    PublishedTable(here, MODEL).join(there)

    document = json.loads(here.read_text())
    assert [(each["path"], each["device"]) for each in document["rows"]] == [
        ("001_one.py", "model:sm_90"),
        ("002_other.py", "h200"),
    ]
    assert document["summary"]["h200"]["share"] == 1.0 and document["made"]["h200"]["machine"]["gpu"] == "NVIDIA H200"
    assert document["command"] == json.loads(there.read_text())["command"]


def test_a_kernel_without_an_operator_ends_no_run(tmp_path: Path) -> None:
    found, jobs = row_of(folder_of(tmp_path, "001_one", main="a.py", edits=0), CARD, {}, again=False)
    assert (found["outcome"], jobs) == ("not judged", ()) and found["reason"]


def test_a_kernel_that_was_not_tried_has_a_row_with_the_reason(tmp_path: Path) -> None:
    found, jobs = row_of(folder_of(tmp_path, "001_one", why="no spec"), CARD, {}, again=False)
    assert (found["outcome"], found["reason"], found["edits"], jobs) == ("not tried", "no spec", None, ())
    assert not lacks_harness(found)
    assert lacks_harness(row("002_other", CARD, "correct", None))
    assert not lacks_harness(row("002_other", CARD, "correct", False))


def test_folders_of_first_have_their_turn_before_the_others(tmp_path: Path) -> None:
    names = ["001_one", "002_other", "003_slow"]
    for name in names:
        folder_of(tmp_path, name)
    assert [path.name for path in chosen(tmp_path, (), ())] == names
    assert [path.name for path in chosen(tmp_path, (), ("003",))] == ["003_slow", "001_one", "002_other"]
    assert [path.name for path in chosen(tmp_path, ("003", "001"), ("002", "003"))] == ["003_slow", "001_one"]


def test_the_first_kernel_is_measured_before_those_that_were_traced_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, *others = (folder_of(tmp_path, name) for name in ("003_slow", "001_one", "002_other"))
    all_wait, one_runs, measured, patience = threading.Event(), threading.Event(), list[str](), list[float]()

    class Traced(PriorityQueue[Any]):
        """A queue that tells when the slow kernel is in it."""

        def put(self, item: Any, *_: Any) -> None:
            super().put(item)
            if item[0] == 0:
                all_wait.set()

    class Team:
        """An executor that begins its second job once all are traced."""

        def __init__(self, command: object, patience_s: float) -> None:
            patience.append(patience_s)

        def ask(self, job: Any) -> Answer:
            measured.append(job)
            one_runs.set()
            assert all_wait.wait(60)
            return ExecutorFailure(error="no card", transient=True)

        def close(self) -> None:
            """Do nothing."""

    def row_of(folder: Path, *_: object) -> tuple[dict[str, object], tuple[Any, ...]]:
        assert folder != slow or one_runs.wait(60)
        return row(folder.name, CARD, "", None), (folder.name,)

    monkeypatch.setattr(published, "row_of", row_of)
    monkeypatch.setattr(published, "PriorityQueue", Traced)
    monkeypatch.setattr(published, "Team", Team)
    table: Any = PublishedTable(tmp_path / "published.json", CARD)
    with ThreadPoolExecutor(3) as pool:
        measure_all([slow, *others], table, pool, 1, 7.0)  # type: ignore[arg-type]
    assert patience == [7.0] and len(measured) == 6, "a job that the machine failed is asked twice"
    assert measured[2:4] == ["003_slow", "003_slow"]
    told = json.loads((tmp_path / "published.json").read_text())["rows"]
    assert {each["outcome"] for each in told} == {"not judged"} and all(each["judged_s"] >= 0 for each in told)
