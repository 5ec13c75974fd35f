"""Changes to a search: budget, priority, stop rules, pins, and hints for language models."""

from uuid6 import uuid7

from archive.errors import RecordConflict as ArchiveConflict
from archive.errors import RecordNotFound as Gone
from archive.grid import Grid
from archive.records import HintRecord, NewHint, NewPin, PinRecord, SearchRecord, SearchState
from archive.store import Store
from service.errors import Conflict, InvalidInput
from service.events import EventBus, SearchChanged
from service.generation.stop_rules import stop_reason
from service.requests import HintRequest, PinRequest, SearchChange

STEERABLE = (SearchState.PREPARING, SearchState.RUNNING, SearchState.PAUSED)
"""States in which a search can be changed while it is open."""
EXTENSIBLE = (*STEERABLE, SearchState.DONE)
"""States in which the limits of a search can be changed: with more room, a done search can be resumed."""
MOST_PINS = 64
"""Maximum number of pins of one search. With more of them, no parent would be preferred any more."""
MOST_HINTS = 32
"""Maximum number of hints for one search: a prompt has room for this many."""


async def change(store: Store, events: EventBus, search: SearchRecord, asked: SearchChange) -> SearchRecord:
    """Change how a search goes on, if it has not ended, and its name, tags and notes at any time.

    Raises:
        Conflict: If the search has ended, or has more candidates than the new budget.
    """
    changed = await _steer(store, search, asked) if asked.steers else search
    if asked.labels:
        changed = await store.searches.label(search.id, name=asked.name, tags=asked.tags, notes=asked.notes)
    events.publish(SearchChanged(search=changed.id, state=changed.state.value, reason=changed.reason))
    return changed


async def _steer(store: Store, search: SearchRecord, asked: SearchChange) -> SearchRecord:
    """Give a search another budget, priority or stop rules. Waiting jobs keep their place in the queue.

    A done search stays done until somebody resumes it.

    Raises:
        Conflict: If the search was stopped or failed, or has more candidates than the new budget.
    """
    if search.state not in EXTENSIBLE:
        _require_open(search)
    proposed = (await store.candidates.count(search.id)).candidates
    if asked.evaluations is not None and asked.evaluations < proposed:
        raise Conflict(
            f"the search has {proposed} candidates already, so its evaluations cannot be {asked.evaluations};"
            " stop the search to end it"
        )
    stop = None if asked.stop is None else asked.stop.model_dump(mode="json", exclude_none=True)
    try:
        return await store.searches.change(
            search.id, evaluations=asked.evaluations, priority=asked.priority, stop=stop, only_in=EXTENSIBLE
        )
    except ArchiveConflict as error:
        raise Conflict(str(error)) from error


async def require_room(store: Store, search: SearchRecord) -> None:
    """Check that the limits of a done search allow it to go on.

    Raises:
        Conflict: If they do not; says which limit to change.
    """
    proposed = (await store.candidates.count(search.id)).candidates
    if proposed >= search.evaluations:
        detail = f"the search has used its {search.evaluations} evaluations; give it more, then resume it"
        raise Conflict(detail)
    if met := await stop_reason(store, search):
        raise Conflict(f"the search would end at once: {met}; change its stop rules, then resume it")


async def pin(store: Store, search: SearchRecord, asked: PinRequest, author: str) -> PinRecord:
    """Pin a cell or a candidate, which is then preferred as a parent. An equal pin is kept.

    Raises:
        InvalidInput: If the search has no such device, cell or candidate.
        Conflict: If the search has ended or has the maximum number of pins.
    """
    _require_open(search)
    device = asked.device or search.devices[0]
    if device not in search.devices:
        raise InvalidInput(f"this search has the devices {', '.join(search.devices)}", "device")
    cells = Grid(search.axes).cells
    if asked.cell is not None and asked.cell >= cells:
        raise InvalidInput(f"the grid has {cells} cells, numbered from 0", "cell")
    candidate = None if asked.candidate is None else await _candidate(store, search, asked.candidate)
    new = NewPin(str(uuid7()), search.id, device, asked.cell, candidate, author)
    return await store.pins.put(new, most=MOST_PINS)


async def hint(
    store: Store, search: SearchRecord, asked: HintRequest, author: str, id: str | None = None
) -> HintRecord:
    """Store a hint for the language models of a search; an existing hint with the same `id` stays as it is.

    Raises:
        Conflict: If the search has ended or has the maximum number of hints.
    """
    _require_open(search)
    return await store.hints.put(NewHint(id or str(uuid7()), search.id, asked.text, author), most=MOST_HINTS)


def _require_open(search: SearchRecord) -> None:
    if search.state not in STEERABLE:
        raise Conflict(f"the search is {search.state.value}, which is final; start another search")


async def _candidate(store: Store, search: SearchRecord, given: str) -> str:
    """Return the whole id of a candidate of a search.

    Raises:
        InvalidInput: If the search has no such candidate.
        AmbiguousId: If a short id fits several.
    """
    try:
        found = await store.candidates.get(await store.ids.whole("candidate", given))
    except Gone:
        found = None
    if found is None or found.search != search.id:
        raise InvalidInput("this search has no such candidate", "candidate")
    return found.id
