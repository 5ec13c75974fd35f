"""`reef prompts` and `reef backends` over a data folder of their own."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from archive.records import ExchangeState, NewCharge, SpendingLimits
from kernelreef.short_ids import brief
from service import llm
from service.cli import app
from service.cli.prompts import dollars, printable
from service.errors import InvalidInput, NotFound
from tests.archive.samples import new_exchange, stored_search
from tests.archives import opened

PROMPT = "0190a000-0000-7000-8000-000000000001"
SEARCH = "0190a000-0000-7000-8000-000000000002"


def reef(data: Path, *arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, env={"REEF_DATA_DIR": str(data), "COLUMNS": "200"}, input=text)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose archive holds a prompt that waits."""
    asyncio.run(_fill(tmp_path))
    return tmp_path


async def _fill(folder: Path) -> None:
    async with opened(folder) as store:
        await stored_search(store, id=SEARCH, llm={"backends": ["manual"], "calls": 5})
        waiting = new_exchange(SEARCH, id=PROMPT, backend="manual", state=ExchangeState.WAITING, user="faster\x1b[2J")
        await store.exchanges.open(waiting)
        charge = NewCharge(PROMPT, PROMPT, SEARCH, "manual", "improve", 1000, None)
        await store.spending.reserve(charge, SpendingLimits(calls=5), SpendingLimits())


def test_a_prompt_is_found_shown_claimed_and_answered(data: Path, tmp_path: Path) -> None:
    (listed,) = json.loads(reef(data, "prompts", "list", "--json").stdout)
    assert (listed["id"], listed["state"]) == (PROMPT, "waiting")
    assert brief(PROMPT) in reef(data, "prompts", "list").stdout
    shown = reef(data, "prompts", "show", PROMPT).stdout
    assert "faster" in shown
    assert "\x1b" not in shown
    assert json.loads(reef(data, "prompts", "show", PROMPT, "--json").stdout)["user"] == "faster\x1b[2J"
    assert reef(data, "prompts", "claim", PROMPT, "--as", "ada").exit_code == 0
    assert reef(data, "prompts", "release", PROMPT, "--as", "ada").exit_code == 0
    (tmp_path / "answer.md").write_text("```python\n```")
    assert "answered" in reef(data, "prompts", "answer", PROMPT, str(tmp_path / "answer.md")).stderr
    assert json.loads(reef(data, "prompts", "list", "--json").stdout) == []
    shown = reef(data, "prompts", "show", PROMPT).stdout
    assert "```python" in shown
    table = reef(data, "prompts", "list", "--state", "answered").stdout
    assert "unknown" in table, "an unknown price is not 0"


def test_an_answer_may_come_from_standard_input(data: Path) -> None:
    refused = reef(data, "prompts", "answer", PROMPT, "-", "--refuse", text="cannot")
    assert "refused" in refused.stderr
    spent = json.loads(reef(data, "prompts", "spending", SEARCH, "--json").stdout)
    assert [(row["calls"], row["tokens"], row["unpriced"]) for row in spent["budgets"]] == [(1, 0, 1)] * 2
    table = reef(data, "prompts", "spending", SEARCH).stdout
    assert "1 of 5" in table
    assert "1 calls of unknown price" in table


def test_what_came_of_asking_is_told_by_backend_and_strategy(data: Path) -> None:
    reef(data, "prompts", "answer", PROMPT, "-", text="```python\n```")
    (row,) = json.loads(reef(data, "prompts", "models", SEARCH, "--json").stdout)["rows"]
    assert (row["backend"], row["promotions"], row["cost_per_promotion"], row["cost_per_filled"]) == (
        "manual",
        0,
        None,
        None,
    )
    table = reef(data, "prompts", "models", SEARCH).stdout
    assert "per filled cell" in table
    assert "none" in table


def test_a_recording_gives_the_answers_again(data: Path, tmp_path: Path) -> None:
    reef(data, "prompts", "answer", PROMPT, "-", text="```python\n```")
    recorded = reef(data, "prompts", "record", SEARCH, "--out", str(tmp_path / "recording.jsonl"))
    assert "1 answers" in recorded.stderr
    prompt = llm.LlmPrompt("You write kernels.", "faster\x1b[2J", 1000)
    assert asyncio.run(llm.Replay(tmp_path / "recording.jsonl").complete(prompt)).text == "```python\n```"


def test_what_cannot_be_right(data: Path) -> None:
    assert isinstance(reef(data, "prompts", "answer", PROMPT, "/no/such/file").exception, InvalidInput)
    assert isinstance(reef(data, "prompts", "show", SEARCH).exception, NotFound)
    assert isinstance(reef(data, "backends", "enable", "nobody").exception, NotFound)


def test_backends_are_listed(data: Path) -> None:
    (data / "backends.toml").write_text('[backends.a]\nkind = "anthropic"\nmodel = "m"\nkey_env = "REEF_NO_SUCH_KEY"\n')
    assert [item["name"] for item in json.loads(reef(data, "backends", "list", "--json").stdout.splitlines()[-1])] == [
        "a",
        "manual",
    ]
    table = reef(data, "backends", "list").stdout
    assert "disabled: the environment variable REEF_NO_SUCH_KEY is empty" in table
    assert "answered by hand" in table
    assert "still" not in reef(data, "backends", "enable", "manual").stderr


@pytest.mark.parametrize(
    "text, shown", [("a\n\tb", "a\n\tb"), ("\x1b[31m\x9b\u202e\0", "\ufffd[31m\ufffd\ufffd\ufffd")]
)
def test_what_steers_a_terminal_is_replaced(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_an_unknown_amount_is_not_nothing() -> None:
    assert (dollars(None), dollars(0.0), dollars(1.5)) == ("unknown", "$0.0000", "$1.5000")


def test_the_reason_of_a_useless_answer_is_shown(data: Path) -> None:
    assert reef(data, "prompts", "answer", PROMPT, "-", text="I would use fewer warps.").exit_code == 0
    asyncio.run(_conclude(data))
    assert "unusable: no_code: the answer has no code block" in reef(data, "prompts", "show", PROMPT).stdout
    assert "no_code" in reef(data, "prompts", "list", "--state", "answered").stdout


async def _conclude(folder: Path) -> None:
    async with opened(folder) as store:
        await store.exchanges.conclude(PROMPT, "unusable", "no_code: the answer has no code block")


def test_a_backend_is_added(tmp_path: Path) -> None:
    added = reef(
        tmp_path, "backends", "add", "anthropic", "--model", "m", "--price", "3", "15", "--ask-key", text="sk-1\n"
    )
    assert added.exit_code == 0, added.output
    assert "sk-1" not in added.output + (tmp_path / "backends.toml").read_text()
    key = tmp_path / "anthropic.key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("sk-1\n", 0o600)
    local = ("--kind", "openai", "--base-url", "http://127.0.0.1:1/v1", "--model", "n", "--max-tokens", "9000")
    assert reef(tmp_path, "backends", "add", "local", *local).exit_code == 0
    listed = {item["name"]: item for item in json.loads(reef(tmp_path, "backends", "list", "--json").stdout)}
    assert listed["anthropic"]["price"] == {"input_usd_per_mtok": 3.0, "output_usd_per_mtok": 15.0}
    assert (listed["anthropic"]["disabled_reason"], listed["local"]["model"]) == (None, "n")
    again = reef(tmp_path, "backends", "add", "local", *local)
    assert isinstance(again.exception, InvalidInput)
    assert "already" in str(again.exception)
    assert isinstance(reef(tmp_path, "backends", "add", "x").exception, InvalidInput)
