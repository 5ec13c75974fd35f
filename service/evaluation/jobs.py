"""Jobs for the workers, made from records. Their ids are deterministic, so that sending one twice is harmless."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from archive.records import EMPTY_CELL, SEED_EMITTER, CandidateRecord, SearchRecord
from workers.protocol import (
    MEASURED_DEADLINE_S,
    PROTOCOL_VERSION,
    Bundle,
    ConfirmJob,
    Device,
    FinalJob,
    Graph,
    MeasureJob,
    Operator,
    Report,
    Shape,
    ShapeRole,
    TraceJob,
    compiled_at,
)

VARYING = frozenset({"tune", "rewrite", "cross"})
"""Emitters that vary kernels by rules, thousands an hour: one that compiles slowly is dropped, for the next is as good.
On an H100's host a tenth of them took 45 % of all traces' time, and all but two of those were slow kernels too."""
VARIATION_S, VARIATION_FACTOR = 6.0, 6
"""Seconds of processor time for the trace of such a variation: the first, or so many times as long as the slowest seed
took, if that is longer."""
SEED, SEED_TRACE_S, SEED_FACTOR = "seed", 60.0, 2
"""Emitter of seeds, seconds of processor time for the trace of one, and times as long as the slowest seed that other
candidates get if it took longer than is usual: a whole model has 40 to 80 kernels, of half a second each."""
SEED_BYTES = 2**18
"""Bytes of a seed that have these seconds, each time they are begun: DenseNet121, 511 KB in 178 kernels, took 100 s."""
DRAFT_S = 60.0
"""Seconds for a draft: importing TorchInductor takes 3 s and more on a busy machine, its writing 1 to 3 s."""

AGAIN = "again"
"""Placeholder for a confirm's incumbent, in a measure job that repeats an untrusted host's report."""
BASELINES = "baselines"
"""Placeholder for a confirm's incumbent, in a measure job of the reference seed that waits for the baselines."""

PARSED_KEPT = 64
"""Maximum number of searches whose parsed reference graphs are in memory, each some tens of kilobytes."""
_PARSED: dict[str, tuple[Sequence[Mapping[str, Any]], tuple[Graph, ...]]] = {}
FINAL, FINAL_TRACE, NEAR_TRACE = "final", "final-trace", "final-trace-near"
"""Endings of a finalist's job ids: its examination, the trace before it, and a second trace without the shape with
indices beyond 2^31, if that could not be traced."""
CHECK = "check"
"""Ending of the id of a job that checks a source which is no candidate."""
FINAL_TRACE_S = 240.0
"""Seconds for the trace of a finalist, and again for the export of its reference: 200 shapes, and one second on a slow
core for each of a few dozen specialisations."""


@dataclass(frozen=True)
class JobSubject:
    """Candidate that a job is about."""

    search: SearchRecord
    operator: Operator
    candidate: CandidateRecord

    def same(self, other: "JobSubject") -> bool:
        """Return True if both are about the same candidate, even if they were read at different times."""
        return self.candidate.id == other.candidate.id


@dataclass(frozen=True)
class EvaluationCase(JobSubject):
    """One variant of a candidate on one device. `bundle` is the identity of the variant's bundle."""

    variant: int
    bundle: str
    device: Device

    def same(self, other: JobSubject) -> bool:
        """Return True if both are about the same variant."""
        return super().same(other) and isinstance(other, EvaluationCase) and self.variant == other.variant

    @property
    def is_reference_seed(self) -> bool:
        """True if it is the reference seed, which only trusted workers may judge."""
        return is_reference_seed(self.search, self.candidate)

    def job(self, incumbent: str | None = None) -> str:
        """Return the id of the job that measures it, for whatever purpose, or confirms it against an incumbent."""
        if incumbent in (None, AGAIN, BASELINES):
            id = measure_id(self.candidate.id, self.variant, self.device.name)
            return id if incumbent is None else f"{id}:{incumbent}"
        return confirm_id(self.candidate.id, self.variant, self.device.name, incumbent)

    def final_job(self, purpose: str = FINAL) -> str:
        """Return the id of the job that examines it as a finalist, or of one that traces it first."""
        return final_id(self.candidate.id, self.variant, self.device.name, purpose)


def is_reference_seed(search: SearchRecord, candidate: CandidateRecord) -> bool:
    """Return True if a candidate is its search's reference seed."""
    return candidate.emitter == SEED_EMITTER and candidate.ordinal == search.reference_seed


def reference_id(search: str) -> str:
    """Return the id of the job that exports a search's reference graphs."""
    return f"{search}:reference"


def admission_id(search: str) -> str:
    """Return the id of the job that tests the checks of a search's operator."""
    return f"{search}:admission"


def draft_id(search: str) -> str:
    """Return the id of the job that drafts a candidate from a search's reference."""
    return f"{search}:draft"


def trace_id(candidate: str) -> str:
    """Return the id of the job that traces a candidate."""
    return f"{candidate}:trace"


def retrace_id(candidate: str) -> str:
    """Return the id of the job that traces a would-be winner a second time."""
    return f"{candidate}:retrace"


def measure_id(candidate: str, variant: int, device: str) -> str:
    """Return the id of the job that measures a variant on a device."""
    return f"{candidate}:{variant}:{device}:measure"


def confirm_id(candidate: str, variant: int, device: str, incumbent: str) -> str:
    """Return the id of the job that confirms a variant against an incumbent's bundle, or against `EMPTY_CELL`."""
    return f"{candidate}:{variant}:{device}:confirm:{incumbent}"


def final_id(candidate: str, variant: int, device: str, purpose: str = FINAL) -> str:
    """Return the id of the job that examines a finalist, or of one that traces it first."""
    return f"{candidate}:{variant}:{device}:{purpose}"


def purpose_of(job: str) -> str:
    """Return the last part of a job's id."""
    return job.rpartition(":")[2]


def is_check(job: str) -> bool:
    """Return True if a job checks a source that is no candidate."""
    return purpose_of(job) == CHECK


def is_final(job: str) -> bool:
    """Return True if a job is about a finalist."""
    return purpose_of(job) in (FINAL, FINAL_TRACE, NEAR_TRACE)


def finalist_of(job: str) -> tuple[str, int, Device]:
    """Return candidate, variant and device of the finalist that a job is about.

    Raises:
        ValueError: If the job is about no finalist.
    """
    candidate, variant, rest = job.split(":", 2)
    return candidate, int(variant), Device.parse(rest.rpartition(":")[0])


def incumbent_of(report: Report) -> str | None:
    """Return the bundle that a report confirms its challenger against, `EMPTY_CELL` if there was no holder.

    Returns None for a first measurement, and its purpose for another one: `AGAIN` or `BASELINES`.
    """
    last = purpose_of(report.job)
    return last if report.kind == "confirm" or last in (AGAIN, BASELINES) else None


def target_of(search: SearchRecord) -> str:
    """Return the one target that a search compiles for."""
    return Device.parse(search.devices[0]).target


def traced_at(search: SearchRecord) -> str:
    """Return the place where a search's candidates are traced: its target, with the compiler that it asks for.

    A recording stands in place of both.
    """
    device = Device.parse(search.devices[0])
    return device.traced_at if device.kind == "recorded" else compiled_at(device.target, search.compiler)


def judged_at(search: SearchRecord, device: str) -> str:
    """Return the place where a search's candidates are judged on one of its devices."""
    return compiled_at(device, search.compiler if device.startswith("model:") else None)


def trace_key(digest: str, operator: str, shapes: Sequence[Mapping[str, Any]], place: str) -> str:
    """Hash the inputs that decide a trace's result: source, operator, shapes, place and protocol."""
    body = json.dumps([digest, operator, list(shapes), place, PROTOCOL_VERSION], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


def reference_job(search: SearchRecord, operator: Operator) -> TraceJob:
    """Export the operator's reference for the search's shapes."""
    return _trace_job(search, operator, reference_id(search.id)).model_copy(update={"mutation_testing": False})


def admission_job(search: SearchRecord, operator: Operator) -> TraceJob:
    """Test if the operator's checks tell right answers from wrong ones."""
    return _trace_job(search, operator, admission_id(search.id))


def draft_job(search: SearchRecord, operator: Operator) -> TraceJob:
    """Draft a candidate from the operator's reference."""
    job = _trace_job(search, operator, draft_id(search.id))
    return job.model_copy(update={"drafts": True, "deadline_s": DRAFT_S})


def trace_job(
    search: SearchRecord, operator: Operator, candidate: CandidateRecord, seeds: Sequence[CandidateRecord] = ()
) -> TraceJob:
    """Turn a candidate into bundles.

    Args:
        search: Its search.
        operator: The contract.
        candidate: The candidate.
        seeds: Seeds of the search, whose traces limit that of other candidates; none for the usual limit.
    """
    job = _trace_job(search, operator, trace_id(candidate.id), candidate)
    if candidate.emitter == SEED:
        return job.model_copy(update={"deadline_s": seed_trace_s(candidate.source)})
    took_s = max((_traced_s(seed) for seed in seeds), default=0.0)
    limit_s = max(job.deadline_s, SEED_FACTOR * took_s)
    if candidate.emitter in VARYING and took_s:
        limit_s = min(limit_s, max(VARIATION_S, VARIATION_FACTOR * took_s))
    return job.model_copy(update={"deadline_s": limit_s})


def seed_trace_s(source: str | None) -> float:
    """Return the seconds of processor time for the trace of a seed: whole models take long."""
    return SEED_TRACE_S * max(1, ceil(len(source or "") / SEED_BYTES))


def _traced_s(candidate: CandidateRecord) -> float:
    return sum(candidate.stages_s.get(stage, 0.0) for stage in ("trace", "compile"))


def _trace_job(search: SearchRecord, operator: Operator, id: str, candidate: CandidateRecord | None = None) -> TraceJob:
    device = Device.parse(search.devices[0])
    return TraceJob(
        id=id,
        search=search.id,
        candidate=candidate.id if candidate else None,
        source=candidate.source if candidate else None,
        seed=search.seed if candidate else 0,
        operator=operator,
        shapes=tuple(Shape.model_validate(shape) for shape in search.shapes),
        target=device.target,
        device=device if device.kind == "recorded" else None,
        compiler=search.compiler,
    )


def check_job(search: SearchRecord, operator: Operator, id: str, source: str) -> TraceJob:
    """Turn a source that is no candidate into bundles, with predicted times."""
    job = _trace_job(search, operator, f"{id}:{CHECK}")
    graphs = tuple(graph for graph in _graphs(search) if graph.shape.role is ShapeRole.BENCHMARK)
    return job.model_copy(update={"candidate": id, "source": source, "seed": search.seed, "graphs": graphs})


def retrace_job(search: SearchRecord, operator: Operator, candidate: CandidateRecord) -> TraceJob:
    """Turn a candidate into bundles once more, in twice the time, so that nothing times out only this time."""
    job = trace_job(search, operator, candidate)
    limit_s = 2 * max(job.deadline_s, _traced_s(candidate))
    return job.model_copy(update={"id": retrace_id(candidate.id), "deadline_s": limit_s})


def measure_job(case: EvaluationCase, bundle: Bundle, pacer: Bundle | None, purpose: str | None = None) -> MeasureJob:
    """Judge one variant on one device; only `model` devices are sent the source, only those that measure a pacer."""
    # The parts were validated when they were read; validating a bundle again takes as long as all else about a report.
    job = MeasureJob.model_construct(
        id=case.job(purpose),
        search=case.search.id,
        candidate=case.candidate.id,
        variant=case.variant,
        bundle=bundle,
        operator=case.operator,
        graphs=_graphs(case.search),
        device=case.device,
        compiler=case.search.compiler,
        source=case.candidate.source if case.device.kind == "model" else None,
        pacer=pacer,
        related=case.operator.has_baselines,
        waits_for_baselines=purpose == BASELINES,
    )
    return job.model_copy(update={"deadline_s": MEASURED_DEADLINE_S}) if case.device.measures else job


def confirm_job(case: EvaluationCase, challenger: Bundle, incumbent: Bundle | None, pacer: Bundle | None) -> ConfirmJob:
    """Judge one variant again, against the holder of the cell that it would win."""
    return ConfirmJob(
        id=case.job(EMPTY_CELL if incumbent is None else incumbent.identity),
        search=case.search.id,
        candidate=case.candidate.id,
        variant=case.variant,
        challenger=challenger,
        incumbent=incumbent,
        operator=case.operator,
        graphs=_graphs(case.search),
        device=case.device,
        compiler=case.search.compiler,
        pacer=pacer,
    )


def final_trace_job(case: EvaluationCase, random: Sequence[Shape], purpose: str = FINAL_TRACE) -> TraceJob:
    """Trace a finalist again, at its search's shapes and at random ones, and export the reference at all of them."""
    job = trace_job(case.search, case.operator, case.candidate)
    shapes = (*job.shapes, *random)
    update = {"id": case.final_job(purpose), "shapes": shapes, "references": True, "deadline_s": FINAL_TRACE_S}
    return job.model_copy(update=update)


def final_job(case: EvaluationCase, bundle: Bundle, graphs: tuple[Graph, ...], unreached: str) -> FinalJob:
    """Examine a finalist, by its bundle for the search's shapes and for random ones.

    Args:
        case: The finalist.
        bundle: Its second trace.
        graphs: The reference at every shape of the bundle.
        unreached: Reason why no shape has indices beyond 2^31; empty if one has.
    """
    return FinalJob(
        id=case.final_job(),
        search=case.search.id,
        candidate=case.candidate.id,
        variant=case.variant,
        finalist=case.bundle,
        bundle=bundle,
        operator=case.operator,
        graphs=graphs,
        unreached=unreached,
        device=case.device,
        compiler=case.search.compiler,
        source=case.candidate.source if case.device.kind == "model" else None,
    )


def _graphs(search: SearchRecord) -> tuple[Graph, ...]:
    """Parse a search's reference graphs, once as long as its record is the same."""
    stored, parsed = _PARSED.get(search.id, ((), ()))
    if stored is not search.graphs:
        parsed = tuple(Graph.model_validate(graph) for graph in search.graphs)
        while len(_PARSED) >= PARSED_KEPT:
            del _PARSED[next(iter(_PARSED))]
        _PARSED[search.id] = (search.graphs, parsed)
    return parsed
