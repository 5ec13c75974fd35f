"""Traces: each source is traced once, and equal ones take that trace, out of the archive or as soon as it is there."""

from collections.abc import Sequence

from archive.records import CandidateRecord, NewVariant, TraceOutcome, VariantRecord
from archive.store import Store
from service.evaluation.jobs import JobSubject, is_reference_seed, trace_job
from service.evaluation.pending import Pending
from service.evaluation.unit_of_work import UnitOfWork


class TraceRequests:
    """Has candidates traced."""

    def __init__(self, store: Store, unit_of_work: UnitOfWork) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._waiting: Pending[str, JobSubject] = Pending()

    async def obtain(self, asked: JobSubject) -> TraceOutcome | None:
        """The trace of an equal candidate out of the archive; or None, and then the candidate waits for its own."""
        earlier = await self._store.candidates.find_traced(asked.candidate.trace_key)
        if earlier is None or await self._store.remote_workers.unverified_trace(earlier.id):
            if self._waiting.join(asked.candidate.trace_key, asked):
                job = trace_job(asked.search, asked.operator, asked.candidate)
                self._unit_of_work.send(job, reserved=is_reference_seed(asked.candidate))
            return None
        variants = await self._store.candidates.variants(earlier.id)
        return TraceOutcome(
            outcome=earlier.outcome if not variants else None,
            reason=earlier.reason,
            line=earlier.line,
            stages_s={},
            variants=tuple(_repeat(variant) for variant in variants),
        )

    def claim(self, candidate: CandidateRecord) -> Sequence[JobSubject]:
        """Who waits for the trace of a candidate besides itself; they wait no longer, and have to ask again.

        Where it was an untrusted host's, they are then traced by themselves.
        """
        return [each for each in self._waiting.claim(candidate.trace_key) if each.candidate.id != candidate.id]

    def forget(self, search: str) -> set[str]:
        """Drop what is remembered of a search; the searches that waited for its traces."""
        return self._waiting.forget(search)


def _repeat(variant: VariantRecord) -> NewVariant:
    """A variant of an equal candidate; its bundle is in the archive already."""
    return NewVariant(
        index=variant.index,
        configuration=variant.configuration,
        outcome=variant.outcome,
        reason=variant.reason,
        line=variant.line,
        bundle=variant.bundle,
        document=None,
        readings=None,
    )
