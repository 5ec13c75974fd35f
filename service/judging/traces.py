"""Traces: each source is traced once, and equal ones take that trace, out of the archive or as soon as it is there."""

from collections.abc import Sequence

from archive.records import Candidate, NewVariant, Traced, Variant
from archive.store import Store
from service.judging.jobs import Asked, is_yardstick, trace_job
from service.judging.waiting import Waiting
from workers.queue import Dispatcher


class Traces:
    """Has candidates traced."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._waiting: Waiting[tuple[str, bool], Asked] = Waiting()

    async def obtain(self, asked: Asked) -> Traced | None:
        """The trace of an equal candidate out of the archive; or None, and then the candidate waits for its own."""
        earlier = await self._store.candidates.find_traced(asked.candidate.trace_key)
        if earlier is None or await self._store.hosts.doubted(earlier.id):
            if self._waiting.join(_key(asked.candidate), asked):
                job = trace_job(asked.search, asked.operator, asked.candidate)
                await self._dispatcher.submit(job, reserved=is_yardstick(asked.candidate))
            return None
        variants = await self._store.candidates.variants(earlier.id)
        return Traced(
            outcome=earlier.outcome if not variants else None,
            reason=earlier.reason,
            line=earlier.line,
            stages_s={},
            variants=tuple(_repeat(variant) for variant in variants),
        )

    def claim(self, candidate: Candidate) -> Sequence[Asked]:
        """Who waits for the trace of a candidate besides itself; they wait no longer."""
        return [each for each in self._waiting.claim(_key(candidate)) if each.candidate.id != candidate.id]

    def forget(self, search: str) -> set[str]:
        """Drop what is remembered of a search; the searches that waited for its traces."""
        return self._waiting.forget(search)


def _key(candidate: Candidate) -> tuple[str, bool]:
    """What equal traces share; those on which verdicts of a search rest are for trusted workers."""
    return candidate.trace_key, is_yardstick(candidate)


def _repeat(variant: Variant) -> NewVariant:
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
