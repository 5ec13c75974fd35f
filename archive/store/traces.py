"""Results of traces, written in one statement per table."""

from collections.abc import Mapping

from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.records import BundleRecord, CandidateState, NewVariant, TraceOutcome
from archive.store.bundles import add_bundles
from archive.store.engine import upsert
from archive.tables import candidates, variants


async def add_traces(connection: AsyncConnection, traces: Mapping[str, TraceOutcome]) -> None:
    """Store candidates' variants and their bundles within the caller's transaction.

    A candidate that is traced or judged already is left as it is.

    Args:
        connection: Connection of the transaction.
        traces: Result of each, by candidate.
    """
    if not traces:
        return
    # Those of untrusted workers first: a trusted worker's documents of the same bundle replace them.
    for sure in (False, True):
        told = (variant for traced in traces.values() if traced.sure is sure for variant in traced.variants)
        await add_bundles(connection, [record for variant in told if (record := _bundle(variant))], sure=sure)
    rows = [_row(candidate, variant) for candidate in sorted(traces) for variant in traces[candidate].variants]
    if rows:
        await connection.execute(upsert(connection, variants).on_conflict_do_nothing(), rows)
    statement = (
        update(candidates)
        .where(candidates.c.id == bindparam("of"), candidates.c.state == CandidateState.QUEUED)
        .values({name: bindparam(f"new_{name}") for name in ("state", "outcome", "reason", "line", "stages_s")})
    )
    await connection.execute(statement, [_state(candidate, traces[candidate]) for candidate in sorted(traces)])


def _state(candidate: str, traced: TraceOutcome) -> dict[str, object]:
    judgeable = any(variant.bundle is not None for variant in traced.variants)
    return {
        "of": candidate,
        "new_state": CandidateState.TRACED if judgeable else CandidateState.QUEUED,
        "new_outcome": traced.outcome,
        "new_reason": traced.reason,
        "new_line": traced.line,
        "new_stages_s": traced.stages_s,
    }


def _bundle(variant: NewVariant) -> BundleRecord | None:
    if variant.bundle is None or variant.document is None:
        return None
    return BundleRecord(variant.bundle, variant.document, variant.readings or ())


def _row(candidate: str, variant: NewVariant) -> dict[str, object]:
    return {
        "candidate": candidate,
        "index": variant.index,
        "configuration": variant.configuration,
        "bundle": variant.bundle,
        "outcome": variant.outcome,
        "reason": variant.reason,
        "line": variant.line,
    }
