"""Values to put into an archive, valid but for what a test changes."""

from itertools import count
from typing import Any

from archive.records import (
    AxisRecord,
    NewCandidate,
    NewExchange,
    NewReport,
    NewSearch,
    NewVariant,
    Offer,
    SearchRecord,
    TraceOutcome,
)
from archive.store import Store

AXES = (AxisRecord("num_warps", 3), AxisRecord("registers", 4))
DEVICE = "model:sm_90"
OPERATOR = "0" * 64
READINGS = {"launches": 1, "programs": 4096, "programs_per_sm": 31.03, "num_warps": 4, "registers": 40}

_serial = count()


def unique_id() -> str:
    """An id that sorts after all earlier ones, like a UUIDv7."""
    return f"0199{next(_serial):08x}"


def new_search(**changes: Any) -> NewSearch:
    values: dict[str, Any] = {
        "id": unique_id(),
        "operator": OPERATOR,
        "operator_name": "rmsnorm",
        "devices": (DEVICE,),
        "emitters": ("tune", "rewrite"),
        "axes": AXES,
        "axes_version": 1,
        "evaluations": 100,
        "seed": 0,
        "shapes": ({"dims": {"M": 4096, "N": 4096}, "role": "benchmark", "weight": 1.0},),
    }
    return NewSearch(**{**values, **changes})


def new_candidate(search: str, ordinal: int = 0, **changes: Any) -> NewCandidate:
    id = unique_id()
    values: dict[str, Any] = {
        "id": id,
        "search": search,
        "ordinal": ordinal,
        "emitter": "tune",
        "source": f"# {id}\n",
        "digest": f"digest of {id}",
        "trace_key": f"trace key of {id}",
        "note": "num_warps=4",
    }
    return NewCandidate(**{**values, **changes})


def new_variant(index: int = 0, **changes: Any) -> NewVariant:
    values: dict[str, Any] = {"bundle": f"{index:064x}", "document": '{"plans": []}', "readings": (READINGS,)}
    return NewVariant(index=index, configuration={"BLOCK": 1024}, **{**values, **changes})


def traced(*variants: NewVariant, **changes: Any) -> TraceOutcome:
    values: dict[str, Any] = {"outcome": None, "reason": "", "line": None, "stages_s": {"compile": 0.25}}
    return TraceOutcome(variants=variants, **{**values, **changes})


def new_report(search: str, candidate: str, **changes: Any) -> NewReport:
    job = unique_id()
    values: dict[str, Any] = {
        "job": job,
        "variant": 0,
        "bundle": "b" * 64,
        "operator": OPERATOR,
        "device": DEVICE,
        "kind": "measure",
        "protocol_version": 1,
        "outcome": "correct",
        "reason": "",
        "provenance": "predicted",
        "document": f'{{"job": "{job}"}}',
    }
    return NewReport(search=search, candidate=candidate, **{**values, **changes})


def offer(search: str, candidate: str, objective: float = 1.0, **changes: Any) -> Offer:
    job = unique_id()
    values: dict[str, Any] = {
        "device": DEVICE,
        "axes_version": 1,
        "cell": 0,
        "coordinates": {"num_warps": {"value": 4.0, "bin": 0}, "registers": {"value": 40.0, "bin": 0}},
        "variant": 0,
        "bundle": f"bundle of {job}",
        "job": job,
        "emitter": "tune",
        "low": objective,
        "mid": objective,
        "high": objective,
    }
    return Offer(search=search, candidate=candidate, objective=objective, **{**values, **changes})


def new_exchange(search: str, ordinal: int = 0, **changes: Any) -> NewExchange:
    values: dict[str, Any] = {
        "id": unique_id(),
        "step": 0,
        "digest": f"{ordinal:064x}",
        "backend": "local",
        "strategy": "improve",
        "template": "improve@1",
        "claims": {"time": "job"},
        "parents": (),
        "cell": None,
        "max_tokens": 1000,
        "system": "You write kernels.",
        "user": "Make it faster.",
    }
    return NewExchange(search=search, ordinal=ordinal, **{**values, **changes})


async def stored_search(store: Store, **changes: Any) -> SearchRecord:
    """A stored search with its operator."""
    await store.operators.put(OPERATOR, "rmsnorm", "{}")
    return await store.searches.create(new_search(**changes))


async def stored_candidate(store: Store, search: str, ordinal: int = 0, **changes: Any) -> str:
    """Id of a stored candidate."""
    candidate = await store.candidates.add(new_candidate(search, ordinal, **changes))
    assert candidate is not None
    return candidate.id
