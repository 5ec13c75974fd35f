"""The MCP server with hostile clients: tokens, scopes and bounds hold, and every failure is words, never a crash."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from mcp import Client
from starlette.types import ASGIApp

from kernelreef import AsyncReef
from service.cli.agents import tools
from service.cli.agents.server import PATH, ServerOptions, http_app, is_loopback, make_server, token_in
from service.security.authentication import utc_now
from service.security.scopes import Scope
from tests.service.cli.agents.conftest import Guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def called(client: Client, tool: str, **arguments: object) -> tuple[bool, str]:
    """If a call failed, and its text."""
    result = await client.call_tool(tool, arguments)
    return bool(result.is_error), "".join(part.text for part in result.content if part.type == "text")


@asynccontextmanager
async def client_of(guarded: Guarded, token: str, **options: object) -> AsyncIterator[Client]:
    settings = ServerOptions(lambda _: guarded.connect(token), **options)  # type: ignore[arg-type]
    async with Client(make_server(settings)) as client:
        yield client


@asynccontextmanager
async def agent_of(guarded: Guarded) -> AsyncIterator[Client]:
    """An agent with a token of one search, as the service gives it."""
    token = await guarded.token(Scope.READ, Scope.PROPOSE, search=guarded.mine)
    async with client_of(guarded, token, search=guarded.mine) as client:
        yield client


async def test_every_tool_is_there_and_says_what_it_does(guarded: Guarded) -> None:
    token = await guarded.token(Scope.READ)
    async with client_of(guarded, token) as client:
        listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == [*tools.NAMES, "read_skill"]
    assert all(tool.description for tool in listed)
    assert not any("path" in tool.input_schema.get("properties", {}) for tool in listed), "texts only"


async def test_an_agent_reads_its_search(guarded: Guarded) -> None:
    async with agent_of(guarded) as agent:
        failed, said = await called(agent, "read_search")
        assert not failed and guarded.mine in said
        failed, said = await called(agent, "list_elites")
        assert not failed and guarded.best in said
        failed, said = await called(agent, "read_kernel", candidate=guarded.best)
        assert not failed and "def " in said and "provenance" in said and "predicted" in said
        failed, said = await called(agent, "list_candidates", outcome="compile_error")
        assert not failed and "no such name" in said
        for tool in ("read_archive", "list_prompts"):
            assert not (await called(agent, tool))[0]
        failed, said = await called(agent, "read_skill")
        assert not failed and "submit_kernel" in said


async def test_an_agent_gets_nowhere_else(guarded: Guarded) -> None:
    async with agent_of(guarded) as agent:
        store = guarded.store
        (candidate, *_) = await store.candidates.list(guarded.mine)
        for tool, arguments in (
            ("list_searches", {}),
            ("list_operators", {}),
            ("read_search", {"search": guarded.others}),
            ("list_elites", {"search": guarded.others}),
            ("submit_kernel", {"search": guarded.others, "source": "import torch"}),
            ("check_kernel", {"search": guarded.others, "source": "import torch"}),
            ("list_prompts", {"search": guarded.others}),
            ("start_search", {"operator": "rmsnorm", "device": "model:sm_90"}),
            ("judge_kernel", {"operator": "rmsnorm", "source": "import torch", "device": "model:sm_90"}),
            ("read_kernel", {"candidate": "0190a000-0000-7000-8000-000000000000"}),
            ("read_search", {"search": f"../searches/{guarded.others[-6:]}"}),
            ("read_search", {"search": f"{guarded.mine[-6:]}/../{guarded.others}"}),
            ("claim_prompt", {"prompt": "0190a000-0000-7000-8000-000000000000"}),
            ("finish_search", {}),
        ):
            failed, said = await called(agent, tool, **arguments)
            assert failed, (tool, said)
            assert "Forbidden" in said or "Not found" in said, (tool, said)
        assert candidate.search == guarded.mine


async def test_an_expired_and_a_wrong_token_are_told_so(guarded: Guarded) -> None:
    expired = await guarded.token(Scope.READ, search=guarded.mine, expires_at=utc_now() - timedelta(seconds=1))
    for token in (expired, "reef_nonsense", ""):
        async with client_of(guarded, token, search=guarded.mine) as client:
            failed, said = await called(client, "read_search")
        assert failed and "Unauthenticated" in said


async def test_a_hundred_calls_at_once_get_a_hundred_answers(guarded: Guarded) -> None:
    async with agent_of(guarded) as agent:
        said = await asyncio.gather(*(called(agent, "read_search") for _ in range(100)))
        assert len(said) == 100
        assert all(not failed or "Too many requests" in text for failed, text in said)
        assert not (await called(agent, "read_search"))[0]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"source": "x" * (2 * 256 * 1024)}, id="a huge text"),
        pytest.param({"source": "é" * (256 * 1024)}, id="a text with huge bytes"),
        pytest.param({"source": "x\x00y"}, id="a zero byte"),
        pytest.param({"source": ""}, id="nothing"),
        pytest.param({"source": 7}, id="a number"),
        pytest.param({"source": "x", "note": "n" * 10_000}, id="a huge note"),
        pytest.param({"source": "x", "note": "a\nb"}, id="a note of two lines"),
        pytest.param({"source": "x", "parents": ["x"] * 100}, id="a hundred parents"),
        pytest.param({"source": "x", "parents": [{"a": 1}]}, id="a parent that is an object"),
        pytest.param({"source": "x", "wait_s": 1e9}, id="an endless wait"),
        pytest.param({"path": "/etc/passwd"}, id="a path"),
        pytest.param({}, id="no argument"),
    ],
)
async def test_odd_submissions_are_refused_in_words(guarded: Guarded, arguments) -> None:
    async with agent_of(guarded) as agent:
        before = len(await guarded.store.candidates.list(guarded.mine))
        failed, said = await called(agent, "submit_kernel", **arguments)
        assert failed and said and "root:" not in said and "Traceback" not in said and "pydantic" not in said
        assert len(await guarded.store.candidates.list(guarded.mine)) == before


async def test_on_a_persons_machine_a_path_leads_into_the_folder_only(guarded: Guarded, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret.py").write_text("SECRET")
    (folder / "link.py").symlink_to(tmp_path / "secret.py")
    (folder / "notes.txt").write_text("SECRET")
    (folder / "kernel.py").write_text("import torch\n")
    token = await guarded.token(Scope.READ, Scope.PROPOSE)
    async with client_of(guarded, token, search=guarded.mine, folder=folder) as client:
        for path in ("../secret.py", str(tmp_path / "secret.py"), "link.py", "notes.txt", "missing.py", "."):
            failed, said = await called(client, "check_kernel", path=path)
            assert failed and "path" in said and "SECRET" not in said
            failed, said = await called(client, "start_search", path=f"{path}:f", device="model:sm_90")
            assert failed and "path" in said and "SECRET" not in said
        failed, said = await called(client, "check_kernel", path="kernel.py")
        assert failed and "search is done" in said, "it was read, and the service refused the search"
        failed, said = await called(client, "check_kernel", file="kernel.py", wait_s=1)
    assert failed and "source" in said


async def test_wrong_arguments_are_named_with_the_right_ones(guarded: Guarded) -> None:
    async with agent_of(guarded) as agent:
        failed, said = await called(agent, "submit_kernel", text="x", wait_s="long")
    assert failed and said.startswith("Bad input: source: ") and said.endswith("source, note, parents, search, wait_s")


async def test_a_service_that_is_not_there_is_said_so() -> None:
    settings = ServerOptions(lambda _: AsyncReef("http://127.0.0.1:1", attempts=1))
    async with Client(make_server(settings)) as client:
        failed, said = await called(client, "list_searches")
    assert failed and "start `reef serve`" in said


@asynccontextmanager
async def over_http(guarded: Guarded, *, needs_token: bool) -> AsyncIterator[httpx.AsyncClient]:
    app: ASGIApp = http_app(
        ServerOptions(guarded.connect, guarded.mine, by_header=True),
        ["127.0.0.1", "127.0.0.1:*"],
        needs_token=needs_token,
    )
    inner = getattr(app, "_app", app)
    async with (
        inner.router.lifespan_context(inner),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8701") as client,
    ):
        yield client


async def post(client: httpx.AsyncClient, tool: str, token: str = "", **headers: str) -> httpx.Response:
    said = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18", **headers}
    if token:
        said["Authorization"] = f"Bearer {token}"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    return await client.post(PATH, json=body, headers=said)


async def test_over_http_each_call_brings_its_own_token(guarded: Guarded) -> None:
    token = await guarded.token(Scope.READ, search=guarded.mine)
    async with over_http(guarded, needs_token=False) as client:
        mine, nobody = await post(client, "read_search", token), await post(client, "read_search")
    assert mine.status_code == nobody.status_code == 200
    assert not mine.json()["result"].get("isError") and guarded.mine in mine.text
    assert nobody.json()["result"]["isError"] and "Unauthenticated" in nobody.text


async def test_over_http_foreign_pages_and_hosts_are_refused(guarded: Guarded) -> None:
    token = await guarded.token(Scope.READ)
    async with over_http(guarded, needs_token=True) as client:
        assert (await post(client, "read_search")).status_code == 401
        assert (await post(client, "read_search", token, Host="evil.example")).status_code == 421
        assert (await post(client, "read_search", token, Origin="http://evil.example")).status_code == 403
        huge = await client.post(PATH, content=b"x" * 2**22, headers={"Authorization": f"Bearer {token}"})
    assert huge.status_code in (400, 413)


async def test_addresses_and_headers() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "10.0.0.1", "reef", "")))
    headers = ("Bearer abc", "bearer  abc ", "Basic abc", "", "Bearer")
    assert [token_in(text) for text in headers] == ["abc", "abc", "", "", ""]
