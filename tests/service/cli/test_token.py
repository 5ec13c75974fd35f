"""`reef token` and `reef audit` on this machine's archive: made, listed, revoked, and what was done."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from archive.store import Store
from service.cli import app
from service.cli.token import show_token
from service.errors import NotFound, Unauthenticated
from service.security.authentication import Authentication
from service.security.credentials import PATTERN
from service.security.identity import Identity
from service.security.scopes import Scope
from tests.archive.access import new_entry

NOBODY = "0190a000-0000-7000-8000-000000000000"


def reef(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"REEF_DATA_DIR": str(folder), "COLUMNS": "200"})


def caller(folder: Path, text: str) -> Identity:
    async def ask() -> Identity:
        store = await Store.open(f"sqlite+aiosqlite:///{folder / 'reef.db'}")
        try:
            return await Authentication(store).by_token(text)
        finally:
            await store.close()

    return asyncio.run(ask())


def test_a_token_is_all_that_standard_output_gets(tmp_path: Path) -> None:
    result = reef(tmp_path, "token", "create", "ada", "--scope", "read", "--scope", "admin")
    assert result.exit_code == 0, result.output
    assert PATTERN.fullmatch(result.stdout.strip())
    assert "ada: admin, read; until" in result.stderr
    assert caller(tmp_path, result.stdout.strip()).scopes == {Scope.READ, Scope.ADMIN}


def test_tokens_expire_unless_told_otherwise(tmp_path: Path) -> None:
    made = [
        json.loads(reef(tmp_path, "token", "create", "ada", "--json", *days).stdout) for days in ((), ("--days", "0"))
    ]
    assert [document["expires_at"] is None for document in made] == [False, True]
    assert made[0]["scopes"] == ["read", "steer", "submit"]
    assert made[0]["created_by"] is None


def test_a_list_shows_no_secret(tmp_path: Path) -> None:
    text = reef(tmp_path, "token", "create", "ada [bold]").stdout.strip()
    table, document = reef(tmp_path, "token", "list").stdout, reef(tmp_path, "token", "list", "--json").stdout
    assert "ada [bold]" in table and "never" in table
    assert [each["name"] for each in json.loads(document)] == ["ada [bold]"]
    assert text not in table + document and text[27:] not in table + document


def test_a_revoked_token_is_refused(tmp_path: Path) -> None:
    made: dict[str, Any] = json.loads(reef(tmp_path, "token", "create", "ada", "--json").stdout)
    result = reef(tmp_path, "token", "revoke", made["id"])
    assert (result.exit_code, "ada is revoked" in result.stderr) == (0, True)
    assert "revoked" in reef(tmp_path, "token", "list").stdout
    with pytest.raises(Unauthenticated):
        caller(tmp_path, made["token"])
    assert isinstance(reef(tmp_path, "token", "revoke", NOBODY).exception, NotFound)


def test_what_is_done_here_is_written_down_too(tmp_path: Path) -> None:
    reef(tmp_path, "token", "create", "ada")
    (entry,) = json.loads(reef(tmp_path, "audit", "--json").stdout)
    assert (entry["caller"], entry["action"], entry["status"]) == ("local", "POST /api/v1/tokens", 201)


def test_the_audit_log_shows_hostile_text_as_text(tmp_path: Path) -> None:
    assert json.loads(reef(tmp_path, "audit", "--json").stdout) == []
    reader, writer = "0190a000-0000-7000-8000-000000000001", "0190a000-0000-7000-8000-000000000002"

    async def write() -> None:
        store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}")
        for number, (name, id) in enumerate((("[red]ada", reader), ("bob", writer))):
            await store.audit.add(new_entry(caller=name, token=id, status=401 + number, detail="no"))
        await store.close()

    asyncio.run(write())
    table = reef(tmp_path, "audit").stdout
    assert "[red]ada" in table and "POST /api/v1/searches" in table and "401 no" in table
    for arguments, callers in ((["--limit", "1"], ["bob"]), (["--of", writer], ["bob"]), ([], ["bob", "[red]ada"])):
        found = json.loads(reef(tmp_path, "audit", "--json", *arguments).stdout)
        assert [entry["caller"] for entry in found] == callers


@pytest.mark.parametrize("arguments", [["--scope", "fly"], ["--days", "-1"]])
def test_what_cannot_be_right_is_bad_input(tmp_path: Path, arguments: list[str]) -> None:
    assert reef(tmp_path, "token", "create", "ada", *arguments).exit_code == 2


def test_the_first_token_of_a_service_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    show_token("reef_x")
    shown = capsys.readouterr()
    assert (shown.out, "has all scopes" in shown.err) == ("reef_x\n", True)
