"""What comes out of a trace, written in one go."""

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.records import BundleRecord, CandidateState, NewVariant, Traced
from archive.store.bundles import add_bundles
from archive.store.engine import upsert
from archive.tables import candidates, variants


async def add_trace(connection: AsyncConnection, candidate: str, traced: Traced) -> None:
    """Store a candidate's variants and their bundles within the caller's transaction.

    A candidate that is traced or judged already is left as it is.
    """
    judgeable = any(variant.bundle is not None for variant in traced.variants)
    await add_bundles(
        connection, (record for variant in traced.variants if (record := _bundle(variant))), sure=traced.sure
    )
    for variant in traced.variants:
        await connection.execute(upsert(connection, variants).values(_row(candidate, variant)).on_conflict_do_nothing())
    await connection.execute(
        update(candidates)
        .where(candidates.c.id == candidate, candidates.c.state == CandidateState.QUEUED)
        .values(
            state=CandidateState.TRACED if judgeable else CandidateState.QUEUED,
            outcome=traced.outcome,
            reason=traced.reason,
            line=traced.line,
            stages_s=traced.stages_s,
        )
    )


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
