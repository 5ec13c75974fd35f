"""Workers: who is there to trace and to judge."""

from fastapi import APIRouter

from service.api.paging import Cursor, Limit, Page, decode, page
from service.api.problems import PROBLEMS
from service.api.wiring import Running
from workers.queue import WorkerStatus

router = APIRouter(prefix="/workers", tags=["workers"], responses=PROBLEMS)


@router.get("")
async def find(running: Running, cursor: Cursor = None, limit: Limit = 50) -> Page[WorkerStatus]:
    """Workers that were seen lately, by id."""
    after = decode(cursor, str)
    known = sorted(await running.workers(), key=lambda worker: worker.id)
    rest = [worker for worker in known if after is None or worker.id > after[0]]
    return page(rest, limit, lambda worker: (worker.id,), lambda worker: worker)
