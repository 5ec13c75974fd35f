"""Verification of exported modules: each is traced, compared with its plans, and judged, function by function.

A module's functions are other code than the candidate's, and some of their kernels are compiled with fewer assumptions.
So each function gets a verdict of its own at shapes that it serves; one without a verdict is left out.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from service.certificates.document import Certificate
from service.errors import ServiceError, Unavailable
from service.evaluation.executor_client import COMMAND, LocalExecutor
from service.export.extraction import NotExtractable
from service.export.modules import ExportedModule, write_module
from service.export.sampling import SampledShapes
from service.export.variants import ExportedFunction, choose_functions, divisible, exact_functions, variable
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Bundle,
    Device,
    Graph,
    MeasureJob,
    Outcome,
    Plan,
    Report,
    Shape,
    ShapeRole,
    SymbolicPlan,
    TraceJob,
    TraceReport,
)
from workers.protocol.formula import evaluate

HERE = "export"
"""Placeholder for ids of search and job."""
EAGER = "eager"
"""Name of PyTorch without a compiler among the baselines."""
TOOLS = ("torch", "triton", "ptxas")
"""Tools whose versions decide the machine code."""
DEADLINE_S = 300.0
"""Deadline in seconds of a trace of a module: compiling 64 kernels takes about one minute."""
PARTS = 8
"""Number of parts that functions are tried in where they do not compile together: few functions fail as a rule, and
each trial compiles all of its part."""


@dataclass(frozen=True)
class JudgedFunction:
    """Verdict on one function of a module.

    Attributes:
        function: The function.
        shapes: Keys of the shapes at which it was judged.
        kernels: SHA-256 of the machine code of its kernels.
        report: The report; `device` says what judged it.
    """

    function: ExportedFunction
    shapes: tuple[str, ...]
    kernels: tuple[str, ...]
    report: Report


@dataclass(frozen=True)
class VerifiedModule:
    """Module whose functions were all found correct.

    Attributes:
        module: The module.
        verdicts: Verdict on each function, in their order.
        times: Time in microseconds at each spread shape that it serves, by key.
        pytorch: Time of the eager reference at those shapes, as far as it was measured.
        wrong: Keys of shapes at which functions were judged that were not found correct.
        remarks: Reasons why functions or symbolic plans were left out.
    """

    module: ExportedModule
    verdicts: tuple[JudgedFunction, ...]
    times: Mapping[str, float] = field(default_factory=dict)
    pytorch: Mapping[str, float] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class ExportVerifier:
    """Executors that trace and judge exported modules. Use as an async context.

    Modules for a card are judged on it if this machine has it. Otherwise the interpreter judges them at small shapes,
    as on a `model` device, and nothing is timed.
    """

    def __init__(self, device: Device, *, command: Sequence[str] = COMMAND) -> None:
        """Prepare without starting an executor.

        Args:
            device: Device of the elites.
            command: Command that starts an executor, without its options.
        """
        self._wanted, self._command = device, command
        self.device = device
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._wanted.measures:
            card = await self._resources.enter_async_context(
                LocalExecutor("measure", device=self._wanted, command=self._command)
            )
            try:
                await card.ready()
            except Unavailable:
                self.device = Device.parse(f"model:{self._wanted.target}")
            else:
                self.measurer = card
                self.tracer = await self._resources.enter_async_context(LocalExecutor("trace", command=self._command))
                return self
        both = LocalExecutor("both", device=self.device, command=self._command)
        self.tracer = self.measurer = await self._resources.enter_async_context(both)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._resources.aclose()

    async def verified(self, certificate: Certificate, sampled: SampledShapes) -> VerifiedModule:
        """Write an elite's module, and judge all of its functions.

        Raises:
            NotExtractable: If it cannot be written, its plans differ, or no function is correct.
            ServiceError: If an executor failed.
        """
        functions, remarks = await self._functions(certificate, sampled)
        module, traced = await self._traced(certificate, functions, sampled, remarks)
        found = [await self._judged(module, at, traced) for at in range(len(module.functions))]
        verdicts = [each for each in found if each is not None]
        kept = [each for each in verdicts if each.report.outcome is Outcome.CORRECT]
        failed = [each for each in verdicts if each not in kept]
        remarks += [f"function plan_{at} serves none of the shapes that were tried" for at in _missing(found)]
        remarks += [
            f"{each.report.outcome.value} at {each.shapes[0]} and the like: {each.report.reason}" for each in failed
        ]
        if not kept:
            raise NotExtractable(f"none of its functions was found correct: {'; '.join(remarks)}")
        if len(kept) < len(found):
            module = write_module(certificate, [each.function for each in kept])
            reason = await self.retrace(module, sampled)
            if reason:
                raise NotExtractable(reason)
        times, pytorch = await self._timed(module, traced)
        wrong = tuple(key for each in failed for key in each.shapes)
        return VerifiedModule(module, tuple(kept), times, pytorch, wrong, tuple(remarks))

    async def retrace(self, module: ExportedModule, sampled: SampledShapes) -> str:
        """Trace a module again, and compare its plans and machine code with what its functions say.

        Returns:
            The reason why they differ; empty if they are equal.

        Raises:
            ServiceError: If the executor failed.
        """
        report = await self.tracer.run(self._trace_job(module, self._shapes(module, sampled)), TraceReport)
        bundle = next((each.bundle for each in report.variants if each.bundle is not None), None)
        if bundle is None:
            return f"its exported module does not trace: {report.outcome.value}: {report.reason}"
        return difference(module, bundle, report)

    async def _functions(
        self, certificate: Certificate, sampled: SampledShapes
    ) -> tuple[list[ExportedFunction], list[str]]:
        """Trace an elite's host code symbolically. Judged shapes that are left get functions of their own."""
        job = TraceJob(
            id=HERE,
            search=HERE,
            operator=certificate.operator,
            shapes=sampled.all,
            target=certificate.device.target,
            source=certificate.source,
            symbolic=certificate.configuration,
            deadline_s=DEADLINE_S,
        )
        report = await self.tracer.run(job, TraceReport)
        chosen = choose_functions(report.symbolic, [shape.dims for shape in sampled.all])
        remarks = [] if report.outcome is Outcome.CORRECT and not report.reason else [_said(report)]
        unserved = [
            plan
            for plan in certificate.bundle.plans
            if not any(function.admits(plan.shape.dims) for function in chosen)
            and not certificate.operator.is_empty(plan.shape.dims)
        ]
        return [*chosen, *exact_functions(unserved)], remarks

    async def _traced(
        self,
        certificate: Certificate,
        functions: Sequence[ExportedFunction],
        sampled: SampledShapes,
        remarks: list[str],
    ) -> tuple[ExportedModule, TraceReport]:
        """Compile all functions that compile. Those that fail together are tried in parts."""
        module = write_module(certificate, functions)
        report = await self.tracer.run(self._trace_job(module, self._shapes(module, sampled)), TraceReport)
        bundle = next((each.bundle for each in report.variants if each.bundle is not None), None)
        if bundle is not None:
            reason = difference(module, bundle, report)
            if reason:
                raise NotExtractable(reason)
            return module, report
        if report.outcome is not Outcome.COMPILE_ERROR:
            raise NotExtractable(f"its exported module does not trace: {_said(report)}")
        compiled = await self._compiled(certificate, functions, sampled, remarks, _said(report))
        if not compiled:
            raise NotExtractable(f"none of its functions compiles: {_said(report)}")
        return await self._traced(certificate, compiled, sampled, remarks)

    async def _compiled(
        self,
        certificate: Certificate,
        functions: Sequence[ExportedFunction],
        sampled: SampledShapes,
        remarks: list[str],
        reason: str,
    ) -> list[ExportedFunction]:
        """Return the functions that compile, of some that failed to do so together."""
        if len(functions) == 1:
            remarks.append(f"some shapes are computed by PyTorch: {reason}")
            return []
        size = -(-len(functions) // PARTS)
        found: list[ExportedFunction] = []
        for part in (functions[at : at + size] for at in range(0, len(functions), size)):
            module = write_module(certificate, part)
            report = await self.tracer.run(self._trace_job(module, self._shapes(module, sampled)), TraceReport)
            if any(variant.bundle is not None for variant in report.variants):
                found += part
            else:
                found += await self._compiled(certificate, part, sampled, remarks, _said(report))
        return found

    def _shapes(self, module: ExportedModule, sampled: SampledShapes) -> tuple[Shape, ...]:
        """Choose shapes for each function: the spread ones that it serves, and its smallest, middle and largest.

        Each function has a benchmark shape among them, because reports tell times of those.
        """
        operator = module.certificate.operator
        served: dict[int, list[Shape]] = {}
        for shape in sampled.all:
            at = module.function_for(shape.dims)
            if at is not None:
                served.setdefault(at, []).append(shape)
        found: dict[str, Shape] = {}
        for shapes in served.values():
            ranked = sorted(shapes, key=lambda shape: operator.input_bytes(shape.dims))
            picked = {shape.key: shape for shape in (ranked[0], ranked[len(ranked) // 2], ranked[-1])}
            spread = {shape.key: shape for shape in ranked if shape.key in sampled.spread}
            timed = spread or {ranked[-1].key: ranked[-1]}
            for key, shape in {**picked, **timed}.items():
                role = ShapeRole.BENCHMARK if key in timed else ShapeRole.RANDOM
                found[key] = Shape(dims=shape.dims, role=role)
        return tuple(sorted(found.values(), key=lambda shape: operator.input_bytes(shape.dims)))

    def _trace_job(self, module: ExportedModule, shapes: tuple[Shape, ...]) -> TraceJob:
        return TraceJob(
            id=HERE,
            search=HERE,
            operator=module.certificate.operator,
            shapes=shapes,
            target=module.certificate.device.target,
            source=module.text,
            deadline_s=DEADLINE_S,
            references=True,
        )

    async def _judged(self, module: ExportedModule, at: int, traced: TraceReport) -> JudgedFunction | None:
        """Judge one function at its shapes. Returns None if it serves none of them."""
        bundle = _bundle(traced)
        plans = [plan for plan in bundle.plans if module.function_for(plan.shape.dims) == at]
        if not plans:
            return None
        # Predicting times would execute the large plans as well; a card has to time what it judges.
        judged = plans if self.device.measures else [_untimed(plan) for plan in plans]
        report = await self._measure(module, bundle.restricted(judged), traced.graphs, related=False)
        kernels = tuple(sorted({bundle.cubins[launch.kernel] for plan in plans for launch in plan.launches}))
        return JudgedFunction(module.functions[at], tuple(plan.shape.key for plan in plans), kernels, report)

    async def _timed(
        self, module: ExportedModule, traced: TraceReport
    ) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Time all functions at the spread shapes, on a card beside the eager reference: a package has nothing else."""
        bundle = _bundle(traced)
        served = [plan for plan in bundle.plans if module.function_for(plan.shape.dims) is not None]
        # All were judged. A prediction needs one executed plan, the smallest, which comes first.
        plans = served[:1] + [plan for plan in served[1:] if plan.shape.role is ShapeRole.BENCHMARK]
        report = await self._measure(module, bundle.restricted(plans), traced.graphs, related=True)
        found = {result.shape: result for result in report.shapes}
        times = {key: result.mid_us for key, result in found.items() if result.mid_us is not None}
        eager = {key: result.baselines_us.get(EAGER) for key, result in found.items()}
        return times, {key: time_us for key, time_us in eager.items() if time_us is not None}

    async def _measure(
        self, module: ExportedModule, bundle: Bundle, graphs: Sequence[Graph], *, related: bool
    ) -> Report:
        measures = self.device.measures
        keys = {plan.shape.key for plan in bundle.plans}
        operator = module.certificate.operator
        if operator.has_baselines:  # Compilers of PyTorch would take a minute per shape, and no package calls them.
            operator = operator.model_copy(update={"baselines": ()})
        job = MeasureJob(
            id=HERE,
            search=HERE,
            candidate=HERE,
            variant=0,
            bundle=bundle,
            operator=operator,
            graphs=tuple(graph for graph in graphs if graph.shape.key in keys),
            device=self.device,
            source=None if measures else module.text,
            related=related,
            waits_for_baselines=related,
        )
        return await self.measurer.run(
            job.model_copy(update={"deadline_s": MEASURED_DEADLINE_S}) if measures else job, Report
        )


def _missing(found: Sequence[JudgedFunction | None]) -> list[int]:
    return [at for at, each in enumerate(found) if each is None]


def _untimed(plan: Plan) -> Plan:
    return plan.model_copy(update={"shape": Shape(dims=plan.shape.dims, role=ShapeRole.RANDOM)})


def _bundle(traced: TraceReport) -> Bundle:
    bundle = next((each.bundle for each in traced.variants if each.bundle is not None), None)
    if bundle is None:
        raise ServiceError("a module that was traced has no plans")
    return bundle


def difference(module: ExportedModule, bundle: Bundle, report: TraceReport) -> str:
    """Compare a module's plans with those that its functions describe, and with the judged ones.

    A function that Triton specialises as it did in the search must give the judged machine code at a judged shape.

    Returns:
        The reason why they differ; empty if they are equal.
    """
    certificate = module.certificate
    judged = {plan.shape.key: plan for plan in certificate.bundle.plans}
    unlike: list[str] = []
    for plan in bundle.plans:
        at = module.function_for(plan.shape.dims)
        if at is None or not _describes(module.functions[at], plan):
            unlike.append(plan.shape.key)
            continue
        known = judged.get(plan.shape.key)
        if known is not None and specialises_fully(module.functions[at], plan.shape.dims):
            relabelled = plan.model_copy(update={"shape": known.shape})
            alike = bundle.model_copy(update={"plans": (relabelled,)}).restricted([relabelled]).identity
            if alike != certificate.bundle.restricted([known]).identity:
                unlike.append(plan.shape.key)
    if not unlike:
        return ""
    others = {name: report.versions.get(name) for name, then in certificate.verdict.versions.items() if name in TOOLS}
    then = {name: version for name, version in certificate.verdict.versions.items() if name in TOOLS}
    tools = "" if others == then else f"; judged with {_versions(then)}, traced here with {_versions(others)}"
    return f"the plan of its exported module differs from the judged one at {', '.join(unlike)}{tools}"


def specialises_fully(function: ExportedFunction, sizes: Mapping[str, int]) -> bool:
    """Return True if Triton may assume of a function's arguments all that holds at some sizes."""
    if function.own:
        return True
    ones = any(evaluate(term, sizes) == 1 for term in variable(function.plan).values())
    return not ones and function.assumed == divisible(function.plan, sizes)


def _describes(function: ExportedFunction, traced: Plan) -> bool:
    """Return True if a function's plan for a shape is the traced one, field by field."""
    launches = iter(function.plan.launches)
    steps = []
    for step in traced.steps:
        if step.op == "launch":
            like = next(launches, None)
            if like is None or step.function != function.launched(like):
                return False
            step = step.model_copy(update={"function": like.function, "line": like.line})
        steps.append(step)
    renamed = traced.model_copy(update={"steps": tuple(steps)})
    return not mismatch(function.plan, renamed)


def mismatch(symbolic: SymbolicPlan, traced: Plan) -> str:
    """Return the reason why a symbolic plan does not describe a traced one; empty if it does."""
    try:
        return "" if symbolic.at(traced.shape) == symbolic.likened(traced) else "its fields differ"
    except ValueError as error:
        return str(error)


def _said(report: TraceReport) -> str:
    return f"{report.outcome.value}: {report.reason}" if report.outcome is not Outcome.CORRECT else report.reason


def _versions(versions: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
