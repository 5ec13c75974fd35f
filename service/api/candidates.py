"""Candidates of a search, one candidate in full, and kernels that agents submit or have checked."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response, status

from archive import records
from kernelreef import models
from service.api import builders
from service.api.dependencies import Caller, Id, Named, Running, needs
from service.api.paging import Cursor, Limit, Page, decode_sorted, listed
from service.api.problems import PROBLEMS
from service.certificates.certifier import Certifier
from service.certificates.document import Certificate
from service.errors import InvalidInput, NotFound
from service.evaluation.speedups import completed
from service.operators.naming import find_operator
from service.requests import KernelSubmission, SourceRequest
from service.security.scopes import Scope
from workers.protocol import Bundle, Outcome, Report

router = APIRouter(tags=["candidates"], responses=PROBLEMS)

SHOW = "candidate"
"""Name of the route that shows one candidate."""
EMITTER = r"^[a-z][a-z0-9_]{0,63}$"
"""Pattern of emitters' names."""


CandidateSort = Literal["-created", "created", "-objective", "objective"]
"""Orders of the list of candidates: by `CANDIDATE_SORTS`."""


def filter_of(
    search: Named,
    outcome: Annotated[Outcome | None, Query(description="Only candidates with this outcome.")] = None,
    emitter: Annotated[str | None, Query(pattern=EMITTER, description="Only candidates of this emitter.")] = None,
    state: Annotated[records.CandidateState | None, Query(description="Only candidates in this state.")] = None,
    device: Annotated[
        str | None,
        Query(max_length=64, description="Only with a correct variant on it; with `cell`, the device of the cell."),
    ] = None,
    cell: Annotated[int | None, Query(ge=0, lt=2**31, description="Only candidates offered to this cell.")] = None,
    text: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Only with this text in source, note or reason.")
    ] = None,
) -> records.CandidateFilter:
    """Read the filters of the list of candidates.

    Raises:
        InvalidInput: If the search does not use the device.
    """
    if device is not None and device not in search.devices:
        raise InvalidInput(f"the devices of this search are: {', '.join(search.devices)}", "device")
    if cell is not None:
        device = device or search.devices[0]
    return records.CandidateFilter(emitter, outcome, state, device, cell, text)


@router.get("/searches/{id}/candidates", dependencies=[needs(Scope.READ)])
async def find(
    search: Named,
    running: Running,
    where: Annotated[records.CandidateFilter, Depends(filter_of)],
    sort: Annotated[CandidateSort, Query(description="Order; `objective`: only candidates with one.")] = "-created",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[models.CandidateSummary]:
    """List candidates of a search, newest first unless `sort` says otherwise. A filtered page may hold few items."""
    after = decode_sorted(cursor, sort, records.CANDIDATE_SORTS[sort.removeprefix("-")])
    found = await running.store.listings.candidates(search.id, where, sort=sort, after=after, limit=limit)
    return listed(found, sort, models.CandidateSummary.model_validate)


@router.post("/searches/{id}/candidates", status_code=status.HTTP_202_ACCEPTED, dependencies=[needs(Scope.PROPOSE)])
async def submit(
    body: KernelSubmission, search: Named, request: Request, response: Response, running: Running, caller: Caller
) -> models.CandidateSummary:
    """Submit a kernel to a running search: one of its evaluations. An equal source gives the candidate that there is.

    The search needs the emitter `agent`. Read the verdict at the address in `Location`.
    """
    candidate = await running.intake.submit(search, body, caller.grant)
    response.headers["Location"] = request.app.url_path_for(SHOW, id=candidate.id)
    return models.CandidateSummary.model_validate(candidate)


@router.post("/searches/{id}/checks", dependencies=[needs(Scope.PROPOSE)])
async def check(body: SourceRequest, search: Named, running: Running) -> models.SourceCheck:
    """Trace and compile a source at the shapes of a running search, and predict its times. Nothing is stored.

    It is not evaluated: no result is looked at, and no time is measured.
    """
    operator = await find_operator(running.store, running.operators(), search.operator)
    return builders.source_check_of(await running.intake.check(search, operator, body.source), search)


@router.get("/candidates/{id}", name=SHOW, dependencies=[needs(Scope.READ)])
async def show(id: Id, running: Running) -> models.Candidate:
    """Return one candidate: source, variants with their plans in words, and all reports."""
    store = running.store
    candidate = await store.candidates.get(id)
    variants = []
    for variant in await store.candidates.variants(id):
        stored = await store.bundles.get(variant.bundle) if variant.bundle else None
        variants.append(builders.variant_of(variant, stored))
    search, reports = await store.searches.get(candidate.search), await store.reports.of_candidate(id)
    if search.baselines:
        reports = [completed(Report.model_validate_json(text), search).model_dump_json() for text in reports]
    return builders.candidate_of(candidate, variants, reports)


@router.get("/candidates/{id}/bundle", dependencies=[needs(Scope.READ)])
async def bundle(
    id: Id,
    running: Running,
    variant: Annotated[int, Query(ge=0, lt=2**31, description="Index of the variant.")] = 0,
) -> Bundle:
    """Return the launch plans of one variant with their kernels, as they are replayed."""
    variants = await running.store.candidates.variants(id)
    chosen = next((item for item in variants if item.index == variant), None)
    if chosen is None or chosen.bundle is None:
        found = await running.store.candidates.get(id)
        raise NotFound(f"candidate {id} has no plan for variant {variant}: {found.outcome or found.state.value}")
    return Bundle.model_validate_json((await running.store.bundles.get(chosen.bundle)).document)


@router.get("/candidates/{id}/certificate", dependencies=[needs(Scope.READ)])
async def certificate(
    id: Id,
    running: Running,
    device: Annotated[str | None, Query(max_length=64, description="Device of the verdict; any by default.")] = None,
    variant: Annotated[int | None, Query(ge=0, lt=2**31, description="Index of the variant; any by default.")] = None,
    source: Annotated[bool, Query(description="Include the source; plans and assembly are always included.")] = True,
) -> Certificate:
    """Return a certificate: all evidence for a verdict, which another machine can repeat."""
    return await Certifier(running.store).of_candidate(id, device=device, variant=variant, with_source=source)
