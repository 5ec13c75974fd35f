"""Trace requests: each source is traced once, and equal candidates share that trace."""

from collections.abc import Sequence

from archive.records import SEED_EMITTER, CandidateRecord, NewVariant, TraceOutcome, VariantRecord
from archive.store import Store
from service.evaluation.jobs import VARYING, JobSubject, trace_job
from service.evaluation.pending import Pending
from service.evaluation.unit_of_work import UnitOfWork


class TraceRequests:
    """Requests traces, or takes them from the archive."""

    def __init__(self, store: Store, unit_of_work: UnitOfWork) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._waiting: Pending[str, JobSubject] = Pending()

    async def obtain(self, asked: JobSubject) -> TraceOutcome | None:
        """Return the trace of an equal candidate from the archive; None if the candidate now waits for a job."""
        earlier = await self._store.candidates.find_traced(asked.candidate.trace_key)
        if earlier is None or await self._store.remote_workers.unverified_trace(earlier.id):
            if self._waiting.join(asked.candidate.trace_key, asked):
                varies = asked.candidate.emitter in VARYING
                seeds = await self._store.candidates.seeds(asked.search.id) if varies else ()
                job = trace_job(asked.search, asked.operator, asked.candidate, seeds)
                # Any seed may become the reference seed, so trusted workers trace all of them.
                self._unit_of_work.send(job, reserved=asked.candidate.emitter == SEED_EMITTER)
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
        """Return the other candidates that wait for this trace, and clear them; each has to call `obtain` again.

        After an untrusted worker's trace each of them gets a trace of its own.
        """
        return [each for each in self._waiting.claim(candidate.trace_key) if each.candidate.id != candidate.id]

    def forget(self, search: str) -> set[str]:
        """Clear the in-memory state of a search. Returns the other searches that waited for its traces."""
        return self._waiting.forget(search)


def _repeat(variant: VariantRecord) -> NewVariant:
    """Copy a variant of an equal candidate; its bundle is in the archive already."""
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
