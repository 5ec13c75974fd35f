"""Recorded answers of a language model judged again, and the rules beside them: one card, one session.

    python -m benchmarks.kernelbench_prepare PATH --folder prepared --only level2/24_Conv3d_Min_Softmax.py ...
    reef new benchmarks/one_step_functions.py:residual_gated_norm --out prepared/default
    python -m benchmarks.models_again --data AGAIN --operators softmax prepared/default/* --device cuda     # on a card
    python -m benchmarks.models conclude --data AGAIN --rules AGAIN --out results

An operator has two searches in the data folder: the model's and the rules'. Both start from the seed that the recorded
prompts began with. One after the other has the card: the model's answers of an operator, and the rules until they have
as many evaluations and as many device seconds. Meanwhile the next operator is prepared: its reference is exported, its
checks are tested and its seed is judged.

A recorded exchange is posted as it was: prompt, answer, strategy, target cell and parents, which its prompt shows. The
search then reads the answer as one that arrived while it was paused. No prompt is asked anew. A run goes on where an
earlier one ended.
"""

import argparse
import asyncio
import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from uuid6 import uuid7

from archive.grid import Grid
from archive.records import ExchangeState, LlmReply, NewExchange, SearchRecord, SearchState
from archive.store import Store
from benchmarks.models import (
    POLL_S,
    RECORDED,
    RECORDING,
    Row,
    SearchFigures,
    judged,
    read_recording,
    request_of,
    served,
    told,
)
from benchmarks.record import RESULTS
from kernelreef.states import ACTIVE, OPEN
from service.coordinator import Coordinator
from service.emitters.llm.strategies import CROSS, SCRATCH
from service.generation.contexts import in_words
from service.operators.catalogue import load_operator
from service.operators.sources import digest
from service.requests import SearchRequest
from service.settings import DATABASE_FILE, usable_cores

SHARES = (0.6, 1.0)
"""Parts of an operator's time after which the model's turn and the rules' end at the latest."""
LOOK_S = 0.1
"""Seconds between two looks for a search that is prepared, which would go on by itself."""
FORGET_S, AGAIN_S = 0.5, 5.0
"""Seconds in which the service forgets the conversations of a paused search, so that it looks for answers when it is
resumed, and seconds after which it is made to look again."""
MARGIN = 1.1
"""Evaluations of the rules per evaluation of the model."""
BACKEND, ANSWERER = "manual", "recording"
CELL = re.compile(r"^# Cell to fill\n\n.*Nobody holds this cell yet: (.*)\.$", re.MULTILINE)
SECOND = re.compile(r"^Kernel 2 lies .*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def seed_of(lines: Sequence[Row]) -> str:
    """Return the seed that a recorded search began with: a line without a parent has it in its place."""
    return next(str(line["parent"]) for line in lines if line["strategy"] == SCRATCH)


def parents_of(line: Row) -> list[str]:
    """Return the sources of the kernels that a recorded prompt works on."""
    if line["strategy"] == SCRATCH:
        return []
    second = SECOND.findall(line["asked"]["user"]) if line["strategy"] == CROSS else []
    return [line["parent"], *second]


def cell_of(line: Row, search: SearchRecord) -> int | None:
    """Return the cell that a recorded prompt aims at; None if it names none.

    Raises:
        ValueError: If the search's grid has no such cell.
    """
    named = CELL.search(line["asked"]["user"])
    if named is None:
        return None
    return [in_words(search, cell) for cell in range(Grid(search.axes).cells)].index(named[1])


def requests(options: argparse.Namespace, spec: str, lines: Sequence[Row]) -> tuple[SearchRequest, SearchRequest]:
    """Return the searches of one operator: the model's and the rules'."""
    # The seed, and one that never comes: a full search would be done, and its finalists be examined.
    room = len(lines[: options.answers]) + 2
    model = request_of(spec, options.device, model=True, seed=seed_of(lines), evaluations=room)
    return model, request_of(spec, options.device, model=False, seed=seed_of(lines))


async def again(options: argparse.Namespace) -> None:
    """Judge all recorded answers, and let the rules search as long."""
    until, recording = time.monotonic() + options.seconds, read_recording(options.recording)
    async with served(options, (), None) as coordinator:
        store = coordinator.store
        for each in await store.searches.list(limit=200, states=ACTIVE):
            await coordinator.pause(each.id)
        ready = await finished(store, options, recording)
        specs = [(spec, recording[load_operator(spec).name]) for spec in options.operators]
        # A search is prepared during the turns before its own. An elite that leads for two minutes would be examined,
        # which takes the card for minutes, and a seed leads until something is faster.
        following = asyncio.create_task(prepared(coordinator, requests(options, *specs[0]), until))
        for number, (_, lines) in enumerate(specs):
            pair = await following
            if number + 1 < len(specs):
                begun = prepared(coordinator, requests(options, *specs[number + 1]), until)
                following = asyncio.create_task(begun)
            now = time.monotonic()
            mine = (until - now) / (len(specs) - number)
            for search, share in zip(pair, SHARES, strict=True):
                if search.id not in ready:
                    await turn(coordinator, options, search, lines[: options.answers], now + share * mine)
                    print(f"{search.operator_name}: {until - time.monotonic():.0f} s are left", flush=True)
        await told(store)


async def finished(store: Store, options: argparse.Namespace, recording: Mapping[str, Sequence[Row]]) -> set[str]:
    """Return the searches that an earlier run left with all that they should have."""
    found = await store.searches.list(limit=200)
    judged_models = {}
    for each in found:
        prompts = {line["prompt"] for line in recording.get(each.operator_name, ())[: options.answers]}
        posted = {exchange.digest for exchange in await store.attempts.asked(each.id)}
        waits = (await store.candidates.count(each.id)).in_flight or not await _read(store, each)
        if each.llm is not None and prompts <= posted and not waits:
            judged_models[each.operator_name] = each.id
    ready = set(judged_models.values())
    for each in found:
        rules = each.llm is None and each.operator_name in judged_models
        if rules and await matched(store, options.data / DATABASE_FILE, each, 0.0):
            ready.add(each.id)
    return ready


async def prepared(coordinator: Coordinator, asked: Sequence[SearchRequest], until: float) -> list[SearchRecord]:
    """Submit the searches that the data folder lacks, and wait until they are prepared; each is paused then."""
    listed = await coordinator.store.searches.list(limit=200)
    known = {(each.operator_name, each.emitters): each for each in listed}
    found = []
    for request in asked:
        assert isinstance(request.operator, dict)
        earlier = known.get((request.operator["name"], request.emitters))
        found.append(earlier or await coordinator.submit(request))
    while time.monotonic() < until:
        states = [(await coordinator.store.searches.get(each.id)).state for each in found]
        for each, state in zip(found, states, strict=True):
            if state is SearchState.RUNNING:
                await coordinator.pause(each.id)
        if SearchState.PREPARING not in states:
            break
        await asyncio.sleep(LOOK_S)
    return found


async def turn(
    coordinator: Coordinator, options: argparse.Namespace, search: SearchRecord, lines: Sequence[Row], until: float
) -> None:
    """Let one search have the card until it has all, or the time is up."""
    store = coordinator.store
    if (await store.searches.get(search.id)).state in OPEN:
        await coordinator.resume(search.id)
        if search.llm is None:
            await matched(store, options.data / DATABASE_FILE, search, until)
        else:
            await replayed(coordinator, search, lines, until, options.linger)
    if (await store.searches.get(search.id)).state in ACTIVE:
        await coordinator.pause(search.id)


async def replayed(
    coordinator: Coordinator, search: SearchRecord, lines: Sequence[Row], until: float, linger_s: float
) -> bool:
    """Post all recorded exchanges, parents before children. Returns False if the time was up before all verdicts."""
    store, left, again_at = coordinator.store, len(lines), 0.0
    while time.monotonic() < until:
        found = await store.searches.get(search.id)
        if found.state is SearchState.RUNNING:
            read = await _read(store, search)
            if read and not left:
                return await judged(store, search.id, until, linger_s)
            if read or time.monotonic() > again_at:
                await coordinator.pause(search.id)
                left = await post(store, found, lines)
                await asyncio.sleep(FORGET_S)
                await coordinator.resume(search.id)
                again_at = time.monotonic() + AGAIN_S
        await asyncio.sleep(LOOK_S)
    return False


async def _read(store: Store, search: SearchRecord) -> bool:
    """Return True if all posted answers are read: their candidates are in the archive."""
    answered = await store.exchanges.list(search=search.id, state=ExchangeState.ANSWERED, limit=1000)
    return all(exchange.outcome is not None for exchange in answered)


async def post(store: Store, search: SearchRecord, lines: Sequence[Row]) -> int:
    """Post the recorded exchanges whose parents are in the archive; returns the number of the others.

    The search must be paused: it would give the same ordinals to prompts of its own.
    """
    asked = await store.attempts.asked(search.id)
    posted = {exchange.digest for exchange in asked}
    first = max((await store.candidates.count(search.id)).proposals, *(each.ordinal + 1 for each in asked), 0)
    waiting = [line for line in lines if line["prompt"] not in posted]
    ready = [(line, ids) for line in waiting if (ids := await _ids(store, search, parents_of(line))) is not None]
    for ordinal, (line, ids) in enumerate(ready, first):
        await _post(store, search, ordinal, line, ids)
    return len(waiting) - len(ready)


async def _ids(store: Store, search: SearchRecord, sources: Sequence[str]) -> tuple[str, ...] | None:
    """Return the candidates with these sources; None if one is missing."""
    found = [await store.attempts.equal(search.id, digest(source)) for source in sources]
    known = tuple(candidate.id for candidate in found if candidate is not None)
    return known if len(known) == len(sources) else None


async def _post(store: Store, search: SearchRecord, ordinal: int, line: Row, parents: tuple[str, ...]) -> None:
    asked, completion = line["asked"], line["completion"]
    exchange = await store.exchanges.open(
        NewExchange(
            id=str(uuid7()),
            search=search.id,
            ordinal=ordinal,
            step=0,
            digest=line["prompt"],
            backend=BACKEND,
            strategy=line["strategy"],
            template=RECORDED,
            claims={},
            parents=parents,
            cell=cell_of(line, search),
            max_tokens=asked["max_tokens"],
            system=asked["system"],
            user=asked["user"],
            state=ExchangeState.WAITING,
        )
    )
    await store.exchanges.answer(exchange.id, LlmReply(**completion), claimed_by=ANSWERER)


async def matched(store: Store, path: Path, search: SearchRecord, until: float) -> bool:
    """Wait until the rules have as many evaluations as the model, with a margin, and as many device seconds.

    Returns False if the time was up before.
    """
    others = await store.searches.list(limit=200)
    model = next(each for each in others if each.operator_name == search.operator_name and each.llm is not None)
    theirs = await store.candidates.count(model.id)
    enough = math.ceil(MARGIN * len(SearchFigures(path, model, theirs).order))
    while True:
        mine = await store.candidates.count(search.id)
        as_long = mine.evaluated >= enough and mine.device_ms >= theirs.device_ms
        if as_long and len(SearchFigures(path, search, mine).order) >= enough:
            return True
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(POLL_S)


def main() -> None:
    """Judge the recorded answers again."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True, help="data folder of the searches")
    options.add_argument("--operators", nargs="+", required=True, help="catalogue names or folders")
    options.add_argument("--recording", type=Path, default=RESULTS / RECORDING, help="prompts and answers")
    options.add_argument("--answers", type=int, help="maximum per operator; all if left out")
    options.add_argument("--device", default="model:sm_90")
    options.add_argument("--seconds", type=float, default=600.0, help="maximum time on this machine")
    options.add_argument("--linger", type=float, default=0.0, help="seconds for confirms after the last verdict")
    options.add_argument("--workers", type=int, default=max(1, usable_cores() - 2), help="that trace")
    asyncio.run(again(options.parse_args()))


if __name__ == "__main__":
    main()
