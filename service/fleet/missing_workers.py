"""Work that nobody is there to do: jobs of a search that wait where no living worker would take them.

Not every worker takes every job: each serves its own target and device, and what decides about cells goes to trusted
workers only. A search whose last trusted worker is gone could wait for it for ever without anybody knowing why.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from archive.records import SearchRecord, SearchState
from service.evaluation.jobs import traced_at
from service.fleet.capabilities import Capabilities
from workers.queue import Dispatcher, JobQueue, lanes_of

TRACE = "trace"
"""How kinds of lanes end whose jobs are to trace."""


@dataclass(frozen=True)
class MissingWorkers:
    """What a search waits for.

    Attributes:
        missing: Whom its jobs wait for, in words, such as `a trusted worker that traces for sm_90`.
        stuck: Whether it has jobs, and all of them wait for somebody who is not there.
    """

    missing: tuple[str, ...] = ()
    stuck: bool = False


async def find_missing(capabilities: Capabilities, dispatcher: Dispatcher, search: SearchRecord) -> MissingWorkers:
    """Which jobs of a search nobody is there to do at the moment.

    Raises:
        ArchiveError: If the database does not answer.
        QueueUnavailable: If Redis does not answer.
    """
    lanes, target = await capabilities.lanes(), traced_at(search)
    if all(lanes.trusted.issuperset(lanes_of(target, device)) for device in search.devices):
        return MissingWorkers()  # Whatever it has, somebody does it; the queue need not be asked.
    waiting = await dispatcher.vitals.lanes_of(search.id)
    vacant = [lane for lane in waiting if lane not in lanes.trusted | lanes.others]
    places = {lane.place for lane in lanes.trusted | lanes.others}
    return MissingWorkers(_in_words(vacant, places), stuck=bool(vacant) and len(vacant) == len(waiting))


async def waits_for(capabilities: Capabilities, dispatcher: Dispatcher, search: SearchRecord) -> list[str]:
    """Whom a search waits for, in words, and who judges on a device of it where nobody does; empty while all goes on.

    Raises:
        ArchiveError: If the database does not answer.
        QueueUnavailable: If Redis does not answer.
    """
    if search.state not in (SearchState.PREPARING, SearchState.RUNNING):
        return []
    judges = {_wanted(JobQueue(device, "measure"), trusted=False) for device in await capabilities.lacking(search)}
    return sorted({*(await find_missing(capabilities, dispatcher, search)).missing, *judges})


def _in_words(lanes: Iterable[JobQueue], places: set[str]) -> tuple[str, ...]:
    return tuple(sorted({_wanted(lane, trusted=lane.reserved and lane.place in places) for lane in lanes}))


def _wanted(lane: JobQueue, *, trusted: bool) -> str:
    does = "traces for" if lane.kind.endswith(TRACE) else "judges on"
    return f"a {'trusted ' if trusted else ''}worker that {does} {lane.place}"
