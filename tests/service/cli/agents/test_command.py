"""`reef mcp`: prints the skill, says what is missing, and answers an MCP client over stdio and over HTTP."""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
from mcp import Client, StdioServerParameters

from service.llm.command import MCP, SKILL_FILE
from tests.service.serving import REEF, free_port

NOBODY = f"http://127.0.0.1:{free_port()}"


def test_the_skill_is_printed_without_a_service(tmp_path: Path) -> None:
    printed = subprocess.run(
        [*REEF, "mcp", "--skill"], capture_output=True, check=True, env={**os.environ, "REEF_DATA_DIR": str(tmp_path)}
    )
    assert printed.stdout.decode() == SKILL_FILE.read_text()


async def test_over_stdio_a_missing_service_is_an_answer_and_no_crash(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "REEF_URL": NOBODY, "REEF_DATA_DIR": str(tmp_path)}
    server = StdioServerParameters(command=MCP[0], args=list(MCP[1:]), env=environment)
    async with Client(server) as client:
        result = await client.call_tool("list_searches", {})
        again = await client.call_tool("read_skill", {})
    assert result.is_error and "does not answer" in result.content[0].text
    assert not again.is_error


def test_over_http_it_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, *REEF[1:], "mcp", "--http", "--port", str(port), "--url", NOBODY]
    environment = {**os.environ, "REEF_DATA_DIR": str(tmp_path)}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_skill", "arguments": {}}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 60
        while True:
            try:
                answer = httpx.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=headers)
                break
            except httpx.TransportError:
                assert time.monotonic() < until and process.poll() is None
                time.sleep(0.1)
        process.terminate()
        assert process.stderr is not None and b"/mcp" in process.stderr.read()
    assert answer.status_code == 200 and "submit_kernel" in answer.text
