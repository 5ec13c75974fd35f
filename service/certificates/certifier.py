"""Certifier: it collects the evidence of a certificate from the archive."""

from collections.abc import Sequence

from archive.descriptors import coordinates
from archive.errors import RecordNotFound
from archive.grid import Grid
from archive.records import BundleRecord, CandidateRecord, EliteRecord, SearchRecord, VariantRecord
from archive.store import Store
from service.certificates.builder import CertificateEvidence, certify
from service.certificates.document import Certificate
from service.evaluation.finalists import examination
from service.evaluation.promotion import first_benchmark
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import latest_reports, reports_on
from workers.protocol import Operator, Outcome, Report


class Certifier:
    """Writer of certificates from one archive, which reads common records once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reference_seed = ReferenceSeed(store)

    async def of_candidate(
        self, id: str, *, device: str | None = None, variant: int | None = None, with_source: bool = True
    ) -> Certificate:
        """Certify a candidate's best claim: a cell that it holds, else a correct verdict.

        Args:
            id: Id of the candidate.
            device: Device that judged it; None for any.
            variant: Index of its variant; None for any.
            with_source: True to include its source.

        Raises:
            archive.errors.RecordNotFound: If there is no such candidate, or no correct verdict on it.
        """
        candidate = await self._store.candidates.get(id)
        search = await self._store.searches.get(candidate.search)
        reports = await reports_on(self._store, id, search)
        found = [
            report
            for report in latest_reports(reports)
            if report.outcome is Outcome.CORRECT
            and (device is None or report.device.name == device)
            and (variant is None or report.variant == variant)
        ]
        claims = [await self._claim(search, candidate, report, reports) for report in found]
        best = next((claim for claim in claims if claim.elite), next(iter(claims), None))
        if best is None:
            where = "" if device is None else f" on {device}"
            raise RecordNotFound(f"candidate {id} has no correct verdict{where}, so there is nothing to certify")
        return certify(best, with_source=with_source)

    async def of_elite(self, search: SearchRecord, elite: EliteRecord) -> Certificate | None:
        """Certify an elite; returns None if the archive has lost its report."""
        candidate = await self._store.candidates.get(elite.candidate)
        reports = await reports_on(self._store, elite.candidate, search)
        report = next((each for each in reports if each.job == elite.job), None)
        return None if report is None else certify(await self._claim(search, candidate, report, reports))

    async def _claim(
        self, search: SearchRecord, candidate: CandidateRecord, report: Report, reports: Sequence[Report]
    ) -> CertificateEvidence:
        variants = await self._store.candidates.variants(candidate.id)
        variant = next(each for each in variants if each.index == report.variant)
        stored = await self._store.bundles.get(report.bundle)
        elite = await self._held(search, report, stored)
        if elite is not None:
            report = next((each for each in reports if each.job == elite.job), report)
        measures = report.device.measures
        return CertificateEvidence(
            search=search,
            operator=Operator.model_validate_json((await self._store.operators.get(search.operator)).document),
            candidate=candidate,
            variant=variant,
            stored=stored,
            verdict=report,
            reports=reports,
            examination=await examination(self._store, candidate.id, variant.index, report.device.name),
            traced_alike=await self._traced_alike(candidate, variants),
            pacer=await self._reference_seed.pacer(search, report.device.name) if measures else None,
            baseline_us={} if measures else await self._reference_seed.baseline_us(search, report.device.name),
            elite=elite,
        )

    async def _held(self, search: SearchRecord, report: Report, stored: BundleRecord) -> EliteRecord | None:
        """Return the cell that a verdict's variant holds; None if it holds none."""
        cell = Grid(search.axes).index(coordinates(stored.readings[first_benchmark(search)]))
        if cell is None:
            return None
        try:
            elite = await self._store.elites.get(search.id, report.device.name, search.axes_version, cell)
        except RecordNotFound:
            return None
        return elite if (elite.candidate, elite.variant) == (report.candidate, report.variant) else None

    async def _traced_alike(self, candidate: CandidateRecord, variants: Sequence[VariantRecord]) -> bool:
        repeat = await self._store.retraces.find(candidate.trace_key)
        told = [variant.bundle for variant in sorted(variants, key=lambda variant: variant.index)]
        return repeat is not None and list(repeat.bundles) == told
