"""The backend `command`: what an agent is given, what becomes of it, and what its options may not say."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.errors import InvalidInput
from service.llm import BACKENDS, LlmPrompt, PermanentFailure
from service.llm.command import SKILL_FILE, Command, CommandOptions
from service.llm.options import AgentPass, BackendContext

PROMPT = LlmPrompt("You write kernels.", "Make softmax faster.")
EXCHANGE = "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4"


class Gate:
    """Admits agents, and knows who is inside."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, float]] = []
        self.inside = 0

    @asynccontextmanager
    async def admit(self, exchange: str, evaluations: int, seconds: float) -> AsyncIterator[AgentPass]:
        self.asked.append((exchange, evaluations, seconds))
        self.inside += 1
        try:
            yield AgentPass("http://127.0.0.1:8700", "reef_token", "search-1")
        finally:
            self.inside -= 1


def agent(tmp_path: Path, script: str, gate: Gate | None, **more: object) -> Command:
    options = CommandOptions.model_validate({"kind": "command", "command": ["sh", "-c", script], "seconds": 20, **more})
    made = BACKENDS["command"].make(options, BackendContext(tmp_path, admit=gate.admit if gate else None))
    assert isinstance(made, Command)
    return made


async def test_an_agent_gets_its_task_its_tools_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_KEY", "sk-mine")
    gate, script = (
        Gate(),
        "head -1; cat PROMPT.md | tail -1; cmp SKILL.md $SKILL && echo same; cat mcp.json; echo; env; ",
    )
    script += '[ "$MY_KEY" = sk-mine ] && echo its own key'
    backend = agent(tmp_path, script, gate, evaluations=7, environment={"MY_KEY": "$MY_KEY", "SKILL": str(SKILL_FILE)})
    said = await backend.complete(PROMPT, EXCHANGE)
    assert gate.asked == [(EXCHANGE, 7, 20.0)] and gate.inside == 0
    lines = said.text.splitlines()
    assert lines[:3] == [
        "You write kernels.",
        "You have 20 seconds and at most 7 evaluations; both end by themselves.",
        "same",
    ]
    assert {"MY_KEY=[key]", "REEF_TOKEN=[key]", "REEF_SEARCH=search-1"} <= {*lines}, "its secrets are told to nobody"
    assert "its own key" in lines and "sk-secret" not in said.text
    names = {found[1] for line in lines if (found := re.match(r"([A-Z_]+)=", line))}
    given = {"PATH", "HOME", "TMPDIR", "LANG", "MY_KEY", "SKILL", "REEF_URL", "REEF_TOKEN", "REEF_SEARCH"}
    assert given <= names <= given | {"PWD", "OLDPWD", "SHLVL", "_", "PYTHONSAFEPATH"}
    assert (said.input_tokens, said.output_tokens, said.cost_usd, said.truncated) == (0, 0, None, False)


async def test_the_configuration_names_the_server_with_the_same_token(tmp_path: Path) -> None:
    script = 'grep -q "reef_token" mcp.json && [ "$REEF_TOKEN" = reef_token ] && cat mcp.json'
    said = await agent(tmp_path, script, Gate()).complete(PROMPT, EXCHANGE)
    server = json.loads(said.text)["mcpServers"]["reef"]
    assert server["args"][-2:] == ["kernelreef", "mcp"]
    assert (server["env"]["REEF_TOKEN"], server["env"]["REEF_SEARCH"]) == ("[key]", "search-1")


async def test_the_data_folder_is_hidden_and_the_scratch_folder_goes(tmp_path: Path) -> None:
    (tmp_path / "reef.db").write_text("secret")
    said = await agent(tmp_path, f"pwd; echo x > made; ls {tmp_path}; cat {tmp_path}/reef.db", Gate()).complete(
        PROMPT, ""
    )
    folder = Path(said.text.splitlines()[0])
    assert folder.name.startswith("reef-agent-") and not folder.exists()
    if "secret" in said.text:
        pytest.skip("this machine has no namespaces to hide a folder with")


async def test_an_agent_that_takes_too_long_is_ended_and_what_it_said_is_kept(tmp_path: Path) -> None:
    backend = agent(tmp_path, "trap '' TERM; echo begun; while true; do sleep 60; done", Gate(), seconds=1)
    said = await backend.complete(PROMPT, EXCHANGE)
    assert (said.text, said.truncated) == ("begun", True)


async def test_only_the_end_of_a_flood_is_kept(tmp_path: Path) -> None:
    said = await agent(tmp_path, "head -c 30000000 /dev/zero | tr '\\0' x; echo end", Gate()).complete(PROMPT, EXCHANGE)
    assert len(said.text) < 20_000 and said.text.endswith("end")


async def test_a_silent_agent_is_no_failure(tmp_path: Path) -> None:
    assert (await agent(tmp_path, "exit 3", Gate()).complete(PROMPT, EXCHANGE)).text == "The agent printed nothing."


async def test_a_missing_program_and_a_missing_service_are_told(tmp_path: Path) -> None:
    with pytest.raises(PermanentFailure, match="cannot be started") as failed:
        await agent(tmp_path, "", Gate(), command=["/no/such/agent"]).complete(PROMPT, EXCHANGE)
    assert failed.value.paid
    with pytest.raises(PermanentFailure, match="reef serve"):
        await agent(tmp_path, "true", None).complete(PROMPT, EXCHANGE)


async def test_a_cancelled_run_ends_the_agent_and_its_pass(tmp_path: Path) -> None:
    gate = Gate()
    call = asyncio.create_task(agent(tmp_path, "sleep 600", gate).complete(PROMPT, EXCHANGE))
    while not gate.inside:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert gate.inside == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": []},
        {"command": "claude"},
        {"command": ["a\0b"]},
        {"seconds": 0},
        {"evaluations": 0},
        {"environment": {"REEF_TOKEN": "mine"}},
        {"environment": {"A B": "x"}},
        {"per_search": {"usd": 1.0}},
        {"per_search": {"tokens": 10}},
        {"price": "gpt"},
    ],
)
def test_options_that_cannot_hold_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CommandOptions.model_validate({"kind": "command", "command": ["agent"], **wrong})


def test_a_variable_that_is_not_set_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="NO_SUCH_KEY"):
        agent(tmp_path, "true", Gate(), environment={"KEY": "$NO_SUCH_KEY"})
