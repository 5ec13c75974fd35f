"""Searches that are over, with every step as a test wants it: written through the store, as the service writes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from uuid6 import uuid7

from archive.records import NewCandidate, NewReport, NewSearch, NewVariant, SearchRecord, SearchState, TraceOutcome
from archive.store import Store
from tests.service import records
from workers.protocol import Device, Outcome, Provenance, Ratio, Trust

TIMED = tuple(shape.key for shape in records.SHAPES[1:])


@dataclass
class Made:
    """One candidate.

    Attributes:
        name: What the test calls it; its id.
        time_us: Of every shape; None for one that never came to a report.
        parents: Names of what it was made from.
        emitter: Who made it.
        note: What was tried.
        outcome: Its verdict.
        readings: What differs from `records.readings()`.
        changes: To its report.
    """

    name: str
    time_us: float | None = 10.0
    parents: tuple[str, ...] = ("seed",)
    emitter: str = "tune"
    note: str = "num_warps 8 -> 4"
    outcome: Outcome = Outcome.CORRECT
    readings: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)


SEED = Made("seed", parents=(), emitter="seed", note="seed 0", readings={"num_warps": 8})


async def stored(
    store: Store, made: Sequence[Made], state: SearchState = SearchState.DONE, **changes: Any
) -> SearchRecord:
    """A search with these candidates, in this order, the first one being the seed."""
    template = records.search(**{"id": str(uuid7()), **changes})
    operator = records.OPERATOR
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    search = await store.searches.create(
        NewSearch(**{item.name: getattr(template, item.name) for item in fields(NewSearch)})
    )
    await store.searches.set_graphs(search.id, template.graphs)
    for ordinal, item in enumerate(made):
        await _store(store, search, ordinal, item)
    return await store.searches.set_state(search.id, state)


def named(search: SearchRecord, name: str) -> str:
    """Id of a candidate of a search."""
    return f"{search.id}:{name}"


async def _store(store: Store, search: SearchRecord, ordinal: int, made: Made) -> None:
    id = named(search, made.name)
    await store.candidates.add(
        NewCandidate(
            id=id,
            search=search.id,
            ordinal=ordinal,
            emitter=made.emitter,
            source=f"{records.SEED}# {made.name}\n",
            digest=id,
            trace_key=id,
            parents=tuple(named(search, parent) for parent in made.parents),
            note=made.note,
        )
    )
    if made.time_us is not None:
        await _report(store, search, ordinal, made, made.time_us)
    objective = 1.0 if made.outcome is Outcome.CORRECT else None
    await store.candidates.judge(id, made.outcome.value, f"about {made.name}", None, objective)


async def _report(store: Store, search: SearchRecord, ordinal: int, made: Made, time_us: float) -> None:
    id = named(search, made.name)
    bundle = records.bundle(1 + ordinal)
    readings = [records.readings().model_copy(update=made.readings).model_dump(mode="json") for _ in records.SHAPES]
    variant = NewVariant(
        index=0,
        configuration={"BLOCK": 128},
        bundle=bundle.identity,
        document=bundle.model_dump_json(),
        readings=tuple(readings),
    )
    await store.candidates.save_trace(id, TraceOutcome(None, "", None, {}, (variant,)))
    for device in search.devices:
        report = records.report(
            dict.fromkeys(TIMED, time_us),
            job=f"{id}:0:{device}:measure",
            search=search.id,
            candidate=id,
            bundle=bundle.identity,
            device=Device.parse(device),
            outcome=made.outcome,
        ).model_copy(update=made.changes)
        await store.reports.save(
            NewReport(
                job=report.job,
                search=search.id,
                candidate=id,
                variant=0,
                bundle=bundle.identity,
                operator=search.operator,
                device=device,
                kind=report.kind,
                protocol_version=report.protocol_version,
                outcome=report.outcome.value,
                reason="",
                provenance=report.provenance.value,
                document=report.model_dump_json(),
            )
        )


def measured(low: float, high: float, **changes: Any) -> dict[str, Any]:
    """What a report of a card says besides: its speedup, from `low` to `high`."""
    speedup = Ratio(low=low, mid=(low + high) / 2, high=high)
    return {"provenance": Provenance.MEASURED, "trust": Trust.B, "speedup": speedup, **changes}
