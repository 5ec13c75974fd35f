"""What was learned across searches, to be read, edited and handed on; and the steps of a search to learn from."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, status
from fastapi.responses import StreamingResponse

from archive.records import KnowledgeEntryRecord, KnowledgeState, SearchRecord
from archive.store import Store
from service.analysis.trajectories import Which, trajectories
from service.api.dependencies import Named, Running, needs
from service.api.paging import Cursor, Limit, Page, decode, page
from service.api.problems import PROBLEMS
from service.errors import Conflict
from service.knowledge.background import ENDED
from service.knowledge.distillation import distil
from service.knowledge.schemas import KnowledgeChange, KnowledgeEntries, KnowledgeEntry, KnowledgeImportResult
from service.security.scopes import Scope

router = APIRouter(tags=["knowledge"], responses=PROBLEMS)

EntryId = Annotated[str, Path(pattern=r"^[0-9a-f]{24}$", description="24 hexadecimal digits.")]
NDJSON = "application/x-ndjson"


@router.get("/knowledge", dependencies=[needs(Scope.READ)])
async def find(
    running: Running,
    state: Annotated[KnowledgeState | None, Query(description="Only entries in this state.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[KnowledgeEntry]:
    """Entries, those of most worth first."""
    after = decode(cursor, (int, float), str)
    store = running.store
    found = await store.knowledge.list(limit=limit + 1, after=(after[0], after[1]) if after else None, state=state)
    shown = {entry.id: await _shown(store, entry) for entry in found}
    return page(found, limit, lambda entry: (entry.worth, entry.id), lambda entry: shown[entry.id])


@router.post("/knowledge", status_code=status.HTTP_201_CREATED, dependencies=[needs(Scope.ADMIN)])
async def put(body: KnowledgeEntries, running: Running) -> KnowledgeImportResult:
    """Keep entries from elsewhere, or written by hand. Those known already get their sentence, state and findings."""
    await running.store.knowledge.put([given.record() for given in body.entries])
    return KnowledgeImportResult(entries=len(body.entries))


@router.get("/knowledge/{entry}", dependencies=[needs(Scope.READ)])
async def show(entry: EntryId, running: Running) -> KnowledgeEntry:
    """One entry."""
    return await _shown(running.store, await running.store.knowledge.get(entry))


@router.patch("/knowledge/{entry}", dependencies=[needs(Scope.ADMIN)])
async def change(entry: EntryId, body: KnowledgeChange, running: Running) -> KnowledgeEntry:
    """Give an entry another sentence, or decide for good whether it is offered."""
    edited = await running.store.knowledge.edit(entry, sentence=body.sentence, state=body.state)
    return await _shown(running.store, edited)


@router.post("/searches/{id}/knowledge", dependencies=[needs(Scope.ADMIN)])
async def learn(search: Named, running: Running) -> KnowledgeImportResult:
    """Learn from a search that has ended, again if need be: nothing counts twice. Answers how many entries name it."""
    if search.state not in ENDED:
        raise Conflict(f"the search is {search.state.value}; only one that is done or stopped teaches anything")
    await distil(running.store, search)
    return KnowledgeImportResult(entries=await running.store.knowledge.named_by(search.id))


@router.get(
    "/searches/{id}/trajectories",
    dependencies=[needs(Scope.READ)],
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {}}, "description": "NDJSON: see docs/reference/trajectories.md."}},
)
async def steps(
    search: Named,
    running: Running,
    which: Annotated[Which, Query(alias="filter", description="`gains`: correct, and faster for certain.")] = "all",
    rewards: Annotated[bool, Query(description="Fill in rewards, and leave out steps that have none.")] = False,
) -> StreamingResponse:
    """Every judged step of a search, one JSON object a line, as it is read."""
    return StreamingResponse(_lines(running.store, search, which, rewards=rewards), media_type=NDJSON)


async def _lines(store: Store, search: SearchRecord, which: Which, *, rewards: bool) -> AsyncIterator[str]:
    async for record in trajectories(store, search, which, rewards=rewards):
        yield record.model_dump_json() + "\n"


async def _shown(store: Store, entry: KnowledgeEntryRecord) -> KnowledgeEntry:
    return KnowledgeEntry.of(entry, await store.knowledge.findings(entry.id))
