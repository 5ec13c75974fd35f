"""Results of a search on one device: the grid with its elites, and the progress."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Response

from archive.grid import Grid
from archive.records import EliteRecord, SearchRecord, SortKey
from kernelreef import models
from service.api import builders
from service.api.dependencies import Named, Running, needs
from service.api.paging import Cursor, Limit, Page, decode_sorted, page, remaining
from service.api.problems import PROBLEMS
from service.errors import InvalidInput
from service.evaluation.activity import elapsed_s
from service.evaluation.finalists import examination_progress, finalists
from service.generation.emitter_stats import emitter_shares, read_stats, selection_of
from service.generation.screening import screening_report
from service.generation.stop_rules import seconds_left
from service.security.scopes import Scope
from workers.protocol import PROTOCOL_VERSION

router = APIRouter(prefix="/searches/{id}", tags=["archives"], responses=PROBLEMS)

EliteSort = Literal["-objective", "objective", "-cell", "cell", "-placed", "placed"]
ELITE_SORTS: Mapping[str, tuple[Callable[[EliteRecord], SortKey], Sequence[type | tuple[type, ...]]]] = {
    # Of equally good elites the one of the first cell is the best.
    "objective": (lambda elite: (elite.objective, -elite.cell), ((int, float), int)),
    "cell": (lambda elite: (elite.cell,), (int,)),
    "placed": (lambda elite: (elite.placed_at.isoformat(), elite.cell), (str, int)),
}
"""Sort keys of elites with the types of their parts, by the names in `EliteSort`."""
NOT_MODIFIED: dict[str, Any] = {"description": "The archive has not changed since the client read it"}


def device_of(
    search: Named, device: Annotated[str | None, Query(max_length=64, description="The search's first device.")] = None
) -> str:
    """Return the requested device, or the search's first.

    Raises:
        InvalidInput: If the search does not use it.
    """
    if device is None:
        return search.devices[0]
    if device not in search.devices:
        raise InvalidInput(f"the devices of this search are: {', '.join(search.devices)}", "device")
    return device


OnDevice = Annotated[str, Depends(device_of)]


@router.head("/archive", response_model=None, include_in_schema=False, dependencies=[needs(Scope.READ)])
@router.get("/archive", response_model=models.Archive, responses={304: NOT_MODIFIED}, dependencies=[needs(Scope.READ)])
async def archive(
    search: Named,
    device: OnDevice,
    running: Running,
    response: Response,
    if_none_match: Annotated[str | None, Header(max_length=1024, description="ETags of cached responses.")] = None,
) -> models.Archive | Response:
    """Return the grid: axes with their labels, and all elites. 304 if it matches an ETag of `If-None-Match`."""
    version = await running.store.elites.version(search.id, device, search.axes_version)
    response.headers["ETag"] = f'"{PROTOCOL_VERSION}-{search.axes_version}-{version}"'
    if if_none_match and response.headers["ETag"] in [tag.strip() for tag in if_none_match.split(",")]:
        return Response(status_code=304, headers={"ETag": response.headers["ETag"]})
    elites = await running.store.elites.list(search.id, device, search.axes_version)
    provisional = await running.store.provisional.list(search.id, device, search.axes_version)
    return builders.archive_of(search, device, elites, provisional)


@router.get("/elites", dependencies=[needs(Scope.READ)])
async def elites(
    search: Named,
    device: OnDevice,
    running: Running,
    sort: Annotated[EliteSort, Query(description="Order; a minus sign reverses it.")] = "-objective",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[models.Elite]:
    """List the elites, best first unless `sort` says otherwise, with the results of finalists."""
    grid = Grid(search.axes)
    key, kinds = ELITE_SORTS[sort.removeprefix("-")]
    ranked = remaining(
        await running.store.elites.list(search.id, device, search.axes_version),
        key,
        decode_sorted(cursor, sort, kinds),
        descending=sort.startswith("-"),
    )
    stamps = await finalists(running.store, ranked[:limit])
    return page(
        ranked,
        limit,
        lambda elite: (sort, *key(elite)),
        lambda elite: builders.elite_of(search, elite, grid, stamps[elite.job]),
    )


@router.get("/progress", dependencies=[needs(Scope.READ)])
async def progress(search: Named, running: Running) -> models.Progress:
    """Return the progress of a search and the outcomes of its candidates."""
    counts, stats = await running.store.candidates.count(search.id), await read_stats(running.store, search)
    return models.Progress(
        search=search.id,
        state=search.state,
        reason=search.reason,
        refused_seeds=search.refused_seeds,
        evaluations=search.evaluations,
        proposals=counts.proposals,
        candidates=counts.candidates,
        in_flight=counts.in_flight,
        evaluated=counts.evaluated,
        equal_plans=counts.equal_plans,
        devices_without_worker=tuple(await running.capabilities.lacking(search)),
        missing_workers=tuple(await running.describe_missing(search)),
        devices=tuple([await _on(device, search, running) for device in search.devices]),
        emitters=tuple(models.EmitterStatus(**vars(share)) for share in emitter_shares(stats)),
        screening=screening_report(search, stats) if selection_of(search).screening else None,
        activity=await running.describe_activity(search),
        elapsed_s=elapsed_s(search),
        running_s=counts.running_ms / 1000,
        left_s=seconds_left(search, counts),
        finishing=search.finishing,
        **vars(await examination_progress(running.store, search)),
    )


async def _on(device: str, search: SearchRecord, running: Running) -> models.DeviceProgress:
    found = await running.store.elites.progress(search.id, device, Grid(search.axes).cells)
    return builders.device_progress_of(search, device, found)
