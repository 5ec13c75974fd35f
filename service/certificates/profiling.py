"""Profiles of certified kernels on this machine: why one plan takes its time. Nothing is judged or stored.

The candidate's source is traced again for its line numbers, in a sandbox and before anything is measured. Then only its
plan is replayed.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from service.certificates.document import Certificate
from service.errors import InvalidInput
from service.evaluation.executor_client import LocalExecutor
from service.evaluation.floors import ShapeWork, TimeFloors, floors, works
from workers.protocol import (
    DTYPE_BYTES,
    Bundle,
    Device,
    Graph,
    Operator,
    Plan,
    ProfileJob,
    ProfileReport,
    Shape,
    TraceJob,
    TraceReport,
)
from workers.targets import Target, shown_figures

HERE = "profile"
"""Placeholder for ids of search, candidate and job."""


@dataclass(frozen=True)
class ProfiledPlan:
    """A profile with the figures that it is compared with.

    Attributes:
        certificate: The certificate of the kernel.
        device: Device of the profile.
        report: The profile.
        target: Figures of the card, or of the target.
        work: Work of one call.
        verdict_us: Time of a call in the verdict; None if it has none.
    """

    certificate: Certificate
    device: Device
    report: ProfileReport
    target: Target
    work: ShapeWork
    verdict_us: float | None

    @property
    def time_us(self) -> float | None:
        """Time of a call: measured here, or that of the verdict."""
        return self.report.time_us or self.verdict_us

    @property
    def floors(self) -> TimeFloors:
        """Theoretical time floors of a call."""
        return floors(self.work, self.target)

    def shares(self) -> dict[str, float]:
        """Return what the time achieves of each floor, 1 at the floor: of peaks, and of a plain copy."""
        known = {"bandwidth": self.floors.memory_us, "operations": self.floors.arithmetic_us}
        known["copy"] = self.report.copy_us
        time_us = self.time_us
        return {name: floor_us / time_us for name, floor_us in known.items() if floor_us and time_us}

    def source_line(self, line: int | None) -> str:
        """Return a line of the candidate's source; empty if unknown."""
        lines = (self.certificate.source or "").splitlines()
        return lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""


class Profiler:
    """Profiler of certified kernels; one executor runs at a time."""

    def __init__(self, *, card: int | None, data: Path | None = None) -> None:
        """Prepare without starting an executor.

        Args:
            card: Number of a card of this machine of the certificate's class; None profiles without a card.
            data: Folder for figures kept between measurements.
        """
        self._card = card
        self._data = data

    async def profile(
        self, certificate: Certificate, shape: str | None = None, *, counters: bool = True
    ) -> ProfiledPlan:
        """Profile the plan of a shape.

        Args:
            certificate: The kernel with its verdict.
            shape: Key of the shape; the first benchmark shape if None.
            counters: True to run the vendor's profiler, if this machine has it.

        Raises:
            InvalidInput: If there is no such shape.
            Unavailable: If an executor failed.
            ServiceError: If this machine cannot profile the kernel.
        """
        plan = plan_of(certificate.bundle, shape)
        graph, lined = await self._traced(certificate, plan.shape)
        measures = self._card is not None and certificate.device.measures
        device = certificate.device if measures else Device(kind="model", subject=certificate.device.target)
        job = ProfileJob(
            id=HERE,
            operator=certificate.operator,
            bundle=certificate.bundle.restricted([plan]),
            lined=lined,
            counters=counters,
        )
        executor = LocalExecutor("measure", device=device, card=self._card or 0, data=self._data)
        async with executor as measurer:
            report = await measurer.run(job, ProfileReport)
        times = {each.shape: each.mid_us for each in certificate.verdict.shapes}
        return ProfiledPlan(
            certificate=certificate,
            device=device,
            report=report,
            target=shown_figures(device.target, report.card or certificate.verdict.card),
            work=work_of(certificate.operator, plan, graph),
            verdict_us=times.get(plan.shape.key),
        )

    async def _traced(self, certificate: Certificate, shape: Shape) -> tuple[Graph | None, Bundle | None]:
        """Export the reference for its operations, and trace the candidate for its lines; None for what fails."""
        job = TraceJob(
            id=HERE,
            search=HERE,
            operator=certificate.operator,
            shapes=(shape,),
            target=certificate.device.target,
            mutation_testing=False,
        )
        async with LocalExecutor("trace") as tracer:
            exported = await tracer.run(job, TraceReport)
            graph = next(iter(exported.graphs), None)
            if certificate.source is None:
                return graph, None
            told = {"candidate": HERE, "source": certificate.source, "seed": certificate.origin.search_seed}
            traced = await tracer.run(job.model_copy(update={**told, "lines": True}), TraceReport)
        bundles = (variant.bundle for variant in traced.variants if variant.bundle is not None)
        return graph, next((each for each in bundles if each.configuration == certificate.configuration), None)


def plan_of(bundle: Bundle, shape: str | None) -> Plan:
    """Return the plan of a shape, by its key; of the first benchmark shape if None.

    Raises:
        InvalidInput: If there is no such shape; names those that there are.
    """
    plans = {plan.shape.key: plan for plan in bundle.plans}
    if shape is None:
        return bundle.benchmarks[0]
    if shape not in plans:
        raise InvalidInput(f"no shape {shape}; there are {', '.join(plans)}", "--shape")
    return plans[shape]


def work_of(operator: Operator, plan: Plan, graph: Graph | None) -> ShapeWork:
    """Return the work of a call at a plan's shape: its bytes, and the operations of its reference if that is known."""
    shape, graphs = plan.shape.model_dump(), [] if graph is None else [graph.model_dump()]
    (work,) = works([shape], graphs, [item.dtype for item in operator.inputs])
    return replace(work, required_bytes=required_bytes(operator, plan))


def required_bytes(operator: Operator, plan: Plan) -> int:
    """Return the bytes of all inputs, read once, and of all outputs, written once."""
    return operator.input_bytes(plan.shape.dims) + sum(view.elements * DTYPE_BYTES[view.dtype] for view in plan.outputs)
