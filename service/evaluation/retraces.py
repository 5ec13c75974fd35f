"""Second traces: a would-be elite is traced once more, and must give the same bundles.

A trusted worker does it, in a fresh sandbox. A source whose trace depends on chance, time or the machine has no plan
that could be certified. An untrusted worker could submit another candidate's plan under this one's name. One repeat
detects both. It runs beside the confirm, for would-be elites only, and counts for every candidate with the same
trace key.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from archive.records import (
    BundleRecord,
    CandidateRecord,
    CandidateState,
    CandidateVerdict,
    NewVariant,
    VariantRecord,
)
from archive.store import Store
from service.evaluation.jobs import EvaluationCase, JobSubject, retrace_job
from service.evaluation.pending import Pending
from service.evaluation.unit_of_work import UnitOfWork
from workers.protocol import Bundle, Outcome

EXHAUSTED = frozenset({Outcome.TRACE_TIMEOUT, Outcome.TRACE_MEMORY, Outcome.WORKER_LOST})
"""Outcomes of a repeat that lacked time, memory or machines: they say nothing about its bundles."""
DIFFERS = "tracing it twice gave different plans: what it launches must follow from shapes, strides and dtypes alone"
"""Reason for refusing a candidate whose traces by two trusted workers differ."""
UNREPEATED = "its trace could not be repeated: {}"
MISTRACED = "a trusted worker could not repeat the trace that an untrusted worker had reported"
"""Reason for refusing a candidate whose bundles only an untrusted worker has reported."""


def other_toolchain(first: Bundle, repeat: Bundle) -> str:
    """Return the reason why two bundles of one source cannot be compared; empty if one toolchain made both.

    A service that got another Triton between two traces would otherwise blame the kernel.
    """
    before, now = (", ".join(" ".join(item) for item in _versions(each).items()) for each in (first, repeat))
    return "" if first.toolchain == repeat.toolchain else f"{now} traced it, and {before} before"


def _versions(bundle: Bundle) -> dict[str, str]:
    return bundle.toolchain.versions if bundle.toolchain else {"a release": "that named no toolchain"}


@dataclass(frozen=True)
class RetraceRefused:
    """Refusal of a candidate after its second trace: it may win no cell."""

    outcome: Outcome
    reason: str

    def verdict(self, candidate: str) -> CandidateVerdict:
        """Return the verdict on the candidate."""
        return CandidateVerdict(candidate, self.outcome.value, self.reason, None, None)


class Retraces:
    """Requests second traces and compares them with the first."""

    def __init__(self, store: Store, unit_of_work: UnitOfWork) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._waiting: Pending[str, JobSubject] = Pending()

    async def known(self, candidate: CandidateRecord) -> RetraceRefused | bool | None:
        """Return True if the second trace was equal, the refusal if it was not, None if there is none yet."""
        repeat = await self._unit_of_work.retrace(candidate.trace_key)
        if repeat is None:
            return await self._unrepeatable(candidate)
        if _agree(await self._first_trace(candidate), repeat.bundles):
            return True
        if await self._unit_of_work.unverified_trace(candidate.id) is None:
            return RetraceRefused(Outcome.NONDETERMINISTIC, DIFFERS)
        return RetraceRefused(Outcome.WORKER_LOST, MISTRACED)

    def request(self, case: EvaluationCase, queued: Collection[str]) -> None:
        """Ask a trusted worker for the second trace of a case's candidate, once."""
        if self._waiting.join(case.candidate.trace_key, JobSubject(case.search, case.operator, case.candidate)):
            job = retrace_job(case.search, case.operator, case.candidate)
            if job.id not in queued:
                self._unit_of_work.send(job, reserved=True)

    def claim(self, candidate: CandidateRecord) -> list[JobSubject]:
        """Return the other candidates that wait for this repeat, and clear them."""
        return [each for each in self._waiting.claim(candidate.trace_key) if each.candidate.id != candidate.id]

    async def settle(
        self, candidate: CandidateRecord, outcome: Outcome, reason: str, variants: Sequence[NewVariant]
    ) -> RetraceRefused | None:
        """Apply a repeat. Returns the refusal if the candidate may win no cell, else None.

        Kernel texts and readings, which an identity does not cover, are replaced by the trusted worker's if an
        untrusted worker reported them.

        Args:
            candidate: The candidate that was traced again.
            outcome: Outcome of the repeat as a whole.
            reason: Reason of that outcome.
            variants: Variants that the repeat found.
        """
        first = await self._first_trace(candidate)
        undecided = _exhausted(outcome, reason, first, variants) or await self._moved(candidate, first, variants)
        if undecided is not None:
            return undecided
        await self._unit_of_work.keep_retrace(candidate.trace_key, candidate.id, [each.bundle for each in variants])
        refused = await self.known(candidate)
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
        """Return True if a candidate's second trace is pending."""
        return self._waiting.awaits(candidate)

    def forget(self, search: str) -> set[str]:
        """Clear the in-memory state of a search. Returns the other searches that waited for its jobs."""
        return self._waiting.forget(search)

    async def _unrepeatable(self, candidate: CandidateRecord) -> RetraceRefused | None:
        """Refuse a candidate whose repeat ended for lack of time, memory or machines, as its verdict says."""
        now = await self._unit_of_work.candidate(candidate.id)
        if now.state is not CandidateState.JUDGED or now.outcome not in EXHAUSTED:
            return None
        return RetraceRefused(Outcome(now.outcome), now.reason)

    async def _moved(
        self, candidate: CandidateRecord, first: Sequence[VariantRecord], found: Sequence[NewVariant]
    ) -> RetraceRefused | None:
        """Refuse, without blame, a candidate that trusted workers with different toolchains have traced."""
        if await self._unit_of_work.unverified_trace(candidate.id) is not None:
            return None  # An untrusted worker could name any.
        for one, other in zip(first, found, strict=False):
            if one.bundle and other.document and one.bundle != other.bundle:
                before = (await self._store.bundles.get(one.bundle)).document
                told = other_toolchain(*map(Bundle.model_validate_json, (before, other.document)))
                if told:
                    return RetraceRefused(Outcome.WORKER_LOST, UNREPEATED.format(told))
        return None

    async def _first_trace(self, candidate: CandidateRecord) -> list[VariantRecord]:
        """Return the candidate's variants from the first trace, by index."""
        return await self._unit_of_work.variants(candidate.id)


def _agree(first: Sequence[VariantRecord], repeated: Sequence[str | None]) -> bool:
    """Return True if a repeat gave the same bundles; variants that the first trace had no time for are ignored."""
    pairs = zip(first, repeated, strict=False)
    late = {each.index for each in first if each.bundle is None and each.outcome in EXHAUSTED}
    return len(first) == len(repeated) and all(one.bundle == other or one.index in late for one, other in pairs)


def _exhausted(
    outcome: Outcome, reason: str, first: Sequence[VariantRecord], found: Sequence[NewVariant]
) -> RetraceRefused | None:
    """Return the refusal if the repeat ran out of time, memory or machines; else None."""
    if outcome in EXHAUSTED:
        return RetraceRefused(outcome, UNREPEATED.format(reason))
    for variant in found:
        stopped = Outcome(variant.outcome) if variant.outcome else None
        known = variant.index < len(first) and first[variant.index].bundle is not None
        if stopped in EXHAUSTED and stopped is not None and known:
            return RetraceRefused(stopped, UNREPEATED.format(variant.reason))
    return None
