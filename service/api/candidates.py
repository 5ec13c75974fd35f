"""Candidates of a search, and one candidate in full."""

from typing import Annotated

from fastapi import APIRouter, Query

from kernelreef import models
from service.api import builders
from service.api.dependencies import Id, Named, Running, needs
from service.api.paging import Cursor, Limit, Page, decode_number, page
from service.api.problems import PROBLEMS
from service.certificates.certifier import Certifier
from service.certificates.document import Certificate
from service.errors import NotFound
from service.evaluation.speedups import completed
from service.security.scopes import Scope
from workers.protocol import Bundle, Outcome, Report

router = APIRouter(tags=["candidates"], responses=PROBLEMS)

EMITTER = r"^[a-z][a-z0-9_]{0,63}$"
"""Pattern of emitters' names."""


@router.get("/searches/{id}/candidates", dependencies=[needs(Scope.READ)])
async def find(
    search: Named,
    running: Running,
    outcome: Annotated[Outcome | None, Query(description="Only candidates with this outcome.")] = None,
    emitter: Annotated[str | None, Query(pattern=EMITTER, description="Only candidates of this emitter.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[models.CandidateSummary]:
    """List the candidates of a search, newest first."""
    found = await running.store.views.candidate_rows(
        search.id, limit=limit + 1, before=decode_number(cursor), outcome=outcome, emitter=emitter
    )
    return page(found, limit, lambda candidate: (candidate.ordinal,), models.CandidateSummary.model_validate)


@router.get("/candidates/{id}", dependencies=[needs(Scope.READ)])
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
