"""The audit log: changes and refused requests."""

from typing import Annotated

from fastapi import APIRouter, Query

from kernelreef.models import AuditEntry
from service.api.dependencies import SHORT, Running, needs, whole_id
from service.api.paging import Cursor, Limit, Page, decode_number, page
from service.api.problems import PROBLEMS
from service.security.scopes import Scope

router = APIRouter(prefix="/audit", tags=["access"], responses=PROBLEMS, dependencies=[needs(Scope.ADMIN)])


@router.get("")
async def log(
    running: Running,
    token: Annotated[str | None, Query(pattern=SHORT, description="Only entries of one token.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[AuditEntry]:
    """List all requests that changed something or were refused, newest first."""
    of = token and await whole_id(running, "token", token)
    found = await running.store.audit.list(limit=limit + 1, before=decode_number(cursor), token=of)
    return page(found, limit, lambda entry: (entry.seq,), AuditEntry.model_validate)
