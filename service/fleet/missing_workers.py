"""Missing workers: pending jobs of a search whose queue no living worker serves.

Each worker serves its own target and device, and jobs that decide about cells go to trusted workers only. Without this
report a search whose last trusted worker is gone would wait forever, and nobody would know why.
"""

from archive.records import SearchRecord, SearchState
from service.fleet.capabilities import Capabilities
from service.fleet.pool import WorkerPool
from workers.protocol import Device, described_place
from workers.queue import Dispatcher, JobQueue, queues_of


async def find_missing(capabilities: Capabilities, dispatcher: Dispatcher, search: SearchRecord) -> set[str]:
    """Describe the workers that pending jobs wait for, such as `a trusted worker that traces for sm_90`.

    Raises:
        ArchiveError: If the database does not answer.
        QueueUnavailable: If Redis does not answer.
    """
    queues, target = await capabilities.queues(), Device.parse(search.devices[0]).traced_at
    needed = (queues_of(target, device, search.compiler) for device in search.devices)
    if all(map(queues.trusted.issuperset, needed)):
        return set()  # All possible jobs are served, so the queue need not be asked.
    served = queues.trusted | queues.others
    vacant = [queue for queue in await dispatcher.stats.queues_of(search.id) if queue not in served]
    places = {queue.place for queue in served}
    return {_wanted(queue, trusted=queue.reserved and queue.place in places) for queue in vacant}


async def describe_missing(
    capabilities: Capabilities, dispatcher: Dispatcher, search: SearchRecord, *, pool: WorkerPool | None = None
) -> list[str]:
    """Describe the workers that a search waits for, and why those of a local pool do not start; empty if none.

    Raises:
        ArchiveError: If the database does not answer.
        QueueUnavailable: If Redis does not answer.
    """
    if search.state not in (SearchState.PREPARING, SearchState.RUNNING) and not search.finishing:
        return []
    judges = {_wanted(JobQueue(device, "measure"), trusted=False) for device in await capabilities.lacking(search)}
    missing = sorted({*(await find_missing(capabilities, dispatcher, search)), *judges})
    return [*missing, *pool.failing] if missing and pool is not None else missing


def _wanted(queue: JobQueue, *, trusted: bool) -> str:
    does = "traces for" if queue.kind.endswith("trace") else "judges on"
    return f"a {'trusted ' if trusted else ''}worker that {does} {described_place(queue.place)}"
