"""A trace job to a trace report: run the tracer in the sandbox, check its claims against the spec, assemble, read.

Trusted code of the warm executor process. Every reply of the sandbox is hostile data.
"""

import platform
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Annotated

from pydantic import Field, ValidationError

from workers import inductor_seeds, sandbox, tracer
from workers.assembler import Assembler, assemble, toolchain_of
from workers.errors import ToolMissing
from workers.protocol import Bundle, Graph, Outcome, Stage, TracedVariant, TraceJob, TraceReport, release_of
from workers.protocol.job import BUSY
from workers.protocol.plan import MAX_PLANS
from workers.sandbox import SandboxEnding, SandboxLimits, SandboxResult
from workers.targets import TARGETS
from workers.trace_job.admission import admission
from workers.trace_job.claims import CLAIMS, Claim, UnfoundedClaim, check_bundle
from workers.trace_job.symbolic import Compared, compare
from workers.trace_job.warmup import warm, warm_assembly, warm_drafts, warm_references
from workers.tracer import reference
from workers.tracer.refusal import SOURCE_NAME, tidy
from workers.tracer.reply import SymbolicReply, TracedPlans, TraceEnded, TraceReply, WrittenSeed
from workers.tracer.symbolic import trace_symbolic

__all__ = ["JUDGING", "TraceJudging", "trace", "warm", "warm_assembly"]

MEMORY_BYTES = 2 * 2**30
"""Maximum memory that a trace adds to the warm process; compiling the largest attention kernels takes under 1 GiB."""
REPLY_BYTES = 64 * 2**20
"""Maximum reply of a trace; 16 variants over 20 shapes with their kernels stay under 8 MiB."""

Trace = Callable[[bytes], bytes]

_TRACEABLE = frozenset(
    {
        Outcome.CORRECT,
        Outcome.SYNTAX_ERROR,
        Outcome.FORBIDDEN_IMPORT,
        Outcome.FORBIDDEN_OP,
        Outcome.HOST_READ,
        Outcome.UNSUPPORTED_LAUNCH,
        Outcome.COMPILE_ERROR,
        Outcome.TRACE_CRASHED,
        Outcome.TRACE_TIMEOUT,
        Outcome.PLAN_REJECTED,
        Outcome.WRONG_OUTPUT_TYPE,
    }
)
# Outcomes that a tracer may claim; other processes observe the rest.
_ENDINGS = {
    SandboxEnding.RAISED: Outcome.TRACE_CRASHED,
    SandboxEnding.TIMEOUT: Outcome.TRACE_TIMEOUT,
    SandboxEnding.MEMORY: Outcome.TRACE_MEMORY,
    SandboxEnding.CRASHED: Outcome.TRACE_CRASHED,
    SandboxEnding.FLOODED: Outcome.PLAN_REJECTED,
}


@dataclass(frozen=True)
class TraceJudging:
    """Rules that the reply of a trace is checked against. Only tests remove any of them.

    Attributes:
        claims: Checks of a plan against the job.
        assembler: Lints and assembles a kernel; None for all of a bundle in one sandbox, with its ptxas.
    """

    claims: Mapping[str, Claim]
    assembler: Assembler | None = None


JUDGING = TraceJudging(CLAIMS)


class _Export(TraceEnded):
    """Reply of `reference.export`."""

    graphs: Annotated[tuple[Graph, ...], Field(max_length=MAX_PLANS)] = ()


def trace(
    job: TraceJob, worker: str, tracer_function: Trace = tracer.trace, judging: TraceJudging = JUDGING
) -> TraceReport:
    """Trace a candidate, assemble one that was traced elsewhere, export the operator's reference, or draft from it.

    A candidate is traced with symbolic sizes if the job has `symbolic`.

    Args:
        job: The job; with `references`, the report on a traceable source also has the reference graphs.
        worker: Id of the worker for the report.
        tracer_function: Function that runs in the sandbox for a source.
        judging: Rules for its reply.

    Returns:
        The report. `outcome` is `correct` if a variant is ready to be judged, for a draft, and for reference graphs.
        With reference graphs comes the operator's mutation report, if the job asks for it.

    Raises:
        ToolMissing: If there is no such target.
        SandboxFailed: If the sandbox cannot be set up.
        SandboxUnsafe: If this machine cannot kill a sandbox as a process tree.
    """
    if job.target not in TARGETS:
        raise ToolMissing(f"there is no target '{job.target}'; known: {', '.join(TARGETS)}")
    versions = _versions(job.target)
    if job.compiler is not None and release_of(versions["triton"]) != job.compiler:
        raise ToolMissing(f"the job asks for Triton {job.compiler}, and this worker has {versions['triton']}")
    warm()
    report = TraceReport(
        job=job.id,
        search=job.search,
        candidate=job.candidate,
        worker=worker,
        versions=versions,
        jail=sandbox.probe(),
        outcome=Outcome.CORRECT,
    )
    if job.bundle is not None:
        return _assemble_again(job.bundle, job, report, judging)
    if job.source is not None and job.symbolic is not None:
        warm_references()
        return _read_symbolic(_sandboxed(trace_symbolic, job), job, report)
    result = _sandboxed(_without_source(job) if job.source is None else tracer_function, job)
    if result.ending is not SandboxEnding.RETURNED:
        return _with_end(report, _ended(result), stages_s={"jail": result.wall_s})
    if job.source is None:
        return _read_draft(result, report) if job.drafts else _read_export(result, job, report)
    traced = _read_trace(result, job, report, judging)
    return _with_references(traced, job) if job.references and traced.outcome is Outcome.CORRECT else traced


def _without_source(job: TraceJob) -> Trace:
    if job.drafts:
        warm_drafts()
        return inductor_seeds.draft
    warm_references()
    return reference.export


def _sandboxed(function: Trace, job: TraceJob) -> SandboxResult:
    wall_s, cpu_s = BUSY * job.deadline_s, job.deadline_s
    limits = SandboxLimits(wall_s=wall_s, cpu_s=cpu_s, memory_bytes=MEMORY_BYTES, reply_bytes=REPLY_BYTES)
    return sandbox.run(function, job.model_dump_json().encode(), limits)


def _with_references(traced: TraceReport, job: TraceJob) -> TraceReport:
    """Add the reference at the job's shapes. It was exported before, so a failure now is a failure of the machine."""
    warm_references()
    result = _sandboxed(reference.export, job)
    stages_s = {**traced.stages_s, "references": result.wall_s}
    ended = _ended(result) if result.ending is not SandboxEnding.RETURNED else _exported(result, job)
    if not isinstance(ended, _Export):
        return _with_end(traced, TraceEnded(outcome=Outcome.WORKER_LOST, reason=ended.reason), stages_s=stages_s)
    return traced.model_copy(update={"graphs": ended.graphs, "stages_s": stages_s})


@cache
@cache
def _versions(target: str) -> dict[str, str]:
    return {"python": platform.python_version(), "torch": version("torch"), **toolchain_of(TARGETS[target]).versions}


def _with_end(report: TraceReport, ended: TraceEnded | TracedVariant, **more: object) -> TraceReport:
    update = {"outcome": ended.outcome, "reason": tidy(ended.reason), "stage": ended.stage, "line": ended.line}
    return report.model_copy(update=update | more)


def _ended(result: SandboxResult) -> TraceEnded:
    """Return how a child ended; the first candidate line in its last words is the innermost."""
    where = re.search(rf'File "{re.escape(SOURCE_NAME)}", line (\d{{1,6}})', result.detail)
    frame = re.search(r'File "(?:.*/)?([^"/]+)", line (\d+) in (\S+)', result.detail)
    place = f" in {frame[3]} ({frame[1]}, line {frame[2]})" if frame else ""
    raised = result.ending is SandboxEnding.RAISED
    return TraceEnded(
        outcome=_ENDINGS[result.ending],
        reason=tidy(result.reason if raised else f"the process that traces it {result.reason}{place}"),
        stage=Stage.TRACE,
        line=int(where[1]) if where else None,
    )


def _exported(result: SandboxResult, job: TraceJob) -> TraceEnded:
    """Read the reply of an export: an `_Export` with a graph for every shape, or how it failed."""
    try:
        export = _Export.model_validate_json(result.reply)
    except ValidationError as error:
        return _malformed(error)
    if export.outcome is not Outcome.CORRECT:
        return TraceEnded(outcome=export.outcome, reason=export.reason, stage=export.stage, line=export.line)
    if [graph.shape for graph in export.graphs] != list(job.shapes):
        return _rejected("the reference graphs are not those of the job's shapes")
    return export


def _read_export(result: SandboxResult, job: TraceJob, report: TraceReport) -> TraceReport:
    export = _exported(result, job)
    if not isinstance(export, _Export):
        return _with_end(report, export, stages_s={"trace": result.wall_s})
    stages_s, gate = {"trace": result.wall_s}, None
    if job.mutation_testing:
        started = time.perf_counter()
        gate = admission(job.operator, export.graphs)
        stages_s["gate"] = time.perf_counter() - started
    return _with_end(report, export, graphs=export.graphs, gate=gate, stages_s=stages_s)


def _read_draft(result: SandboxResult, report: TraceReport) -> TraceReport:
    try:
        written = WrittenSeed.model_validate_json(result.reply)
    except ValidationError as error:
        return _with_end(report, _malformed(error))
    if written.outcome is Outcome.CORRECT and not written.source:
        return _with_end(report, _rejected("the draft is empty"))
    return _with_end(report, written, draft=written.source, stages_s={"trace": result.wall_s})


def _read_symbolic(result: SandboxResult, job: TraceJob, report: TraceReport) -> TraceReport:
    stages_s = {"trace": result.wall_s}
    if result.ending is not SandboxEnding.RETURNED:
        return _with_end(report, _ended(result), stages_s=stages_s)
    started = time.perf_counter()
    try:
        reply = SymbolicReply.model_validate_json(result.reply)
        compared = compare(reply, job) if reply.outcome is Outcome.CORRECT else Compared((), 0)
    except ValidationError as error:
        return _with_end(report, _malformed(error), stages_s=stages_s)
    except ValueError as error:
        return _with_end(report, _rejected(str(error)), stages_s=stages_s)
    stages_s["compare"] = time.perf_counter() - started
    if reply.outcome is not Outcome.CORRECT:
        return _with_end(report, reply, stages_s=stages_s)
    told = {"symbolic": compared.plans, "admitted": compared.admitted, "stages_s": stages_s}
    ended = TraceEnded(reason=compared.unlike or reply.failure)
    return _with_end(report, ended, **told)


def _read_trace(result: SandboxResult, job: TraceJob, report: TraceReport, judging: TraceJudging) -> TraceReport:
    try:
        reply = TraceReply.model_validate_json(result.reply)
    except ValidationError as error:
        return _with_end(report, _malformed(error))
    stages_s = _stages(result, reply)
    if not _TRACEABLE.issuperset(item.outcome for item in (reply, *reply.variants)):
        return _with_end(report, _rejected("the trace claims an outcome that a trace cannot have"), stages_s=stages_s)
    if not reply.variants:
        ended = reply if reply.outcome is not Outcome.CORRECT else _rejected("the trace holds no variant")
        return _with_end(report, ended, stages_s=stages_s)
    started = time.perf_counter()
    late = started + job.deadline_s
    variants = tuple(_variant(index, plans, reply, job, late, judging) for index, plans in enumerate(reply.variants))
    stages_s["assemble"] = time.perf_counter() - started
    best = next((variant for variant in variants if variant.outcome is Outcome.CORRECT), variants[0])
    return _with_end(report, best, variants=variants, stages_s=stages_s)


def _stages(result: SandboxResult, reply: TraceReply) -> dict[str, float]:
    """Return seconds by stage. The child's own figures are hostile, so the parent's wall time caps them."""
    compile_s = min(reply.stages_s.get("compile", 0.0), result.wall_s)
    trace_s = min(reply.stages_s.get("trace", 0.0), result.wall_s - compile_s)
    return {"trace": trace_s, "compile": compile_s, "jail": result.wall_s - compile_s - trace_s}


def _variant(
    index: int, plans: TracedPlans, reply: TraceReply, job: TraceJob, late: float, judging: TraceJudging
) -> TracedVariant:
    """Check a variant's claims, assemble its kernels and read its plans, unless the clock is past `late`."""
    if plans.outcome is not Outcome.CORRECT:
        return _failed(index, plans)
    if time.perf_counter() > late:
        reason = f"the variants before it took {job.deadline_s:g} s to assemble; offer fewer configurations"
        return _failed(index, TraceEnded(outcome=Outcome.TRACE_TIMEOUT, reason=reason, stage=Stage.ASSEMBLE))
    try:
        bundle = _bundle(plans, reply, job)
    except ValidationError as error:
        return _failed(index, _malformed(error))
    return _assembled(index, bundle, job, judging)


def _assemble_again(bundle: Bundle, job: TraceJob, report: TraceReport, judging: TraceJudging) -> TraceReport:
    """Report on plans that were traced elsewhere, by the rules for plans traced here."""
    started = time.perf_counter()
    variant = _assembled(0, bundle, job, judging)
    return _with_end(report, variant, variants=(variant,), stages_s={"assemble": time.perf_counter() - started})


def _assembled(index: int, bundle: Bundle, job: TraceJob, judging: TraceJudging) -> TracedVariant:
    """Check a variant's plans against the operator, then lint, assemble and read them."""
    try:
        check_bundle(bundle, job, judging.claims)
    except UnfoundedClaim as error:
        return _failed(index, TraceEnded(outcome=error.outcome, reason=tidy(error.reason), stage=Stage.TRACE))
    assembled = assemble(bundle, job.operator, judging.assembler, job.deadline_s)
    if assembled.outcome is not None:
        ended = TraceEnded(
            outcome=assembled.outcome, reason=tidy(assembled.reason), stage=Stage.ASSEMBLE, line=assembled.line
        )
        return _failed(index, ended)
    return TracedVariant(index=index, outcome=Outcome.CORRECT, bundle=assembled.bundle, readings=assembled.readings)


def _bundle(plans: TracedPlans, reply: TraceReply, job: TraceJob) -> Bundle:
    launched = {launch.kernel for plan in plans.plans for launch in plan.launches}
    return Bundle(
        target=job.target,
        operator=job.operator.digest,
        configuration=plans.configuration,
        kernels={digest: kernel for digest, kernel in reply.kernels.items() if digest in launched},
        plans=plans.plans,
        toolchain=toolchain_of(TARGETS[job.target]),
    )


def _failed(index: int, ended: TraceEnded) -> TracedVariant:
    return TracedVariant(index=index, outcome=ended.outcome, reason=ended.reason, stage=ended.stage, line=ended.line)


def _rejected(reason: str) -> TraceEnded:
    return TraceEnded(outcome=Outcome.PLAN_REJECTED, reason=tidy(reason), stage=Stage.TRACE)


def _malformed(error: ValidationError) -> TraceEnded:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the whole"
    return _rejected(f"the trace returned an invalid plan: {where}: {first['msg'].removeprefix('Value error, ')}")
