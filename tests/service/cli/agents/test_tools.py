"""The tools as an agent calls them, against a real service: verdicts when they come, and files of one folder only."""

from pathlib import Path

import pytest

from kernelreef.errors import Conflict, InvalidInput
from service.cli.agents import tools
from service.cli.agents.tools import AgentTools, read_source
from service.operators.catalogue import load_operator
from service.security.scopes import Scope
from tests.service.cli.agents.conftest import Guarded
from workers.protocol import MAX_SOURCE_BYTES

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    for path in ("../other.py", "link.py", "big.py", "none.py", "k.txt", "/etc/passwd", "."):
        with pytest.raises(InvalidInput):
            read_source(path, folder)
