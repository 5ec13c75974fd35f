"""Elites as runnable files: the kernel, its provenance, and a check against the reference."""

import json
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from archive.records import CandidateRecord, EliteRecord, SearchRecord, VariantRecord
from archive.store import Store
from kernelreef.models import FinalistResult
from service.evaluation.figure_labels import best_baselines, provenance, relative_to
from service.evaluation.finalists import finalists
from service.evaluation.reports import reports_on
from service.operators.example_inputs import ORDERED_VALUES, example_inputs
from workers.protocol import Device, Operator, Report, Shape, ShapeRole
from workers.protocol.distribution import ORDERED

_TEMPLATES = Environment(
    loader=PackageLoader("service.analysis"), undefined=StrictUndefined, autoescape=False
)  # writes Python


@dataclass(frozen=True)
class KernelFile:
    """File of an elite, with its records. `report` is the report that its speedup comes from, if known."""

    name: str
    text: str
    candidate: CandidateRecord
    variant: VariantRecord
    report: Report | None


async def read_kernel(store: Store, search: SearchRecord, operator: Operator, elite: EliteRecord) -> KernelFile:
    """Read an elite from the archive as a file named `<operator>_<candidate>.py`.

    Raises:
        archive.errors.RecordNotFound: If the archive has lost its candidate.
    """
    candidate = await store.candidates.get(elite.candidate)
    variants = await store.candidates.variants(elite.candidate)
    variant = next(item for item in variants if item.index == elite.variant)
    report = next((item for item in await reports_on(store, candidate.id, search) if item.job == elite.job), None)
    finalist = (await finalists(store, [elite]))[elite.job]
    text = kernel_file(search, operator, candidate, variant, elite, report, finalist)
    return KernelFile(f"{operator.name}_{candidate.id}.py", text, candidate, variant, report)


def kernel_file(
    search: SearchRecord,
    operator: Operator,
    candidate: CandidateRecord,
    variant: VariantRecord,
    elite: EliteRecord,
    report: Report | None,
    finalist: FinalistResult,
) -> str:
    """Render a runnable file: provenance, the unchanged candidate, and a check against the reference."""
    baselines = best_baselines(report) if report else {}
    dims = _tried_at(search, operator)
    return _TEMPLATES.get_template("kernel.py.jinja").render(
        name=operator.name,
        entry=operator.entry,
        search=search.id,
        device=elite.device,
        compiler=elite.compiler,
        relative_to=relative_to(elite.device, search),
        low=f"{elite.low:.3f}x",
        high=f"{elite.high:.3f}x",
        provenance=_provenance(elite.device, report),
        baselines=", ".join(f"{name} at {shape}" for shape, name in baselines.items()),
        candidate=candidate.id,
        variant=elite.variant,
        configuration=f" ({json.dumps(dict(variant.configuration))})" if variant.configuration else "",
        bundle=elite.bundle[:16],
        finalist=finalist.standing,
        admitted=search.admitted,
        source=candidate.source.rstrip("\n") + "\n",
        reference=repr(operator.reference),
        inputs=repr(example_inputs(operator, dims)),
        ordered=ORDERED_VALUES if any(item.distribution in ORDERED for item in operator.inputs) else "",
        backward=operator.backward_entry if operator.backward else "",
        wanted=repr(operator.differentiated),
        taken=len(operator.inputs),
        contents=operator.in_place,
        results=len(operator.outputs),
        scalars=repr(operator.scalar_values(dims)),
    )


def _provenance(device: str, report: Report | None) -> str:
    if not Device.parse(device).measures:
        return "predicted, not measured" if provenance(device) == "predicted" else provenance(device)
    return f"MEASURED on {device}" + (f", trust {report.trust.value}" if report and report.trust else "")


def _tried_at(search: SearchRecord, operator: Operator) -> dict[str, int]:
    """Return the dimensions of the largest boundary shape, which is small enough for the interpreter."""
    shapes = [Shape.model_validate(shape) for shape in search.shapes]
    small = [shape for shape in shapes if shape.role is ShapeRole.BOUNDARY] or shapes
    return max(small, key=lambda shape: operator.input_bytes(shape.dims)).dims
