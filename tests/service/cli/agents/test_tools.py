"""The tools as an agent calls them, against a real service: verdicts when they come, and files of one folder only."""

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from uuid6 import uuid7

from archive.records import ExchangeState, NewExchange
from archive.store import Store
from kernelreef import AsyncReef
from kernelreef.errors import Conflict, InvalidInput, Unavailable
from kernelreef.states import CandidateState
from service.cli.agents import tools
from service.cli.agents.tools import AgentTools, read_operator_file, read_source
from service.operators.catalogue import load_operator
from service.security.scopes import Scope
from tests.service.cli.agents.conftest import Guarded
from workers.protocol import MAX_SOURCE_BYTES, Operator

pytestmark = pytest.mark.asyncio(loop_scope="module")
FUNCTION = """
def doubled(x: "float32[64, 128]"):
    return x + x


def unknown_sizes(x):
    return x
"""


async def test_every_named_tool_is_a_method() -> None:
    methods = {name for name, value in vars(AgentTools).items() if callable(value) and not name.startswith("_")}
    assert methods == set(tools.NAMES) and set(tools.TAKE_SOURCE) < methods


async def test_an_equal_kernel_is_answered_at_once_and_says_so(guarded: Guarded) -> None:
    token = await guarded.token(Scope.READ, Scope.PROPOSE)
    async with guarded.connect(token) as reef:
        agent = AgentTools(reef, guarded.mine)
        with pytest.raises(Conflict, match="without the emitter 'agent'"):
            await agent.submit_kernel("import torch\n")
        said = await agent.read_kernel(guarded.failed)
        assert "compile_error" in said and "no such name" in said
        started = await AgentTools(guarded.connect(await guarded.token(Scope.SUBMIT))).start_search(
            "rmsnorm", "model:sm_90", 5, ("tune", "agent")
        )
    assert '"emitters": ["agent", "tune"]' in started


async def test_a_search_is_finished_with_the_evaluations_that_it_used(guarded: Guarded) -> None:
    token = await guarded.token(Scope.READ, Scope.SUBMIT, Scope.STEER)
    async with guarded.connect(token) as reef:
        search = json.loads(await AgentTools(reef).start_search("rmsnorm", "model:sm_90", 50))["id"]
        finished = json.loads(await AgentTools(reef, search).finish_search())
        assert finished["evaluations"] == 1 and "finalist" in finished["note"], "nothing was evaluated yet"


async def test_an_operator_comes_from_a_file_of_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "mine.py").write_text(FUNCTION)
    (folder / "mine.py").write_text(FUNCTION)
    for spec in ("../mine.py:doubled", "none.py:doubled", "mine.txt", ":doubled"):
        with pytest.raises(InvalidInput, match="no Python file below"):
            await read_operator_file(spec, folder, "model:sm_90")
    with pytest.raises(InvalidInput, match="is called with"):
        await read_operator_file("mine.py:unknown_sizes", folder, "model:sm_90")
    operator = Operator.model_validate_json(await read_operator_file("mine.py:doubled", folder, "model:sm_90"))
    assert operator.name == "doubled" and operator.seeds and "triton" in operator.seeds[0]


async def test_without_a_search_a_tool_asks_for_one(guarded: Guarded) -> None:
    async with guarded.connect(await guarded.token(Scope.READ)) as reef:
        with pytest.raises(InvalidInput, match="name a search"):
            await AgentTools(reef).read_search()
        assert guarded.mine in await AgentTools(reef).list_searches()
        operator = await AgentTools(reef).read_operator("softmax")
        assert operator.count("```python") == 1 + len(load_operator("softmax").seeds) and "def softmax(x)" in operator
        with pytest.raises(InvalidInput, match="no JSON"):
            await AgentTools(reef).start_search("{not JSON", "model:sm_90")


async def test_a_file_is_read_from_its_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "k.py").write_text("import torch\n")
    (folder / "big.py").write_bytes(b"#" * (MAX_SOURCE_BYTES + 1))
    (tmp_path / "other.py").write_text("secret")
    (folder / "link.py").symlink_to(tmp_path / "other.py")
    assert read_source("k.py", folder) == read_source(str(folder / "k.py"), folder) == "import torch\n"
    (folder / "loop.py").symlink_to(folder / "loop.py")
    os.mkfifo(folder / "pipe.py")
    odd = ("loop.py", "pipe.py", "a\0.py", "\ud800.py", f"{'x' * 5000}.py")
    for path in ("../other.py", "link.py", "big.py", "none.py", "k.txt", "/etc/passwd", ".", *odd):
        with pytest.raises(InvalidInput):
            read_source(path, folder)


async def waiting_prompt(store: Store, search: str, ordinal: int) -> str:
    """A prompt of the backend `manual` that waits."""
    known = {"strategy": "improve", "template": "t", "claims": {}, "parents": (), "cell": None, "max_tokens": 10}
    texts = {"system": "s", "user": "u", "digest": f"{ordinal}", "backend": "manual"}
    new = NewExchange(
        id=str(uuid7()), search=search, ordinal=ordinal, step=0, state=ExchangeState.WAITING, **known, **texts
    )
    return (await store.exchanges.open(new)).id


async def test_of_two_agents_one_has_a_prompt_and_one_answers_it(guarded: Guarded) -> None:
    token = await guarded.token(Scope.READ, Scope.PROPOSE, search=guarded.others)
    prompt = await waiting_prompt(guarded.store, guarded.others, 900)
    async with guarded.connect(token) as reef:
        agent = AgentTools(reef, guarded.others)
        assert prompt in await agent.list_prompts()
        assert await agent.claim_prompt(prompt, "ada") == "s\n\nu"
        for call in (agent.claim_prompt(prompt, "bob"), agent.release_prompt(prompt, "bob")):
            with pytest.raises(Conflict):
                await call
        with pytest.raises(Conflict):
            await agent.answer_prompt(prompt, "mine", answerer="bob")
        assert "answered" in await agent.answer_prompt(prompt, "an answer", "m", "ada")
        with pytest.raises(Conflict):
            await agent.answer_prompt(prompt, "another", "m", "ada")


async def test_a_lost_agents_prompt_is_free_again(guarded: Guarded) -> None:
    token = await guarded.token(Scope.READ, Scope.PROPOSE, search=guarded.others)
    prompt = await waiting_prompt(guarded.store, guarded.others, 901)
    await guarded.store.exchanges.claim(prompt, "lost", 0.05)
    await asyncio.sleep(0.1)
    async with guarded.connect(token) as reef:
        agent = AgentTools(reef, guarded.others)
        assert await agent.claim_prompt(prompt, "ada")
        assert "answered" in await agent.answer_prompt(prompt, "late but first", answerer="ada")


class Gone(AsyncReef):
    """Client whose service takes a kernel and is away afterwards."""

    async def submit_kernel(self, *given: object, **more: object) -> Any:
        return SimpleNamespace(id="candidate-1", state=CandidateState.QUEUED)

    async def candidate(self, id: str) -> Any:
        raise Unavailable("no connection")


async def test_the_id_of_a_submitted_kernel_is_told_though_the_service_is_gone() -> None:
    said = await AgentTools(Gone("http://127.0.0.1:1", ""), "search-1").submit_kernel("import torch\n")
    assert "candidate-1" in said and "no connection" in said and "do not submit it again" in said
