"""Call one tool of `reef mcp` over stdio, and add the call to a transcript: python call.py TRANSCRIPT TOOL [JSON]

An argument `@FILE` in the JSON stands for the text of that file. The environment says where the service is: REEF_URL,
REEF_TOKEN, REEF_SEARCH. Needs `pip install 'kernelreef[mcp]'`.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from mcp import Client, StdioServerParameters


async def call(transcript: Path, tool: str, arguments: dict[str, object]) -> None:
    given = {
        name: Path(value[1:]).read_text() if isinstance(value, str) and value.startswith("@") else value
        for name, value in arguments.items()
    }
    environment = {name: value for name, value in os.environ.items() if name.startswith("REEF_") or name == "PATH"}
    server = StdioServerParameters(command="reef", args=["mcp"], env=environment)
    async with Client(server) as client:
        began = time.monotonic()
        result = await client.call_tool(tool, given)
        seconds = round(time.monotonic() - began, 2)
    text = "".join(part.text for part in result.content if part.type == "text")
    print(text)
    line = {"tool": tool, "arguments": given, "error": bool(result.is_error), "seconds": seconds, "result": text}
    with transcript.open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    asyncio.run(call(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}))
