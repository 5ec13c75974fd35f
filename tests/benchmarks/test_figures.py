"""Names of cards, for processes that see one card alone; files of rows."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.figures import FigureRows, visible_card


@pytest.mark.parametrize(
    ("seen", "number", "name"), [(None, 1, "1"), ("", 0, "0"), ("1", 0, "1"), ("3,GPU-5e", 1, "GPU-5e")]
)
def test_a_card_is_named_as_the_host_names_it(monkeypatch: pytest.MonkeyPatch, seen, number, name):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    assert visible_card(number) == name


def test_rows_tell_their_command_without_a_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks/finalists.py", "--out", str(tmp_path), "--only", "gluon"])
    FigureRows(tmp_path, "finalists").add({"kernel": "one"}, "one")
    document = json.loads((tmp_path / "finalists.json").read_text())
    assert document["command"] == "python -m benchmarks.finalists --only gluon"
    assert document["rows"] == [{"kernel": "one"}]
