"""`reef best` and `reef plan show`: look at what searches on this machine have found."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from archive.records import Search
from archive.store import Store, migrate
from service.cli.console import emit_json, out
from service.cli.pictures import elite_table
from service.errors import BadInput, NotFound
from service.figures import best_baselines, in_words
from service.kernels import write_kernel
from service.reports import reports_on
from service.settings import Settings
from workers.protocol import Bundle, Readings
from workers.protocol.words import describe

T = TypeVar("T")
plan = typer.Typer(help="Launch plans.", no_args_is_help=True)


def best(
    search: Annotated[str, typer.Argument(help="Id of a search; the newest if left out.")] = "",
    write: Annotated[Path | None, typer.Option("--out", help="Also write the best kernel into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the best elites of a search."""
    asyncio.run(_with_store(lambda store: _best(store, search, write, as_json=as_json)))


@plan.command("show")
def show(
    candidate: Annotated[str, typer.Argument(help="Id of a candidate.")],
    variant: Annotated[int, typer.Option(help="Which of its variants.")] = 0,
    shape: Annotated[int, typer.Option(help="Which of its plans, from 0; all if left out.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the bundle as it is.")] = False,
) -> None:
    """Say in words what a candidate's plans will do."""
    asyncio.run(_with_store(lambda store: _show(store, candidate, variant, shape, as_json=as_json)))


async def _with_store(use: Callable[[Store], Awaitable[T]]) -> T:
    settings = Settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    await migrate(settings.database)
    store = await Store.open(settings.database)
    try:
        return await use(store)
    finally:
        await store.close()


async def _find(store: Store, search: str) -> Search:
    if search:
        return await store.searches.get(search)
    newest = await store.searches.list(limit=1)
    if not newest:
        raise NotFound("there is no search yet; start one with: reef search rmsnorm")
    return newest[0]


async def _best(store: Store, search: str, write: Path | None, *, as_json: bool) -> None:
    found = await _find(store, search)
    elites = await store.elites.list(found.id, found.devices[0], found.axes_version)
    if not elites:
        raise NotFound(f"search {found.id} has no elite yet")
    leader = max(elites, key=lambda elite: elite.objective)
    path = await write_kernel(store, found, leader, write) if write else None
    candidate = await store.candidates.get(leader.candidate)
    reports = [report for report in await reports_on(store, leader.candidate) if report.job == leader.job]
    if as_json:
        emit_json(
            {
                "search": found.id,
                "operator": found.operator_name,
                "device": leader.device,
                "candidate": leader.candidate,
                "variant": leader.variant,
                "plan": leader.bundle,
                "speedup": {"low": leader.low, "mid": leader.mid, "high": leader.high},
                "figures": in_words(leader.device),
                "baselines": best_baselines(reports[0]) if reports else {},
                "coordinates": leader.coordinates,
                "source": candidate.source,
                "file": str(path) if path else None,
            }
        )
        return
    out.print(elite_table(found, elites))
    if path:
        out.print(f"The best kernel is in {path}")
    else:
        out.print(candidate.source, highlight=False, markup=False)


async def _show(store: Store, candidate: str, variant: int, shape: int, *, as_json: bool) -> None:
    variants = await store.candidates.variants(candidate)
    chosen = next((item for item in variants if item.index == variant), None)
    if chosen is None or chosen.bundle is None:
        found = await store.candidates.get(candidate)
        raise NotFound(f"candidate {candidate} has no plan for variant {variant}: {found.outcome or found.state.value}")
    record = await store.bundles.get(chosen.bundle)
    if as_json:
        emit_json(Bundle.model_validate_json(record.document).model_dump(mode="json"))
        return
    bundle = Bundle.model_validate_json(record.document)
    if shape >= len(bundle.plans):
        raise BadInput(f"the bundle has {len(bundle.plans)} plans, numbered from 0", "--shape")
    for index in range(len(bundle.plans)) if shape < 0 else [shape]:
        readings = Readings.model_validate(record.readings[index])
        for line in describe(bundle, index, readings):
            out.print(line, highlight=False, markup=False)
        out.print()
