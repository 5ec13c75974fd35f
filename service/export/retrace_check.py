"""Check of an exported module: it is traced like any candidate, and must have the judged plans and machine code."""

from service.evaluation.executor_client import LocalExecutor
from service.export.modules import ExportedModule
from workers.protocol import Bundle, Plan, TraceJob, TraceReport

HERE = "export"
"""Placeholder for ids of search and job."""


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


TOOLS = ("torch", "triton", "ptxas")
"""Tools whose versions decide the machine code."""
DEADLINE_S = 120.0
"""Deadline in seconds of a trace of all shapes of an elite; most take a few seconds."""


def _identity(bundle: Bundle, plan: Plan) -> str:
    return bundle.restricted([plan]).identity


def _said(versions: dict[str, str | None] | dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
