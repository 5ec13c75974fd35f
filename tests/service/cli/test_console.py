"""Results go to standard output, everything else to standard error, and JSON stays on one line."""

import json

import pytest
from rich.console import Console

from service.cli.console import FoldedTable, complain, emit_json


def test_a_complaint_names_the_field_once(capsys: pytest.CaptureFixture[str]) -> None:
    complain("'x' is not one of: a, b", "devices")
    complain("devices: 'x' is not one of: a, b", "devices")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["reef: devices: 'x' is not one of: a, b"] * 2


def test_a_complaint_is_text_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    complain("inputs[0].dtype: [bold]no[/]")
    assert "inputs[0].dtype: [bold]no[/]" in capsys.readouterr().err


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"reason": "two\nlines", "speedup": None})
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and json.loads(out) == {"reason": "two\nlines", "speedup": None}


def test_a_cell_of_a_table_goes_on_in_the_next_line() -> None:
    table = FoldedTable("id", "kind")
    table.add_row("a" * 50, "b" * 50)
    console = Console(width=40, record=True)
    console.print(table)
    text = console.export_text()
    assert (text.count("a"), text.count("b")) == (50, 50)
    assert max(map(len, text.splitlines())) <= 40
