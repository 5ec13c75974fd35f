"""Candidates: those of a search, and one with all that is known of it."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.api import schemas
from service.api.paging import Cursor, Limit, Page, decode_id, page
from service.api.problems import PROBLEMS
from service.api.wiring import Id, Named, Running
from workers.protocol import Outcome

router = APIRouter(tags=["candidates"], responses=PROBLEMS)


@router.get("/searches/{id}/candidates")
async def find(
    search: Named,
    running: Running,
    outcome: Annotated[Outcome | None, Query(description="Only candidates with this outcome.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[schemas.CandidateSummary]:
    """Candidates of a search, newest first."""
    found = await running.store.candidates.list(search.id, limit=limit + 1, before=decode_id(cursor), outcome=outcome)
    return page(found, limit, lambda candidate: (candidate.id,), schemas.CandidateSummary.model_validate)


@router.get("/candidates/{id}")
async def show(id: Id, running: Running) -> schemas.Candidate:
    """One candidate: source, variants with their plans in words, and every report."""
    store = running.store
    candidate = await store.candidates.get(id)
    variants = []
    for variant in await store.candidates.variants(id):
        stored = await store.bundles.get(variant.bundle) if variant.bundle else None
        variants.append(schemas.Variant.of(variant, stored))
    return schemas.Candidate.of(candidate, variants, await store.reports.of_candidate(id))
