"""Batches: the reads and writes for a few reports, with one query per table and one commit.

Alone, a report costs twenty statements, and a commit for each of its writes. Here `look_up` fills a cache for many
reports, which also holds pending writes, so that reads see them. `flush` writes them in one transaction. Every
statement stays conditional, so a report that is sent twice, or by two coordinators, counts once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from archive.column_types import now
from archive.errors import RecordNotFound
from archive.records import (
    BundleRecord,
    CandidateRecord,
    CandidateVerdict,
    NewReport,
    NewVariant,
    Offer,
    Placement,
    ReferenceChange,
    Retrace,
    TraceOutcome,
    UnverifiedTrace,
    VariantRecord,
)
from archive.store.batch_offers import place
from archive.store.bundles import BundleStore
from archive.store.elites import EliteStore, require_figures
from archive.store.engine import Database
from archive.store.lineage import LineageStore, Readings
from archive.store.remote_workers import RemoteWorkerStore
from archive.store.reports import ReportKey, ReportStore, add_reports, is_reusable
from archive.store.retraces import RetraceStore, add_retraces
from archive.store.searches import change_references
from archive.store.traces import add_traces
from archive.store.verdicts import add_verdicts, require_finite, revise_verdicts


@dataclass(frozen=True)
class BatchResult:
    """Result of a flush.

    Attributes:
        evaluated: Candidates that got their first verdict.
        placements: Results of the offers, in their order.
    """

    evaluated: frozenset[str]
    placements: tuple[tuple[Offer, Placement], ...]


class ReportBatch:
    """Cached values and pending writes. Only one task at a time may use it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lineage = LineageStore(database)
        self._bundles = BundleStore(database)
        self._reports = ReportStore(database)
        self._remote_workers = RemoteWorkerStore(database)
        self._retraces = RetraceStore(database)
        self._elites = EliteStore(database)
        self.drop()

    def drop(self) -> None:
        """Drop all cached values and pending writes."""
        self._known: dict[str, CandidateRecord] = {}
        self._variants: dict[str, dict[int, VariantRecord]] = {}
        self._documents: dict[str, dict[str, str]] = {}
        self._unverified_traces: dict[str, UnverifiedTrace] = {}
        self._retraced: dict[str, Retrace | None] = {}
        self._readings: dict[str, Readings] = {}
        self._unkept: set[str] = set()
        self._traced: dict[str, BundleRecord] = {}
        self._measures: dict[ReportKey, list[str]] = {}
        self._traces: dict[str, TraceOutcome] = {}
        self._repeated: dict[str, Retrace] = {}
        self._new: dict[str, NewReport] = {}
        self._took: dict[str, int] = {}
        self._holders: dict[tuple[str, str, int, int], float | None] = {}
        self._offers: list[Offer] = []
        self._verdicts: dict[str, CandidateVerdict] = {}
        self._revisions: dict[str, CandidateVerdict] = {}
        self._references: dict[str, ReferenceChange] = {}

    @property
    def waiting(self) -> int:
        """Number of pending writes."""
        answers = len(self._offers) + len(self._verdicts) + len(self._revisions)
        return len(self._traces) + len(self._repeated) + len(self._new) + answers

    async def look_up(self, candidates: Collection[str], bundles: Collection[str]) -> None:
        """Read everything about these candidates and bundles that is not cached yet.

        Args:
            candidates: Ids; missing candidates stay unknown.
            bundles: Identities, likewise.

        Raises:
            DatabaseUnavailable: If the database does not answer.
        """
        ids = [id for id in set(candidates) if id not in self._variants]
        if ids:
            found = await self._lineage.candidates(ids)
            self._known.update(found)
            keys = {candidate.trace_key for candidate in found.values()} - self._retraced.keys()
            self._retraced.update(dict.fromkeys(keys) | await self._retraces.of(keys))
            self._unverified_traces.update(
                (unverified.candidate, unverified)
                for unverified in await self._remote_workers.unverified_traces_of(ids)
            )
            self._documents.update(await self._lineage.reports(ids))
            self._variants.update((id, {}) for id in ids)
            for (candidate, index), variant in (await self._lineage.variants(ids)).items():
                self._variants[candidate][index] = variant
        unread = set(bundles) - self._readings.keys() - self._unkept
        if unread:
            self._readings.update(await self._lineage.readings(unread))
            self._unkept |= unread - self._readings.keys()

    async def candidate(self, id: str) -> CandidateRecord:
        """Return one candidate as it was at the first look-up.

        Raises:
            RecordNotFound: If there is none.
        """
        await self.look_up([id], [])
        if id not in self._known:
            raise RecordNotFound(f"there is no candidate {id}")
        return self._known[id]

    async def variants(self, candidate: str) -> list[VariantRecord]:
        """Return a candidate's variants by index; none before its trace."""
        await self.look_up([candidate], [])
        variants = self._variants[candidate]
        return [variants[index] for index in sorted(variants)]

    async def reports(self, candidate: str) -> dict[str, str]:
        """Return the documents of a candidate's reports by job, oldest first."""
        await self.look_up([candidate], [])
        return self._documents[candidate]

    async def unverified_trace(self, candidate: str) -> UnverifiedTrace | None:
        """Return the untrusted worker that made a candidate's trace; None if it is trusted."""
        await self.look_up([candidate], [])
        return self._unverified_traces.get(candidate)

    async def retrace(self, trace_key: str) -> Retrace | None:
        """Return the result of the second trace; None if there was none."""
        if trace_key not in self._retraced:
            self._retraced[trace_key] = (await self._retraces.of([trace_key])).get(trace_key)
        return self._retraced[trace_key]

    async def keep_retrace(self, trace_key: str, candidate: str, bundles: Sequence[str | None]) -> None:
        """Store the bundles of a second trace, by index of the variant. The first stored result stays."""
        if await self.retrace(trace_key) is None:
            new = Retrace(trace_key, candidate, tuple(bundles), now())
            self._repeated[trace_key] = self._retraced[trace_key] = new

    async def readings(self, bundle: str) -> Readings:
        """Return the readings of one bundle, one mapping per plan.

        Raises:
            RecordNotFound: If none has that identity.
        """
        await self.look_up([], [bundle])
        if bundle in self._traced:
            return self._traced[bundle].readings
        if bundle not in self._readings:
            raise RecordNotFound(f"there is no bundle {bundle}")
        return self._readings[bundle]

    async def measures(self, about: ReportKey) -> list[str]:
        """Return the documents of the first `measure` reports on equal bundles, oldest first, except `INCONCLUSIVE`."""
        await self.look_up([], [about.bundle])
        if about not in self._measures:
            # A bundle that is new to the archive was never judged. Most are new, and need no query.
            never = about.bundle in self._unkept
            self._measures[about] = [] if never else await self._reports.measures(about)
        waiting = (new for new in self._new.values() if ReportKey.of(new) == about and new.kind == "measure")
        return self._measures[about] + [new.document for new in waiting if is_reusable(new)]

    async def save_trace(self, candidate: str, traced: TraceOutcome) -> None:
        """Store the result of a trace; as `CandidateStore.save_trace`."""
        told = (variant.bundle for variant in traced.variants if variant.bundle is not None)
        await self.look_up([candidate], list(told))
        self._traces[candidate] = traced
        for new in traced.variants:
            self._variants[candidate].setdefault(new.index, _variant(candidate, new))
            if new.bundle is not None and new.document is not None:
                self._traced[new.bundle] = BundleRecord(new.bundle, new.document, new.readings or ())

    async def save_report(self, new: NewReport, device_ms: int = 0) -> None:
        """Store a report, unless its job has one already, and count the milliseconds that it took."""
        documents = await self.reports(new.candidate)
        if new.job not in documents:
            documents[new.job] = new.document
            self._new[new.job], self._took[new.job] = new, device_ms

    async def objective(self, search: str, device: str, axes_version: int, cell: int) -> float | None:
        """Return the objective of a cell's holder after the flush, without confirms; None if empty."""
        place = (search, device, axes_version, cell)
        if place not in self._holders:
            try:
                self._holders[place] = (await self._elites.get(*place)).objective
            except RecordNotFound:
                self._holders[place] = None
        mine = (offer.objective for offer in self._offers if place == _place(offer))
        return max((known for known in (self._holders[place], *mine) if known is not None), default=None)

    def offer(self, offer: Offer) -> None:
        """Offer a challenger that needs no confirm; as `EliteStore.offer` without an incumbent.

        Raises:
            ValueError: If the objective or one of its bounds is not finite, or the offer names an incumbent.
        """
        require_figures(offer)
        if offer.incumbent is not None:
            raise ValueError(f"job {offer.job} has to be decided at once: its confirm depends on the answer")
        self._offers.append(offer)

    def judge(
        self, verdict: CandidateVerdict, *, revises: bool = False, reference: ReferenceChange | None = None
    ) -> None:
        """Set a candidate's verdict. The first verdict stays, unless it is `correct` and this one revises it.

        Args:
            verdict: The verdict.
            revises: True if it may replace a verdict that is `correct`.
            reference: Change of the search's reference seed, if this is the candidate's first verdict.

        Raises:
            ValueError: If an objective is not finite.
        """
        require_finite(verdict)
        self._verdicts.setdefault(verdict.candidate, verdict)
        if revises:
            self._revisions[verdict.candidate] = verdict
        if reference is not None:
            self._references.setdefault(verdict.candidate, reference)

    async def flush(self) -> BatchResult:
        """Write everything pending in one transaction, and drop cached values. If it fails, nothing is written.

        Raises:
            RecordConflict: If a search, candidate or bundle is unknown, or another coordinator has stored a different
                second trace meanwhile.
            ArchiveError: If the database refuses one of the values; pending writes are dropped.
            DatabaseUnavailable: If the database does not answer; likewise.
        """
        traces, repeated, offers, verdicts = self._traces, self._repeated, self._offers, self._verdicts
        new, took, revisions, references = self._new, self._took, self._revisions, self._references
        waiting = self.waiting
        self.drop()
        if not waiting:
            return BatchResult(frozenset(), ())
        async with self._database.write() as connection:
            await add_traces(connection, traces)
            await add_retraces(connection, repeated.values())
            await add_reports(connection, new.values(), took)
            placements = await place(connection, offers)
            judged = await add_verdicts(connection, verdicts.values())
            await revise_verdicts(connection, revisions.values())
            await change_references(connection, [references[each] for each in references if each in judged])
        return BatchResult(frozenset(judged), tuple(zip(offers, placements, strict=True)))

    async def bundle(self, identity: str) -> BundleRecord:
        """Return one bundle with its document.

        Raises:
            RecordNotFound: If none has that identity.
        """
        return self._traced.get(identity) or await self._bundles.get(identity)


def _place(offer: Offer) -> tuple[str, str, int, int]:
    return offer.search, offer.device, offer.axes_version, offer.cell


def _variant(candidate: str, new: NewVariant) -> VariantRecord:
    return VariantRecord(candidate, new.index, new.configuration, new.bundle, new.outcome, new.reason, new.line)
