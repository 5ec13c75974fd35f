"""Traces that an untrusted host reported: repeated by a trusted worker before anything is placed by them."""

from collections.abc import Collection, Sequence

from archive.records import BundleRecord, Candidate, NewVariant
from archive.store import Store
from service.judging.jobs import Case, retrace_job
from workers.queue import Dispatcher


class Retraces:
    """Orders repeats, and says what came of them."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._waiting: dict[str, str] = {}

    async def is_believed(self, case: Case, queued: Collection[str]) -> bool:
        """Whether a candidate's trace is that of a trusted worker; if not, one is asked to repeat it."""
        if await self._store.hosts.doubted(case.candidate.id) is None:
            return True
        job = retrace_job(case.search, case.operator, case.candidate)
        self._waiting[case.candidate.id] = case.search.id
        if job.id not in queued:
            await self._dispatcher.submit(job, reserved=True)
        return False

    async def settle(self, candidate: Candidate, variants: Sequence[NewVariant]) -> bool:
        """Take in what a trusted worker found; whether the host had said the same.

        What an identity does not cover, which are kernels' texts and readings, is then kept as the trusted worker said.
        """
        self._waiting.pop(candidate.id, None)
        told = [(variant.index, variant.bundle) for variant in await self._store.candidates.variants(candidate.id)]
        if sorted(told) != sorted((variant.index, variant.bundle) for variant in variants):
            return False
        await self._store.bundles.replace(
            BundleRecord(variant.bundle, variant.document, variant.readings or ())
            for variant in variants
            if variant.bundle and variant.document
        )
        await self._store.hosts.believe(candidate.id)
        return True

    def awaits(self, candidate: str) -> bool:
        """Whether a candidate's trace is being repeated."""
        return candidate in self._waiting

    def forget(self, search: str) -> None:
        """Drop what is remembered of a search, before a sweep finds it anew."""
        self._waiting = {candidate: mine for candidate, mine in self._waiting.items() if mine != search}
