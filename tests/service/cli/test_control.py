"""`pause`, `resume`, `stop` and `change` on a search of an archive that nobody runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from service.cli import app
from service.cli.control import changes_of
from service.errors import Conflict, InvalidInput, NotFound


def reef(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"REEF_DATA_DIR": str(data), "COLUMNS": "200"})


def told(data: Path, *arguments: str) -> dict[str, Any]:
    result = reef(data, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout.splitlines()[-1]))  # Logs go to standard output here.


def test_a_search_is_changed_paused_and_stopped_with_nothing_running(tmp_path: Path) -> None:
    search = told(tmp_path, "submit", "rmsnorm", "--evaluations", "9", "--stop", "seconds=900")["id"]
    changed = told(tmp_path, "update", search, "--evaluations", "12", "--stop", "plateau=5", "--priority", "2")
    assert (changed["evaluations"], changed["priority"], changed["stop"]) == (12, 2, {"plateau": 5})
    assert told(tmp_path, "update", search, "--stop", "none")["stop"] is None
    assert told(tmp_path, "pause", search)["state"] == "paused"
    assert told(tmp_path, "resume", search)["state"] in ("preparing", "running")
    stopped = reef(tmp_path, "stop", search)
    assert stopped.exit_code == 0 and stopped.stdout == f"{search}: stopped, 12 evaluations, priority 2\n"
    labelled = told(tmp_path, "update", search, "--name", "first", "--tag", "a", "--tag", "b", "--notes", "ended early")
    assert (labelled["name"], labelled["tags"], labelled["notes"]) == ("first", ["a", "b"], "ended early")
    assert told(tmp_path, "update", search, "--tag", "none")["tags"] == []
    refused = reef(tmp_path, "update", search, "--evaluations", "20")
    assert isinstance(refused.exception, Conflict) and "which is final" in refused.exception.detail


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ((None, None, None), None),
        ((0, None, None), "evaluations"),
        ((None, 10, None), "priority"),
        ((None, None, ["plateau=0"]), "stop.plateau"),
        ((None, None, ["none", "plateau=4"]), "stop.none"),
    ],
)
def test_what_cannot_be_is_named(asked: tuple[Any, Any, Any], field: str | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        changes_of(*asked)
    assert caught.value.field == field


def test_an_ended_search_is_deleted_after_a_question(tmp_path: Path) -> None:
    search = told(tmp_path, "submit", "rmsnorm", "--evaluations", "9")["id"]
    refused = reef(tmp_path, "delete", search, "--yes")
    assert isinstance(refused.exception, Conflict) and "stop it" in refused.exception.detail
    told(tmp_path, "stop", search)
    data = {"REEF_DATA_DIR": str(tmp_path)}
    kept = CliRunner().invoke(app, ["delete", search], input="n\n", env=data)
    assert kept.exit_code == 1 and "rmsnorm, stopped, up to 9 evaluations" in kept.output
    gone = CliRunner().invoke(app, ["delete", search], input="y\n", env=data)
    assert (gone.exit_code, f"{search}: deleted" in gone.output) == (0, True)
    assert isinstance(reef(tmp_path, "delete", search, "--yes").exception, NotFound)
