"""Files hold every field of every record, in the order in which they came."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from service.cli import files as subject
from service.cli.files import JsonLinesFile, ParquetFile, begin, kinds
from service.errors import InvalidInput

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "trajectories.md"
EXAMPLE: dict[str, Any] = json.loads(PAGE.read_text().partition("```json\n")[2].partition("```")[0])


def read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = importlib.import_module("pyarrow.parquet").read_table(path).to_pylist()
    return rows


def test_records_come_back_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "GROUP", 2)
    path = tmp_path / "steps.parquet"
    records = [{**EXAMPLE, "step": step, "line": None, "reward": None if step else 0.5} for step in range(5)]
    with ParquetFile(path) as file:
        for record in records:
            file.write(json.dumps(record))
    rows = read(path)
    nested = [name for name, value in EXAMPLE.items() if isinstance(value, dict | list)]
    assert [{**row, **{name: json.loads(row[name]) for name in nested}} for row in rows] == records


def test_an_empty_export_is_a_file_with_columns(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    with ParquetFile(path):
        pass
    assert read(path) == []
    assert importlib.import_module("pyarrow.parquet").read_schema(path).names == list(EXAMPLE)


def test_plain_fields_keep_their_types() -> None:
    found = dict(kinds())
    assert (found["step"], found["reward"], found["line"], found["note"]) == ("int64", "float64", "int64", "string")
    assert (found["parents"], found["gain_over_seed"], found["provenance"]) == ("string", "string", "string")


def test_without_pyarrow_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(importlib.import_module("sys").modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match="kernelreef\\[parquet\\]"):
        ParquetFile(tmp_path / "x.parquet")


def test_lines_are_written_as_they_come(tmp_path: Path) -> None:
    with JsonLinesFile(tmp_path / "a.jsonl") as file:
        file.write('{"a": "\u2028"}')
        file.write("{}")
    assert (tmp_path / "a.jsonl").read_bytes() == '{"a": "\u2028"}\n{}\n'.encode()


def test_the_name_says_the_form(tmp_path: Path) -> None:
    with begin(tmp_path / "x.part", "x.jsonl") as lines, begin(tmp_path / "y.part", "y.parquet") as parquet:
        assert (type(lines), type(parquet)) == (JsonLinesFile, ParquetFile)
    with pytest.raises(InvalidInput, match=r"must end in \.jsonl or \.parquet"):
        begin(tmp_path / "z.part", "z.csv")
