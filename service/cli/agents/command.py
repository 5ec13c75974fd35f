"""`reef mcp`: an MCP server for coding agents."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kernelreef import AsyncReef
from kernelreef.asynchronous import DEFAULT_URL
from service.cli.connection import Token
from service.cli.console import err
from service.cli.lazy import imported
from service.discovery import find_service
from service.errors import InvalidInput
from service.llm.command import SKILL_FILE
from service.settings import Settings

SERVER = "service.cli.agents.server"
"""Module that needs the package `mcp`, an extra; imported only to serve."""
SEARCH = "REEF_SEARCH"
"""Environment variable with the search that tools mean if none is named."""


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP at /mcp instead of stdio.")] = False,
    host: Annotated[
        str, typer.Option(help="With --http: address to bind; all but loopback need tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --http: port to bind.")] = 8701,
    search: Annotated[str, typer.Option(help=f"Search that tools mean if none is named; or {SEARCH}.")] = "",
    skill: Annotated[bool, typer.Option("--skill", help="Print the skill file for agents, and exit.")] = False,
    url: Annotated[str | None, typer.Option(help="Address of a service, or REEF_URL.", show_default=False)] = None,
    token: Token = None,
) -> None:
    """Serve the tools for coding agents over MCP, as a client of a running service."""
    if skill:
        sys.stdout.write(SKILL_FILE.read_text(encoding="utf-8"))
        return
    settings = Settings()
    where = url or settings.url or find_service(settings.data_dir) or DEFAULT_URL
    own = token or settings.token or ""

    def connect(given: str | None) -> AsyncReef:
        return AsyncReef(where, own if given is None else given)

    try:
        server = imported(SERVER)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"needs the package '{error.name}': pip install 'kernelreef[mcp]'", "mcp") from error
    meant = search or os.environ.get(SEARCH, "")
    if not http:
        asyncio.run(server.make_server(server.ServerOptions(connect, meant, Path.cwd())).run_stdio_async())
        return
    far = not server.is_loopback(host)
    hosts = _hosts(host, settings)
    app = server.http_app(server.ServerOptions(connect, meant, by_header=True), hosts, needs_token=far)
    err.print(f"MCP at http://{host}:{port}{server.PATH}, for the service at {where}; Ctrl-C ends it", highlight=False)
    server.serve_http(app, host, port)


def _hosts(host: str, settings: Settings) -> list[str]:
    """Return the values of the header `Host` that are answered."""
    named = {host, "127.0.0.1", "localhost", "[::1]", *(settings.allowed_hosts or ())}
    return [each for name in sorted(named) for each in (name, f"{name}:*")]
