"""Steps of a search, one JSON object per line, and the reward of a single step."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from archive.records import SearchRecord
from archive.store import Store
from kernelreef import models
from service.analysis.trajectories import Which, reward_over, trajectories
from service.api.dependencies import Id, Named, Running, needs, whole_id
from service.api.problems import PROBLEMS
from service.errors import Conflict, InvalidInput
from service.evaluation.figure_labels import provenance
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


@router.get("/candidates/{id}/reward", dependencies=[needs(Scope.READ)])
async def reward(
    id: Id,
    running: Running,
    over: Annotated[
        str | None, Query(max_length=64, description="Candidate that the step starts from; the first seed by default.")
    ] = None,
    device: Annotated[str | None, Query(max_length=64, description="Device; the search's first by default.")] = None,
) -> models.Reward:
    """Return the reward of a step from one candidate to another, as trajectories define rewards."""
    store = running.store
    candidate = await store.candidates.get(id)
    search = await store.searches.get(candidate.search)
    chosen = device or search.devices[0]
    if chosen not in search.devices:
        raise InvalidInput(f"the devices of this search are: {', '.join(search.devices)}", "device")
    if candidate.outcome is None:
        raise Conflict(f"candidate {id} has no verdict yet: it is {candidate.state.value}")
    before = None if over is None else await store.candidates.get(await whole_id(running, "candidate", over))
    if before is not None and before.search != search.id:
        raise InvalidInput(f"'{over}' is no candidate of this search", "over")
    found = await reward_over(store, search, candidate, None if before is None else before.id, chosen)
    return models.Reward(
        candidate=candidate.id,
        over=None if before is None else before.id,
        device=chosen,
        provenance=provenance(chosen),
        outcome=found.outcome,
        gain=None if found.gain is None else models.Speedup.model_validate(found.gain.model_dump()),
        reward=found.reward,
    )


async def _lines(store: Store, search: SearchRecord, which: Which, *, rewards: bool) -> AsyncIterator[str]:
    async for record in trajectories(store, search, which, rewards=rewards):
        yield record.model_dump_json() + "\n"
