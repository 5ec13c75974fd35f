"""Steps of a search, one JSON object per line."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from archive.records import SearchRecord
from archive.store import Store
from service.analysis.trajectories import Which, trajectories
from service.api.dependencies import Named, Running, needs
from service.api.problems import PROBLEMS
from service.security.scopes import Scope

router = APIRouter(tags=["trajectories"], responses=PROBLEMS)

NDJSON = "application/x-ndjson"


@router.get(
    "/searches/{id}/trajectories",
    dependencies=[needs(Scope.READ)],
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {NDJSON: {"schema": {"type": "string"}}},
            "description": "One JSON object per line: see docs/reference/trajectories.md.",
        }
    },
)
async def steps(
    search: Named,
    running: Running,
    which: Annotated[Which, Query(alias="filter", description="`gains`: correct and certainly faster.")] = "all",
    rewards: Annotated[bool, Query(description="Fill in rewards, and omit steps without one.")] = False,
) -> StreamingResponse:
    """Stream all evaluated steps of a search, one JSON object per line."""
    return StreamingResponse(_lines(running.store, search, which, rewards=rewards), media_type=NDJSON)


async def _lines(store: Store, search: SearchRecord, which: Which, *, rewards: bool) -> AsyncIterator[str]:
    async for record in trajectories(store, search, which, rewards=rewards):
        yield record.model_dump_json() + "\n"
