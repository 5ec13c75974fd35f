"""`reef search`: a whole search on this machine, from an operator to the best kernel in a file."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from archive.grid import Grid
from archive.records import Elite, Progress, Search, SearchState
from service.catalogue import load_operator
from service.cli.console import emit_json, err, out
from service.cli.pictures import elite_table, heat_map
from service.cli.progress import ProgressView
from service.coordinator import Coordinator
from service.errors import BadInput
from service.figures import in_words
from service.kernels import write_kernel
from service.requests import SearchRequest
from service.settings import Settings
from service.tasks import end

FINAL = (SearchState.DONE, SearchState.STOPPED, SearchState.FAILED)
NOTHING_CORRECT = 3
FAILED = 1
POLL_S = 0.5
"""How often the view is drawn anew between events."""


def search(
    spec: Annotated[str, typer.Argument(help="A catalogue name, or a path to an operator.toml.")] = "",
    device: Annotated[
        list[str] | None, typer.Option(help="h200 or model:<target>; may be given several times.")
    ] = None,
    evaluations: Annotated[int, typer.Option(help="Candidates to judge.")] = 200,
    emitters: Annotated[str, typer.Option(help="Comma-separated.")] = "tune,rewrite",
    seed: Annotated[int, typer.Option(help="Drives proposals, never input values.")] = 0,
    resume: Annotated[str | None, typer.Option(help="Go on with the search of this id.")] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="Where the best kernel is written.")] = Path("reef-out"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Search for a faster kernel for SPEC."""
    request = None
    if resume is None:
        operator = load_operator(spec or "rmsnorm")
        request = _request(
            operator=operator.model_dump(mode="json"),
            devices=tuple(device or ["model:sm_90"]),
            emitters=tuple(name.strip() for name in emitters.split(",") if name.strip()),
            budget=evaluations,
            seed=seed,
        )
    raise typer.Exit(asyncio.run(_search(Settings(), request, resume, out_dir, as_json=as_json)))


def _request(**fields: object) -> SearchRequest:
    """Build a request from options; what cannot be right is named by its option.

    Raises:
        BadInput: With the option and what is wrong.
    """
    try:
        return SearchRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(first["msg"], ".".join(str(part) for part in first["loc"])) from error


async def _search(
    settings: Settings, request: SearchRequest | None, resume: str | None, out_dir: Path, *, as_json: bool
) -> int:
    coordinator = await Coordinator.open(settings)
    try:
        found = await _begin(coordinator, request, resume)
        err.print(f"search {found.id} (continue it after an interruption with: reef search --resume {found.id})")
        found, progress = await _watch(coordinator, found)
        elites = await coordinator.store.elites.list(found.id, found.devices[0], found.axes_version)
        path = await _write_best(coordinator, found, elites, out_dir)
        _conclude(found, progress, elites, path, as_json=as_json)
    finally:
        await coordinator.close()
    if found.state is SearchState.FAILED:
        return FAILED
    return 0 if elites else NOTHING_CORRECT


async def _begin(coordinator: Coordinator, request: SearchRequest | None, resume: str | None) -> Search:
    if request is not None:
        return await coordinator.submit(request)
    found = await coordinator.store.searches.get(resume or "")
    return await coordinator.resume(found.id) if found.state is SearchState.PAUSED else found


async def _watch(coordinator: Coordinator, search: Search) -> tuple[Search, Progress]:
    cells = Grid(search.axes).cells
    with ProgressView(search) as view:
        follower = asyncio.create_task(_follow(coordinator, search, view))
        try:
            while True:
                search = await coordinator.store.searches.get(search.id)
                progress = await coordinator.store.elites.progress(search.id, search.devices[0], cells)
                view.show(search, progress, await coordinator.unserved(search))
                if search.state in FINAL:
                    return search, progress
                await asyncio.sleep(POLL_S)
        finally:
            await end([follower])


async def _follow(coordinator: Coordinator, search: Search, view: ProgressView) -> None:
    async for announcement in coordinator.events.subscribe(search.id):
        view.note(announcement.event)


async def _write_best(coordinator: Coordinator, search: Search, elites: list[Elite], out_dir: Path) -> Path | None:
    if not elites:
        return None
    best = max(elites, key=lambda elite: elite.objective)
    return await write_kernel(coordinator.store, search, best, out_dir)


def _conclude(search: Search, progress: Progress, elites: list[Elite], path: Path | None, *, as_json: bool) -> None:
    device = search.devices[0]
    unit = in_words(device)
    if as_json:
        emit_json(
            {
                "search": search.id,
                "state": search.state.value,
                "reason": search.reason,
                "device": device,
                "figures": unit,
                "evaluations": progress.evaluations,
                "correct": progress.correct,
                "coverage": progress.coverage,
                "qd_score": progress.qd_score,
                "best": progress.best,
                "kernel": str(path) if path else None,
            }
        )
        return
    if search.state is SearchState.FAILED:
        err.print(f"[bold red]The search failed:[/] {search.reason}", highlight=False)
        return
    out.print(heat_map(search, elites))
    out.print(elite_table(search, elites))
    out.print(
        f"{progress.evaluations} evaluations, {progress.correct} correct; {progress.elites} of {progress.cells} cells "
        f"({progress.coverage:.0%}); QD score {progress.qd_score:.2f}"
    )
    out.print(f"[bold]All figures are {unit}.[/]")
    if path:
        out.print(f"The best kernel is in {path}")
