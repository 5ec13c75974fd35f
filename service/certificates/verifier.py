"""Verifier: it repeats a certificate on this machine, and reports what agrees, what differs and what it cannot try.

Each step shows the certificate's figures beside those found here. The certificate is untrusted: its plans must keep
the same rules as any candidate's, and its source is traced in a sandbox. Correctness is checked on its own secret
inputs and on new ones.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from service.certificates.builder import graph_digests
from service.certificates.comparison import (
    NO_SEED,
    ComparedFigure,
    StepOutcome,
    Verification,
    VerificationStep,
    check_claims,
    check_digests,
    check_shapes,
    correctness,
    earlier_seeds,
    excused,
    paced,
    pacer_of,
    pacers,
    predicted,
    related,
    times,
    verdict,
)
from service.certificates.document import Certificate, LoadedCertificate
from service.evaluation.executor_client import COMMAND, LocalExecutor
from service.evaluation.figure_labels import outdated
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Bundle,
    Device,
    Graph,
    MeasureJob,
    Readings,
    Report,
    TraceJob,
    TraceReport,
)

HERE = "verify"
"""Placeholder for ids of search and job."""


class Verifier:
    """Verifier of certificates on this machine."""

    def __init__(self, *, cards: Mapping[str, int], data: Path | None = None, command: Sequence[str] = COMMAND) -> None:
        """Prepare without starting an executor.

        Args:
            cards: Number of a card of this machine, by device name.
            data: Folder for results kept between measurements.
            command: Command that starts an executor, without its options.
        """
        self._cards = cards
        self._data = data
        self._command = command

    async def verify(self, read: LoadedCertificate) -> Verification:
        """Repeat a certificate, as far as this machine can.

        Raises:
            Unavailable: If an executor failed.
        """
        certificate = read.certificate
        device = self._device(certificate)
        done = Verification(device, [check_digests(read), check_claims(certificate), check_shapes(certificate)])
        async with AsyncExitStack() as stack:
            tracer = await stack.enter_async_context(LocalExecutor("trace", command=self._command))
            done.steps += await self._assemble(certificate, tracer)
            done.steps.append(await self._trace(certificate, tracer))
            graphs, step = await self._reference(certificate, tracer)
            done.steps.append(step)
            seeds = await self._seeds(certificate, tracer)
        if certificate.device.measures:
            done.steps.append(paced(certificate, seeds[-1] if seeds else None))
        done.steps += await self._judge(certificate, device, graphs, seeds)
        return done

    def _device(self, certificate: Certificate) -> Device | None:
        """Choose the device for the correctness check: the certificate's, or the interpreter if there is a source."""
        if certificate.device.name in self._cards:
            return certificate.device
        model = Device(kind="model", subject=certificate.device.target)
        return model if certificate.source is not None else None

    async def _assemble(self, certificate: Certificate, tracer: LocalExecutor) -> list[VerificationStep]:
        """Check the plans against the operator, lint the assembly text and assemble it."""
        bare = certificate.bundle.model_copy(update={"cubins": {}})
        report = await tracer.run(_trace_job(certificate).model_copy(update={"bundle": bare}), TraceReport)
        (variant,) = report.variants
        if variant.bundle is None:
            refused = VerificationStep("rules", StepOutcome.DIFFERS, f"{variant.outcome.value}: {variant.reason}")
            return [refused, VerificationStep("machine code", StepOutcome.NOT_TRIED, "the plans are refused")]
        then, now = certificate.bundle.cubins, variant.bundle.cubins
        readings = dict(zip((plan.shape.key for plan in variant.bundle.plans), variant.readings, strict=True))
        equal = then == now and _as_read_then(certificate, readings) == certificate.readings
        figures = tuple(ComparedFigure(name[:12], then.get(name, "none")[:12], code[:12]) for name, code in now.items())
        plans = f"{len(certificate.bundle.plans)} plans and {len(now)} kernels keep every rule"
        code = self._compared("machine code", equal, report, certificate, figures)
        return [VerificationStep("rules", StepOutcome.REPEATED, plans), code]

    async def _trace(self, certificate: Certificate, tracer: LocalExecutor) -> VerificationStep:
        """Trace the source and compare bundles."""
        if certificate.source is None:
            return VerificationStep("trace", StepOutcome.NOT_TRIED, "the certificate has no source")
        job = _trace_job(certificate).model_copy(
            update={"source": certificate.source, "seed": certificate.origin.search_seed}
        )
        report = await tracer.run(job, TraceReport)
        variant = next((each for each in report.variants if each.index == certificate.origin.variant), None)
        if variant is None or variant.bundle is None:
            failed = variant or report
            return VerificationStep("trace", StepOutcome.DIFFERS, f"{failed.outcome.value}: {failed.reason}")
        now = variant.bundle.identity
        figures = (ComparedFigure("bundle", certificate.bundle_digest[:12], now[:12]),)
        return self._compared("trace", now == certificate.bundle_digest, report, certificate, figures)

    async def _reference(
        self, certificate: Certificate, tracer: LocalExecutor
    ) -> tuple[tuple[Graph, ...], VerificationStep]:
        """Export the reference and compare its graphs."""
        report = await tracer.run(_trace_job(certificate), TraceReport)
        if not report.graphs:
            return (), VerificationStep(
                "reference", StepOutcome.DIFFERS, f"the reference does not export: {report.reason}"
            )
        if report.gate is not None and report.gate.verdict == "failed":
            return (), VerificationStep(
                "reference", StepOutcome.DIFFERS, f"its checks cannot tell right from wrong: {report.gate.reason}"
            )
        now = graph_digests(report.graphs)
        figures = tuple(
            ComparedFigure(shape, certificate.graphs.get(shape, "none")[:12], digest[:12])
            for shape, digest in now.items()
        )
        return report.graphs, self._compared("reference", now == certificate.graphs, report, certificate, figures)

    async def _seeds(self, certificate: Certificate, tracer: LocalExecutor) -> list[TraceReport]:
        """Trace the operator's seeds up to the one that figures relate to, which is the last; none if it has none."""
        sources = certificate.operator.seeds[: certificate.reference_seed + 1]
        job = _trace_job(certificate).model_copy(update={"seed": certificate.origin.search_seed})
        return [await tracer.run(job.model_copy(update={"source": source}), TraceReport) for source in sources]

    def _compared(
        self, name: str, equal: bool, report: TraceReport, certificate: Certificate, figures: tuple[ComparedFigure, ...]
    ) -> VerificationStep:
        """Report equality; a difference that other tool versions explain is no contradiction."""
        if equal:
            return VerificationStep(name, StepOutcome.REPEATED, "", figures)
        step = VerificationStep(name, StepOutcome.DIFFERS, "the same tools give another result here", figures)
        return excused(step, certificate, report.versions)

    async def _judge(
        self, certificate: Certificate, device: Device | None, graphs: tuple[Graph, ...], seeds: Sequence[TraceReport]
    ) -> list[VerificationStep]:
        """Run the plans on the certificate's inputs and on new ones, and compare times, baselines and seeds."""
        names = ("correctness", "fresh inputs", "times", "baselines", *(["earlier seeds"] if seeds[:-1] else []))
        if device is None:
            reason = f"this machine has no {certificate.device.name}, and there is no source for the interpreter"
            return [VerificationStep(name, StepOutcome.NOT_TRIED, reason) for name in names]
        if not graphs:
            return [
                VerificationStep(name, StepOutcome.NOT_TRIED, "there is no reference to compare with") for name in names
            ]
        card = self._cards.get(device.name, 0)
        async with LocalExecutor(
            "measure", device=device, card=card, data=self._data, command=self._command
        ) as executor:
            job = _measure_job(certificate, device, graphs, seeds[-1] if seeds else None)
            fresh = await executor.run(job, Report)
            again = fresh
            if certificate.verdict.seed is not None and device == certificate.device:
                again = await executor.run(job.model_copy(update={"seed": certificate.verdict.seed}), Report)
            baselines = await self._baselines(certificate, executor, job, fresh, seeds)
            earlier = [await self._variants(executor, job, certificate, at, seed) for at, seed in enumerate(seeds[:-1])]
        return [
            correctness(certificate, again, on_its_inputs=again is not fresh),
            verdict("fresh inputs", fresh),
            times(certificate, again if again.device.kind == "model" else fresh),
            baselines,
            *([earlier_seeds(certificate, earlier, seeds[-1].versions)] if earlier else []),
        ]

    async def _baselines(
        self,
        certificate: Certificate,
        executor: LocalExecutor,
        job: MeasureJob,
        fresh: Report,
        seeds: Sequence[TraceReport],
    ) -> VerificationStep:
        """Compare the baselines: those timed here, or new predictions of the seed's times."""
        if job.device != certificate.device or job.device.measures:
            return related(certificate, fresh)
        if not seeds:
            return VerificationStep("baselines", StepOutcome.NOT_TRIED, NO_SEED)
        at = certificate.reference_seed
        return predicted(certificate, await self._variants(executor, job, certificate, at, seeds[at]))

    async def _variants(
        self, executor: LocalExecutor, job: MeasureJob, certificate: Certificate, at: int, seed: TraceReport
    ) -> list[Report]:
        """Judge all variants of the operator's seed number `at` that compile here."""
        told = {"source": certificate.operator.seeds[at] if job.device.kind == "model" else None}
        compiled = [variant for variant in seed.variants if variant.bundle is not None]
        return [
            await executor.run(job.model_copy(update={**told, "bundle": each.bundle, "variant": each.index}), Report)
            for each in compiled
        ]


def _as_read_then(certificate: Certificate, readings: Mapping[str, Readings]) -> dict[str, Readings]:
    """Return readings without those that the certificate's own protocol, if it is older, did not have."""
    if not outdated(certificate.verdict.protocol_version) or readings.keys() != certificate.readings.keys():
        return dict(readings)
    known = {key: each.model_dump(include=certificate.readings[key].model_fields_set) for key, each in readings.items()}
    return {key: Readings.model_validate(each) for key, each in known.items()}


def _trace_job(certificate: Certificate) -> TraceJob:
    return TraceJob(
        id=HERE,
        search=HERE,
        operator=certificate.operator,
        shapes=certificate.shapes,
        target=certificate.device.target,
    )


def _measure_job(
    certificate: Certificate, device: Device, graphs: tuple[Graph, ...], seed: TraceReport | None
) -> MeasureJob:
    job = MeasureJob(
        id=HERE,
        search=HERE,
        candidate=HERE,
        variant=certificate.origin.variant,
        bundle=certificate.bundle,
        operator=certificate.operator,
        graphs=graphs,
        device=device,
        source=certificate.source if device.kind == "model" else None,
        pacer=_pacer(certificate, seed) if device.measures else None,
        related=certificate.operator.has_baselines,
        waits_for_baselines=certificate.operator.has_baselines,
    )
    return job.model_copy(update={"deadline_s": MEASURED_DEADLINE_S}) if device.measures else job


def _pacer(certificate: Certificate, seed: TraceReport | None) -> Bundle | None:
    """Return the pacer: the seed as traced here, if the operator has one, whatever the certificate states."""
    own = {} if seed is None else pacers(seed)
    return own.get(pacer_of(certificate)) or next(iter(own.values()), certificate.pacer)
