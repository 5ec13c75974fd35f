"""Rows of cards among those of traces: they replace their own kind alone."""

import json
from pathlib import Path

from benchmarks.exported import add, from_card


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
