"""The table of published kernels: rows are kept as they become known, beside those of other devices."""

import json
from pathlib import Path

from benchmarks.published import PublishedTable, lacks_harness, row_of
from workers.protocol import Device

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
