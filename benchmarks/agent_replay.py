"""Kernels that an agent wrote over MCP, judged on a card through the same tools: search, kernels, end, examined elites.

    python -m benchmarks.agent_replay benchmarks/results/agent_over_mcp_layernorm.json --device h200

The agent saw predicted times when it wrote them. Nothing is asked of a model here: the kernels are submitted in its
order, with its notes, by the official MCP client over stdio. All calls with their answers are written as they come.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from benchmarks import record
from benchmarks.cluster import RestartableProcess, free_port
from benchmarks.training import REEF, await_ready, end_at_sigterm

SPARE = 16
"""Evaluations besides the agent's, for the operator's seeds."""
POLL_S = 1.0
VERDICT_S = 120.0
SUBMIT = "submit_kernel"


class Transcript:
    """Calls of tools with their answers, written after each."""

    def __init__(self, client: Client, name: str, out: Path, **header: Any) -> None:
        self._client, self._name, self._out, self._header = client, name, out, header
        self._rows: list[dict[str, Any]] = []

    async def call(self, tool: str, *, kept: bool = True, **arguments: Any) -> Any:
        """Call a tool; returns its answer, parsed if it is JSON. Calls that only wait are not `kept`."""
        began = time.monotonic()
        result = await self._client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if part.type == "text")
        if kept:
            seconds = round(time.monotonic() - began, 2)
            shown = {name: value for name, value in arguments.items() if name != "source"}
            row = {"tool": tool, "arguments": shown, "error": bool(result.is_error), "seconds": seconds, "result": text}
            self._rows.append(row)
            record.write(self._name, self._rows, self._out, **self._header)
            print(f"{tool} {json.dumps(shown)[:120]}: {seconds} s, {text[:160]!r}", flush=True)
        if result.is_error:
            raise SystemExit(f"{tool}: {text}")
        return json.loads(text)

    async def until(self, search: str, end: float, name: str, value: object) -> None:
        """Wait until a field of the search has a value."""
        while time.monotonic() < end:
            if (await self.call("read_search", kept=False, search=search))[name] == value:
                break
            await asyncio.sleep(POLL_S)
        await self.call("read_search", search=search)


def submitted(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, text and note of each kernel that got a verdict as a correct one, in the order of submission."""
    found = []
    for call in document["calls"]:
        path = str(call["arguments"].get("path") or call["arguments"].get("source") or "")
        name = Path(path.removeprefix("@")).stem
        if call["tool"] == SUBMIT and '"outcome": "correct"' in call["result"]:
            found.append((name, document["kernels"][name], call["arguments"].get("note", "")))
    return found


async def replayed(url: str, document: dict[str, Any], chosen: argparse.Namespace) -> None:
    """Play a transcript's submissions against a service."""
    end, kernels = time.monotonic() + chosen.seconds, submitted(document)
    environment = {"REEF_URL": url, "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path))}
    server = StdioServerParameters(command=REEF[0], args=[*REEF[1:], "mcp"], env=environment)
    async with Client(server) as client:
        what = "Kernels of an agent, submitted again over MCP in its order; the agent saw predicted times"
        said = Transcript(client, chosen.name, chosen.out, what=what, kernels_of=chosen.transcript.name)
        named = {"operator": document["search"]["operator"], "device": chosen.device}
        search = (await said.call("start_search", **named, evaluations=len(kernels) + SPARE))["id"]
        await said.until(search, end, "takes_kernels", True)
        await said.call("list_elites", search=search)
        for _, source, note in kernels:
            await said.call(SUBMIT, search=search, source=source, note=note, wait_s=VERDICT_S)
        await said.call("finish_search", search=search)
        await said.until(search, end, "activity", "")
        await said.call("list_elites", search=search)


def main(arguments: Sequence[str] | None = None) -> None:
    """Start a service, and play a transcript."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("transcript", type=Path, help="transcript with `kernels` and `calls`")
    options.add_argument("--device", default="model:sm_90")
    options.add_argument("--seconds", type=float, default=300.0, help="maximum time, with the examination")
    options.add_argument("--workers", type=int, help="local workers; one per core if left out")
    options.add_argument("--name", default="agent_replay", help="name of the file")
    options.add_argument("--out", type=Path, default=record.RESULTS, help="a folder")
    chosen = options.parse_args(arguments)
    document = json.loads(chosen.transcript.read_text())
    end_at_sigterm()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port("127.0.0.1")
        environment = {"REEF_DATA_DIR": folder, "REEF_LOG_LEVEL": "warning"}
        environment |= {} if chosen.workers is None else {"REEF_LOCAL_WORKERS": str(chosen.workers)}
        service = RestartableProcess([*REEF, "serve", "--port", str(port)], Path(folder) / "log", environment)
        service.start()
        try:
            url = f"http://127.0.0.1:{port}"
            await_ready(url)
            asyncio.run(replayed(url, document, chosen))
        finally:
            service.kill()


if __name__ == "__main__":
    main()
