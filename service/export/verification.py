"""Verification of exported modules: each is traced, compared with its plans, and judged, function by function.

A module's functions are other code than the candidate's, and some of their kernels are compiled with fewer assumptions.
So each function gets a verdict of its own at shapes that it serves; one without a verdict is left out.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic

from service.certificates.document import Certificate
from service.errors import ServiceError, Unavailable
from service.export.executors import ExportExecutors
from service.export.extraction import NotExtractable
from service.export.modules import ExportedModule, write_module
from service.export.sampling import SampledShapes
from service.export.variants import ExportedFunction, choose_functions, divisible, exact_functions, variable
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Bundle,
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
INTERPRETED_OPERATIONS = 2.0**28
"""Maximum operations of the reference at a shape that no search judged, for the interpreter: its work follows them, and
not the bytes of inputs, where many sequences share few pages."""
CARD_OPERATIONS = (inf, 2.0**36, 2.0**34, 2.0**32)
"""The same on a card, one after the other until the card's memory suffices. A reference in float64 that gathers pages
for all sequences takes 30 GB at 2**35 operations; a product of two matrices takes 0.2."""
PARTS = 8
"""Number of parts that functions are tried in where they do not compile together: few functions fail as a rule, and
each trial compiles all of its part."""


@dataclass(frozen=True)
class JudgedFunction:
    """Verdict on one function of a module.

    Attributes:
        at: Its index among the functions of the module that was judged.
        function: The function.
        shapes: Keys of the shapes at which it was judged.
        kernels: SHA-256 of the machine code of its kernels.
        report: The report, which may be on other functions, too; `device` says what judged it.
        further: Reports at shapes that were tried later, because the choice there was unsure.
    """

    at: int
    function: ExportedFunction
    shapes: tuple[str, ...]
    kernels: tuple[str, ...]
    report: Report
    further: tuple[Report, ...] = ()

    def extended(self, other: "JudgedFunction") -> "JudgedFunction":
        """Return this verdict with that on the same function at further shapes."""
        return replace(
            self,
            shapes=(*self.shapes, *other.shapes),
            kernels=tuple(sorted({*self.kernels, *other.kernels})),
            further=(*self.further, other.report),
        )


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
        stages_s: Seconds by stage: `symbolic`, `compile`, `open` (waiting for the card), `judge`, `time`, and `further`
            for shapes that were tried later.
    """

    module: ExportedModule
    verdicts: tuple[JudgedFunction, ...]
    times: Mapping[str, float] = field(default_factory=dict)
    pytorch: Mapping[str, float] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    stages_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def kernels(self) -> frozenset[str]:
        """SHA-256 of the machine code of all kernels."""
        return frozenset(kernel for each in self.verdicts for kernel in each.kernels)


@dataclass(frozen=True)
class _Judgement:
    """Verdicts on the functions that served a shape, and the report with their times if all were correct on a card."""

    verdicts: list[JudgedFunction]
    timed: Report | None


class ExportVerifier:
    """Verification of exported modules by the executors of an export. Modules may be verified concurrently."""

    def __init__(self, executors: ExportExecutors) -> None:
        """Use some executors, which are started."""
        self._executors = executors

    async def verified(self, certificate: Certificate, sampled: SampledShapes) -> VerifiedModule:
        """Write an elite's module, and judge all of its functions.

        Raises:
            NotExtractable: If it cannot be written, its plans differ, or no function is correct.
            ServiceError: If an executor failed.
        """
        clock = _Clock()
        functions, remarks = await self._functions(certificate, sampled)
        clock.lap("symbolic")
        module, traced = await self._traced(certificate, functions, sampled, remarks)
        clock.lap("compile")
        measures = (await self._executors.judging()).measures
        clock.lap("open")
        together = await (self._judged_on_card(module, traced) if measures else self._interpreted(module, traced))
        clock.lap("judge")
        kept = [each for each in together.verdicts if each.report.outcome is Outcome.CORRECT]
        failed = [each for each in together.verdicts if each not in kept]
        judged = {each.at for each in together.verdicts}
        idle = [at for at in range(len(module.functions)) if at not in judged]
        remarks += [f"function plan_{at} serves none of the shapes that were tried" for at in idle]
        remarks += [
            f"{each.report.outcome.value} at {each.shapes[0]} and the like: {each.report.reason}" for each in failed
        ]
        if not kept:
            raise NotExtractable(f"none of its functions was found correct: {'; '.join(remarks)}")
        if len(kept) < len(module.functions):
            module = write_module(certificate, [each.function for each in kept])
            reason = await self.retrace(module, sampled)
            if reason:
                raise NotExtractable(reason)
        timed = together.timed or await self._timed(module, traced)
        clock.lap("time")
        wrong = tuple(key for each in failed for key in each.shapes)
        return VerifiedModule(module, tuple(kept), *times_of(timed), wrong, tuple(remarks), clock.stages_s)

    async def extended(self, found: VerifiedModule, sampled: SampledShapes, more: Collection[str]) -> VerifiedModule:
        """Judge and time a verified module at further shapes on a card.

        Args:
            found: The module.
            sampled: All shapes, with the further ones.
            more: Keys of the further ones.

        Raises:
            NotExtractable: If no function is correct at all shapes.
            ServiceError: If an executor failed.
        """
        clock = _Clock()
        served = [each for each in sampled.all if each.key in more and found.module.function_for(each.dims) is not None]
        if not served:
            return found
        shapes = tuple(shape.model_copy(update={"role": ShapeRole.BENCHMARK}) for shape in served)
        traced = await self._executors.trace(_trace_job(found.module, shapes))
        bundle = next((each.bundle for each in traced.variants if each.bundle is not None), None)
        told = None
        if bundle is not None and not difference(found.module, bundle, traced):
            told = await self._judged_on_card(found.module, traced)
        if told is None or told.timed is None:
            return await self.verified(found.module.certificate, sampled)  # Leaves out the functions that failed here.
        clock.lap("further")
        fresh = {found.module.functions.index(each.function): each for each in told.verdicts}
        verdicts = tuple(each.extended(fresh[at]) if at in fresh else each for at, each in enumerate(found.verdicts))
        times, pytorch = times_of(told.timed)
        spent_s = clock.stages_s["further"] + found.stages_s.get("further", 0.0)
        return replace(
            found,
            verdicts=verdicts,
            times={**found.times, **times},
            pytorch={**found.pytorch, **pytorch},
            stages_s={**found.stages_s, "further": round(spent_s, 2)},
        )

    async def retrace(self, module: ExportedModule, sampled: SampledShapes) -> str:
        """Trace a module again, and compare its plans and machine code with what its functions say.

        Returns:
            The reason why they differ; empty if they are equal.

        Raises:
            ServiceError: If the executor failed.
        """
        report = await self._executors.trace(_trace_job(module, _shapes(module, sampled)))
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
        report = await self._executors.trace(job)
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
        report = await self._executors.trace(_trace_job(module, _shapes(module, sampled)))
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
            report = await self._executors.trace(_trace_job(module, _shapes(module, sampled)))
            if any(variant.bundle is not None for variant in report.variants):
                found += part
            else:
                found += await self._compiled(certificate, part, sampled, remarks, _said(report))
        return found

    async def _judged_on_card(self, module: ExportedModule, traced: TraceReport) -> _Judgement:
        """Judge all functions on a card in one job, which also times them at the spread shapes.

        A job that fails names one failure. So its functions are then judged by halves.
        """
        first: Unavailable | None = None
        for most in CARD_OPERATIONS:
            functions = _functions_tried(module, traced, most)
            if not functions:
                break
            bundle = _bundle_of(functions.values(), traced)
            try:
                report = await self._measure(module, bundle, traced.graphs, related=True)
            except Unavailable as error:
                first = first or error
                continue
            if report.outcome is Outcome.CORRECT:
                found = [_verdict(module, at, plans, traced, report) for at, plans in functions.items()]
                return _Judgement(found, report)
            return _Judgement(await self._by_halves(module, functions, traced, report), None)
        raise first or ServiceError("no shape of the module can be judged")

    async def _by_halves(
        self, module: ExportedModule, functions: Mapping[int, Sequence[Plan]], traced: TraceReport, failed: Report
    ) -> list[JudgedFunction]:
        """Judge functions that failed together."""
        if len(functions) == 1:
            return [_verdict(module, at, plans, traced, failed) for at, plans in functions.items()]
        found: list[JudgedFunction] = []
        order = list(functions)
        for half in (order[: len(order) // 2], order[len(order) // 2 :]):
            part = {at: functions[at] for at in half}
            report = await self._measure(module, _bundle_of(part.values(), traced), traced.graphs, related=False)
            if report.outcome is Outcome.CORRECT:
                found += [_verdict(module, at, plans, traced, report) for at, plans in part.items()]
            else:
                found += await self._by_halves(module, part, traced, report)
        return found

    async def _interpreted(self, module: ExportedModule, traced: TraceReport) -> _Judgement:
        """Judge each function by the interpreter in a job of its own: it executes few plans of a bundle.

        Predicting times would execute the large plans as well.
        """

        async def judged(at: int, plans: Sequence[Plan]) -> JudgedFunction:
            bundle = _bundle_of([[_untimed(plan) for plan in plans]], traced)
            return _verdict(
                module, at, plans, traced, await self._measure(module, bundle, traced.graphs, related=False)
            )

        functions = _functions_tried(module, traced, INTERPRETED_OPERATIONS)
        return _Judgement(list(await asyncio.gather(*(judged(*each) for each in functions.items()))), None)

    async def _timed(self, module: ExportedModule, traced: TraceReport) -> Report:
        """Time all functions at the spread shapes, on a card beside the eager reference: a package has nothing else."""
        most = CARD_OPERATIONS[-1] if self._executors.device.measures else inf
        served = [plan for plans in _functions_tried(module, traced, most).values() for plan in plans]
        # All were judged. A prediction needs one executed plan, the smallest.
        smallest = min(served, key=lambda plan: module.certificate.operator.input_bytes(plan.shape.dims))
        plans = [smallest, *(plan for plan in served if plan.shape.role is ShapeRole.BENCHMARK and plan != smallest)]
        return await self._measure(module, _bundle_of([plans], traced), traced.graphs, related=True)

    async def _measure(
        self, module: ExportedModule, bundle: Bundle, graphs: Sequence[Graph], *, related: bool
    ) -> Report:
        device = await self._executors.judging()
        keys = {plan.shape.key for plan in bundle.plans}
        job = MeasureJob(
            id=HERE,
            search=HERE,
            candidate=HERE,
            variant=0,
            bundle=_with_a_timed_plan(bundle) if device.measures else bundle,
            operator=module.certificate.operator,
            graphs=tuple(graph for graph in graphs if graph.shape.key in keys),
            device=device,
            source=None if device.measures else module.text,
            related=related,
            waits_for_baselines=related,
            eager_alone=True,  # Compilers of PyTorch would take a minute per shape, and no package calls them.
        )
        limit = {"deadline_s": MEASURED_DEADLINE_S} if device.measures else {}
        return await self._executors.measure(job.model_copy(update=limit))


class _Clock:
    """Seconds of each stage of a verification."""

    def __init__(self) -> None:
        self.stages_s: dict[str, float] = {}
        self._since = monotonic()

    def lap(self, stage: str) -> None:
        now = monotonic()
        self.stages_s[stage] = round(now - self._since, 2)
        self._since = now


async def reduced(
    found: VerifiedModule, kept: Collection[int], sampled: SampledShapes, verifier: ExportVerifier
) -> VerifiedModule:
    """Return a verified module with some of its functions, given by index.

    Raises:
        NotExtractable: If its plans differ without the others.
        ServiceError: If an executor failed.
    """
    verdicts = tuple(each for at, each in enumerate(found.verdicts) if at in kept)
    if len(verdicts) == len(found.verdicts):
        return found
    module = write_module(found.module.certificate, [each.function for each in verdicts])
    reason = await verifier.retrace(module, sampled)
    if reason:
        raise NotExtractable(reason)
    served = {shape.key for shape in sampled.all if found.module.function_for(shape.dims) in kept}
    times = {key: time for key, time in found.times.items() if key in served}
    return replace(found, module=module, verdicts=verdicts, times=times)


def _shapes(module: ExportedModule, sampled: SampledShapes) -> tuple[Shape, ...]:
    """Choose shapes for each function: the spread ones that it serves, and its smallest, middle and largest.

    Only the spread ones are timed, as benchmark shapes; the largest is if no function serves a spread one. Those of
    the search come first: a card's controls are made from the first, and times of tiny plans vary too much.
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
        spread = (shape for shape in ranked if shape.key in sampled.spread)
        for shape in (ranked[0], ranked[len(ranked) // 2], ranked[-1], *spread):
            role = ShapeRole.BENCHMARK if shape.key in sampled.spread else ShapeRole.RANDOM
            found[shape.key] = Shape(dims=shape.dims, role=role)
    searched = [Shape(dims=shape.dims).key for shape in operator.shapes]
    ordered = sorted(found.values(), key=lambda each: (each.key not in searched, operator.input_bytes(each.dims)))
    return tuple(_with_a_benchmark(ordered))


def _trace_job(module: ExportedModule, shapes: tuple[Shape, ...]) -> TraceJob:
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


def _functions_tried(module: ExportedModule, traced: TraceReport, most_operations: float) -> dict[int, list[Plan]]:
    """Return the traced plans that each function of a module serves, by the function's index, without heavy ones."""
    searched = {shape.key for shape in module.certificate.shapes}
    work = {graph.shape.key: (graph.matrix_flops or 0.0) + (graph.other_flops or 0.0) for graph in traced.graphs}
    heavy = {key for key, operations in work.items() if operations > most_operations} - searched
    found: dict[int, list[Plan]] = {}
    for plan in _bundle(traced).plans:
        at = module.function_for(plan.shape.dims)
        if at is not None and plan.shape.key not in heavy:
            found.setdefault(at, []).append(plan)
    return dict(sorted(found.items()))


def _bundle_of(parts: Iterable[Sequence[Plan]], traced: TraceReport) -> Bundle:
    return _bundle(traced).restricted([plan for part in parts for plan in part])


def _with_a_timed_plan(bundle: Bundle) -> Bundle:
    """Return a bundle whose first plan is timed if no other is: every measurement on a card times something."""
    if bundle.benchmarks:
        return bundle
    first, *others = bundle.plans
    timed = first.model_copy(update={"shape": Shape(dims=first.shape.dims)})
    return bundle.model_copy(update={"plans": (timed, *others)})


def _verdict(
    module: ExportedModule, at: int, plans: Sequence[Plan], traced: TraceReport, report: Report
) -> JudgedFunction:
    """Return a verdict on one function: of a report on several, what is about its shapes."""
    cubins, keys = _bundle(traced).cubins, tuple(plan.shape.key for plan in plans)
    kernels = tuple(sorted({cubins[launch.kernel] for plan in plans for launch in plan.launches}))
    own = report.model_copy(update={"shapes": tuple(each for each in report.shapes if each.shape in keys)})
    return JudgedFunction(at, module.functions[at], keys, kernels, own)


def times_of(report: Report) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the times at each shape of a report, of the functions and of eager PyTorch, as far as it has them."""
    times = {each.shape: each.mid_us for each in report.shapes if each.mid_us is not None}
    eager = {each.shape: each.baselines_us[EAGER] for each in report.shapes if EAGER in each.baselines_us}
    return times, eager


def _with_a_benchmark(shapes: Sequence[Shape]) -> Iterator[Shape]:
    """Yield shapes, the last one as a benchmark if none is: every trace needs one."""
    timed = any(shape.role is ShapeRole.BENCHMARK for shape in shapes)
    yield from shapes if timed else shapes[:-1]
    if shapes and not timed:
        yield shapes[-1].model_copy(update={"role": ShapeRole.BENCHMARK})


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
    single = frozenset(place for place, term in variable(function.plan).items() if evaluate(term, sizes) == 1)
    return single == function.ones and function.assumed == divisible(function.plan, sizes)


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
