"""Rows of cards among those of traces: they replace their own kind alone."""

import contextlib
import fcntl
import json
from pathlib import Path

import pytest

from benchmarks.exported import add, from_card, from_session, seeds
from benchmarks.exported_card import TURN_S, CardTurns, shares


def test_rows_of_a_card_replace_older_ones_of_their_operator_and_card(tmp_path: Path) -> None:
    path, folder = tmp_path / "exported.json", tmp_path / "rows"
    old = [{"operator": "softmax", "card": card, "right": 1} for card in ("H100", "H200")]
    path.write_text(json.dumps({"date": "then", "rows": [{"operator": "softmax", "seed": "plain"}, *old]}))
    folder.mkdir()
    row = {"operator": "softmax", "device": "cuda", "right": 200, "times": [{"own_us": 1.0}]}
    (folder / "softmax.json").write_text(json.dumps({"card": "H200", "versions": {"torch": "2.11.0"}, "row": row}))
    add(from_card(folder), path)
    document = json.loads(path.read_text())
    traced, other, new = document["rows"]
    assert document["date"] == "then" and traced["seed"] == "plain" and other == old[0]
    assert new.pop("date") and new == {"operator": "softmax", "card": "H200", "right": 200, "torch": "2.11.0"}


def test_rows_of_rivals_and_of_exports_stay_beside_that_of_their_package(tmp_path: Path) -> None:
    path, folder = tmp_path / "exported.json", tmp_path / "session"
    path.write_text(json.dumps({"rows": [{"operator": "softmax", "card": "H200", "right": 1}]}))
    (folder / "rows").mkdir(parents=True)
    (folder / "told").mkdir()

    def write(name: str, row: dict[str, object]) -> None:
        versions = {"torch": "2.11.0", "triton": "3.6.0", "python": "3.12.3"}
        told = {"card": "H200", "versions": versions, "row": {"operator": "softmax", **row}}
        (folder / "rows" / f"{name}.json").write_text(json.dumps(told))

    times = [{"host_us": 20.0, "plain_us": plain_us} for plain_us in (19.0, 17.0, 12.0)]
    write("softmax", {"right": 200, "times": times})
    rival = {"sizes": {"M": 3}, "source": "code", "speedup": {"mid": 1.0}, "own_us": 2.0, "rival_us": 1.0}
    write("softmax_rivals", {"rivals": [rival, {**rival, "relative_to": "best baseline"}], "over_rival": 0.5})
    (folder / "told" / "search_softmax.json").write_text(json.dumps({"device": "h200", "evaluated": 9}))
    judged = "was judged at {} shapes that its search did not judge, and was right at {}."
    export = {
        "operator": "softmax",
        "wall_s": 40.0,
        "stages_s": {},
        "unsearched": [judged.format(9, 8), judged.format(3, 3)],
        "loss": ["choices lose 2.0 % here. A shape that is left out of them loses 11.5 % on average."],
        "kernels": ["They launch 7 compiled kernels in all."],
        "refusals": [],
    }
    (folder / "told" / "export_softmax.json").write_text(json.dumps(export))
    proofs = folder / "packages" / "softmax" / "softmax_kernels" / "certificates"
    proofs.mkdir(parents=True)
    (proofs / "elite_0.json").write_text(json.dumps({"origin": {"emitter": "rewrite"}}))
    (proofs / "elite_0_functions.json").write_text("[]")
    (folder / "told" / "export_rope.json").write_text(json.dumps({"operator": "rope", "failed": "why"}))
    for _ in range(2):
        add(from_session(folder), path)
        package, rivals, exported = json.loads(path.read_text())["rows"]
        assert (package["right"], package["host_more_us"]) == (200, 3.0)
        assert rivals["over_rival"] == 0.5 and [each["own_us"] for each in rivals["rivals"]] == [2.0, 2.0]
        assert [each.get("speedup") for each in rivals["rivals"]] == [None, {"mid": 1.0}], "one has no denominator"
        assert (exported["export_s"], exported["evaluated"], exported["card"]) == (40.0, 9, "H200")
        assert (exported["unsearched"], exported["unsearched_right"], exported["kernels"]) == (12, 11, 7)
        assert exported["left_out_loss"] == 0.115 and exported["emitters"] == ["rewrite"]


def test_new_traces_replace_those_of_the_same_seed_alone(tmp_path: Path) -> None:
    path = tmp_path / "exported.json"
    path.write_text(json.dumps({"rows": [{"operator": "softmax", "seed": seed} for seed in ("plain", "rows")]}))
    add([{"operator": "softmax", "seed": "rows", "equal": 1000}], path)
    assert [(row["seed"], row.get("equal")) for row in json.loads(path.read_text())["rows"]] == [
        ("plain", None),
        ("rows", 1000),
    ]
    assert [(operator.name, seed) for operator, seed, _ in seeds(["relu2_gate"])] == [("relu2_gate", "seed")]


def test_a_package_is_blamed_for_slower_kernels_and_for_those_that_it_does_not_use() -> None:
    served = [([[1]], own_us, 1.0) for own_us in (0.5, 1.04, 1.06, 1.0)]
    left = [([[2]], own_us, 1.0) for own_us in (2.0, 0.97, 0.9, 1.0)]
    found = shares({"served_share": 0.8}, served, left)
    assert round(found["not_slower_share"], 9) == 0.6 and round(found["package_not_slower_share"], 9) == 0.8
    assert round(found["missed_share"], 9) == 0.05 and found["slower"] == served[2:3] and found["missed"] == left[2:3]
    assert shares({"served_share": 0.0}, [], [])["package_not_slower_share"] == 1.0


def test_processes_share_a_card_or_have_it_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "gate", tmp_path / "room"]

    def takes(path: Path, how: int) -> bool:
        with path.open() as file:
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    with contextlib.closing(CardTurns(paths)) as turns, turns.held(fcntl.LOCK_SH):
        assert takes(paths[1], fcntl.LOCK_SH) and not takes(paths[1], fcntl.LOCK_EX) and takes(paths[0], fcntl.LOCK_EX)
    with contextlib.closing(CardTurns(paths)) as turns, turns.held(fcntl.LOCK_EX):
        turns.next()
        assert not takes(paths[1], fcntl.LOCK_SH)
        monkeypatch.setattr("time.monotonic", lambda: 10 * TURN_S + 1e9)
        turns.next()
        assert not takes(paths[1], fcntl.LOCK_SH), "it has the card again"
    assert takes(paths[1], fcntl.LOCK_EX)
    with CardTurns([]).held(fcntl.LOCK_EX):
        pass
