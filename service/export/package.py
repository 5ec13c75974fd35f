"""Export of a search's elites to the files of a package, with every module checked against the judged plans."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelreef.packages import Package
from service.certificates.document import Certificate
from service.errors import InvalidInput
from service.evaluation.executor_client import COMMAND, LocalExecutor
from service.export.extraction import NotExtractable
from service.export.modules import ExportedModule, write_module
from service.export.package_files import PackageParts, render
from service.export.selection import ExportCandidate, choose
from service.operators.sources import digest
from workers.protocol import Bundle, Plan, TraceJob, TraceReport

MAX_REFUSED = 16
"""Number of refused elites after which an export fails; each costs a trace."""
HERE = "export"
"""Placeholder for ids of search and job."""
TOOLS = ("torch", "triton", "ptxas")
"""Tools whose versions decide the machine code."""
DEADLINE_S = 120.0
"""Deadline in seconds of a trace of all shapes of an elite; most take a few seconds."""


@dataclass(frozen=True)
class ExportSource:
    """Elites of one search on one device, and a function that returns an elite's certificate with its source."""

    contenders: Sequence[ExportCandidate]
    certificate: Callable[[ExportCandidate], Awaitable[Certificate]]


async def export(
    forward: ExportSource,
    backward: ExportSource | None = None,
    *,
    name: str | None = None,
    command: Sequence[str] = COMMAND,
) -> Package:
    """Write a package of the elites that are fastest at some shape.

    Args:
        forward: Elites of the search.
        backward: Elites of a search for the same operator with gradients; None for none.
        name: Name of the package; `<operator>_kernels` if None.
        command: Command that starts an executor, without its options.

    Raises:
        InvalidInput: If no elite can be exported, or the searches do not match.
        ServiceError: If an executor failed.
    """
    refusals: list[str] = []
    async with LocalExecutor("trace", command=command) as tracer:
        serving = await _portfolio(forward, tracer, refusals)
        operator = serving[0].certificate.operator
        training = serving if operator.backward else ()
        if backward is not None:
            training = await _portfolio(backward, tracer, refusals)
            _require_same(serving[0].certificate, training[0].certificate)
    named = _named("elite", serving)
    trained = named if training is serving else _named("training", training)
    package = name or f"{operator.name}_kernels"
    files = render(PackageParts(package, {**named, **trained}, tuple(named), tuple(trained), tuple(refusals)))
    return Package(package, files, _by_shape(serving), _by_shape(training), tuple(refusals))


async def _portfolio(offer: ExportSource, tracer: LocalExecutor, refusals: list[str]) -> Sequence[ExportedModule]:
    """Write the modules of the fastest elites among those that can be exported."""
    left, written = list(offer.contenders), dict[tuple[object, ...], ExportedModule]()
    refused = 0
    while left and refused < MAX_REFUSED:
        best = max(left, key=lambda each: each.objective)
        shapes = [shape.key for shape in (await offer.certificate(best)).shapes]
        chosen = choose(left, shapes)
        winners = [each for each in left if each in chosen.values()]
        for winner in winners:
            served = tuple(shape for shape in shapes if chosen[shape] is winner)
            key = (winner.candidate, winner.variant, served)
            try:
                written[key] = written.get(key) or await _written(await offer.certificate(winner), served, tracer)
            except NotExtractable as refusal:
                refusals.append(f"candidate {winner.candidate}, variant {winner.variant}: {refusal}")
                left.remove(winner)
                refused += 1
                break
        else:
            return [written[winner.candidate, winner.variant, _served(chosen, winner)] for winner in winners]
    reason = f": {'; '.join(refusals)}" if refusals else ""
    raise InvalidInput(f"no elite can be exported{reason}", "SEARCH")


def _served(chosen: Mapping[str, ExportCandidate], winner: ExportCandidate) -> tuple[str, ...]:
    return tuple(shape for shape, who in chosen.items() if who is winner)


async def _written(certificate: Certificate, shapes: Sequence[str], tracer: LocalExecutor) -> ExportedModule:
    """Write a module and check that it does what was judged.

    Raises:
        NotExtractable: If it cannot be written, or its plans differ from the judged ones.
    """
    module = write_module(certificate, shapes)
    reason = await retrace(module, tracer)
    if reason:
        raise NotExtractable(reason)
    return module


async def retrace(module: ExportedModule, tracer: LocalExecutor) -> str:
    """Trace a module in a sandbox, and compare its plans and machine code with those of its certificate.

    Returns:
        The reason why they differ; empty if they are equal.

    Raises:
        ServiceError: If the executor failed.
    """
    certificate = module.certificate
    wanted = {plan.shape.key: plan for plan in certificate.bundle.plans}
    job = TraceJob(
        id=HERE,
        search=HERE,
        operator=certificate.operator,
        shapes=tuple(wanted[key].shape for key in module.shapes),
        target=certificate.device.target,
        source=module.text,
        deadline_s=DEADLINE_S,
    )
    report = await tracer.run(job, TraceReport)
    found = next((each.bundle for each in report.variants if each.bundle is not None), None)
    if found is None:
        return f"its exported module does not trace: {report.outcome.value}: {report.reason}"
    now = {plan.shape.key: plan for plan in found.plans}
    unlike = [key for key in module.shapes if _identity(found, now[key]) != _identity(certificate.bundle, wanted[key])]
    if not unlike:
        return ""
    others = {name: report.versions.get(name) for name, then in certificate.verdict.versions.items() if name in TOOLS}
    then = {name: version for name, version in certificate.verdict.versions.items() if name in TOOLS}
    tools = "" if others == then else f"; judged with {_said(then)}, traced here with {_said(others)}"
    return f"the plan of its exported module differs from the judged one at {', '.join(unlike)}{tools}"


def _identity(bundle: Bundle, plan: Plan) -> str:
    return bundle.restricted([plan]).identity


def _said(versions: dict[str, str | None] | dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _require_same(forward: Certificate, backward: Certificate) -> None:
    """Require that both searches compute the same outputs from the same inputs, for the same device."""
    one, other = forward.operator, backward.operator
    if not other.backward:
        raise InvalidInput(
            f"{other.name} has no gradients: name a search of an operator with backward = true", "--backward"
        )
    same = (
        one.entry == other.entry
        and [(item.name, item.shape, item.dtype) for item in one.inputs]
        == [(item.name, item.shape, item.dtype) for item in other.inputs]
        and [output.dtype for output in one.outputs] == [output.dtype for output in other.outputs]
        and one.scalars == other.scalars
        and digest(one.reference) == digest(other.reference)
    )
    if not same:
        raise InvalidInput(
            f"{other.name} is not {one.name} with gradients: entry, inputs or reference differ", "--backward"
        )
    if forward.device != backward.device:
        raise InvalidInput(f"its device is {backward.device.name}, not {forward.device.name}", "--backward")


def _named(kind: str, modules: Sequence[ExportedModule]) -> dict[str, ExportedModule]:
    return {f"{kind}_{at}": module for at, module in enumerate(modules)}


def _by_shape(modules: Sequence[ExportedModule]) -> dict[str, str]:
    return {shape: module.certificate.origin.candidate for module in modules for shape in module.shapes}
