"""Headers of results: the command without folders of the machine that ran it."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import record


def test_the_command_is_told_without_the_folder_of_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["benchmarks/load.py", "--state", str(tmp_path), "--seconds", "4", "--out", "x", "--browser"]
    )
    path = record.write("load", [{"rate": 1}], tmp_path, note="kept")
    document = json.loads(path.read_text())
    assert document["command"] == "python -m benchmarks.load --seconds 4 --browser" and document["note"] == "kept"
    assert document["rows"] == [{"rate": 1}] and path == tmp_path / "load.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks/load.py"])
    assert json.loads(record.write("load", [], tmp_path).read_text())["command"] == "python -m benchmarks.load"
