"""Traces repeated before they count: who would win a cell is traced once more, and has to come to the same bundles.

A trusted worker does it, in a fresh jail. A source whose trace depends on chance, on time or on the machine has no plan
that could be certified, and a host that nobody vouches for could hand in somebody else's plan under a candidate's name.
One repeat finds out both. It is ordered beside the confirm, for would-be winners only, and holds for every candidate
whose trace must be equal.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from archive.records import BundleRecord, CandidateRecord, CandidateState, NewVariant, VariantRecord
from archive.store import Store
from service.evaluation.jobs import EvaluationCase, JobSubject, retrace_job
from service.evaluation.pending import Pending
from service.evaluation.unit_of_work import UnitOfWork
from workers.protocol import Outcome

EXHAUSTED = frozenset({Outcome.TRACE_TIMEOUT, Outcome.TRACE_MEMORY, Outcome.WORKER_LOST})
"""How a repeat may end for want of time, memory or machines: then nothing is known of its bundles."""
DIFFERS = "tracing it twice gave different plans: what it launches must follow from shapes, strides and dtypes alone"
"""Why a candidate is let go of that two trusted workers disagree about."""
MISTRACED = "a trusted worker could not repeat the trace that an untrusted host had reported"
"""Why one is let go of whose bundles are a host's word alone."""


@dataclass(frozen=True)
class RetraceRefused:
    """Why a candidate may win nothing."""

    outcome: Outcome
    reason: str


class Retraces:
    """Orders repeats, and says what came of them."""

    def __init__(self, store: Store, unit_of_work: UnitOfWork) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._waiting: Pending[str, JobSubject] = Pending()

    async def look(self, case: EvaluationCase, queued: Collection[str]) -> RetraceRefused | bool:
        """Whether a candidate's trace was repeated with equal bundles, or why it never will be.

        False as long as nobody knows; then a trusted worker is asked, unless one is at it.
        """
        refused = await self._known(case.candidate)
        if refused is not None:
            return refused
        asked = JobSubject(case.search, case.operator, case.candidate)
        if self._waiting.join(case.candidate.trace_key, asked):
            job = retrace_job(case.search, case.operator, case.candidate)
            if job.id not in queued:
                self._unit_of_work.send(job, reserved=True)
        return False

    def claim(self, candidate: CandidateRecord) -> list[JobSubject]:
        """Who waits for the repeat of a candidate besides itself; they wait no longer."""
        return [each for each in self._waiting.claim(candidate.trace_key) if each.candidate.id != candidate.id]

    async def settle(
        self, candidate: CandidateRecord, outcome: Outcome, reason: str, variants: Sequence[NewVariant]
    ) -> RetraceRefused | None:
        """Take in what a repeat came to; why the candidate may win nothing, or None if it may.

        What an identity does not cover, which are kernels' texts and readings, is then kept as the trusted worker said,
        where it was a host's word before.

        Args:
            candidate: Whose trace was repeated.
            outcome: Of the repeat as a whole.
            reason: Of that outcome.
            variants: What it found.
        """
        exhausted = _exhausted(outcome, reason, await self._told(candidate), variants)
        if exhausted is not None:
            return exhausted
        await self._unit_of_work.keep_retrace(candidate.trace_key, candidate.id, [each.bundle for each in variants])
        refused = await self._known(candidate)
        if isinstance(refused, RetraceRefused):
            return refused
        if await self._unit_of_work.unverified_trace(candidate.id) is not None:
            await self._unit_of_work.commit()
            await self._store.bundles.replace(
                BundleRecord(variant.bundle, variant.document, variant.readings or ())
                for variant in variants
                if variant.bundle and variant.document
            )
            await self._store.remote_workers.mark_verified(candidate.id)
        return None

    def awaits(self, candidate: str) -> bool:
        """Whether a candidate's trace is being repeated."""
        return self._waiting.awaits(candidate)

    def forget(self, search: str) -> set[str]:
        """Drop what is remembered of a search, before a sweep finds it anew; the searches that waited for its jobs."""
        return self._waiting.forget(search)

    async def _known(self, candidate: CandidateRecord) -> "RetraceRefused | bool | None":
        """True if the repeat was equal, `RetraceRefused` if it was not; None as long as there is none."""
        repeat = await self._unit_of_work.retrace(candidate.trace_key)
        if repeat is None:
            return await self._unrepeatable(candidate)
        if _agree(await self._told(candidate), repeat.bundles):
            return True
        if await self._unit_of_work.unverified_trace(candidate.id) is None:
            return RetraceRefused(Outcome.NONDETERMINISTIC, DIFFERS)
        return RetraceRefused(Outcome.WORKER_LOST, MISTRACED)

    async def _unrepeatable(self, candidate: CandidateRecord) -> RetraceRefused | None:
        """A candidate that has its verdict is not traced again: its repeat ended for want of something."""
        now = await self._unit_of_work.candidate(candidate.id)
        if now.state is not CandidateState.JUDGED:
            return None
        return RetraceRefused(Outcome(now.outcome or Outcome.WORKER_LOST), now.reason)

    async def _told(self, candidate: CandidateRecord) -> list[VariantRecord]:
        """Its variants as they were first traced, by index."""
        return await self._unit_of_work.variants(candidate.id)


def _agree(told: Sequence[VariantRecord], repeated: Sequence[str | None]) -> bool:
    """Whether a repeat came to the same bundles, but for variants that there was no time for the first time."""
    pairs = zip(told, repeated, strict=False)
    late = {each.index for each in told if each.bundle is None and each.outcome in EXHAUSTED}
    return len(told) == len(repeated) and all(one.bundle == other or one.index in late for one, other in pairs)


def _exhausted(
    outcome: Outcome, reason: str, told: Sequence[VariantRecord], found: Sequence[NewVariant]
) -> RetraceRefused | None:
    """Why nothing is known of a repeat's bundles, if that is so."""
    if outcome in EXHAUSTED:
        return RetraceRefused(outcome, f"its trace could not be repeated: {reason}")
    for variant in found:
        stopped = Outcome(variant.outcome) if variant.outcome else None
        known = variant.index < len(told) and told[variant.index].bundle is not None
        if stopped in EXHAUSTED and stopped is not None and known:
            return RetraceRefused(stopped, f"its trace could not be repeated: {variant.reason}")
    return None
