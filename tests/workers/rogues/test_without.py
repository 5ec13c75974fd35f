"""A judge without the check that stops a rogue lets it through: so it is that check that stops it, and it is needed."""

from dataclasses import replace
from functools import cache, partial
from math import prod
from pathlib import Path

import pytest

from tests.gpu.contracts import operators, shapes_of
from tests.gpu.judging import trace_job
from tests.gpu.rogues import load_rogues
from tests.traces import trace_once
from tests.workers.rogues import without
from tests.workers.rogues.modelled import DEVICE, model_job
from tests.workers.test_trace_job import EXPECTED
from tests.workers.tracer.jobs import job
from workers import tracer, trace_job as workers_trace_job
from workers.assembler import MachineCode, assemble_kernel
from workers.assembler.ptx.lint import RULES
from workers.assembler.ptx.ptxas import assemble_ptx
from workers.checks import CHECKS
from workers.devices import ModelDevice
from workers.protocol import Graph, Kernel, MeasureJob, Operator, Outcome, Report, Shape, TraceReport
from workers.targets import TARGETS
from workers.tracer.source import ALLOWED_IMPORTS
from workers.trace_job.claims import CLAIMS

HOST = Path(__file__).parent / "host"
FEW = 4
"""The smallest shapes of an operator, on which rogues of the device are judged here."""
DRAWN_AGAIN = 12
"""Times that content is drawn: at shapes so few and small one check by itself misses some rogues once in three."""


def traced(name: str, **how: object) -> TraceReport:
    asked = job((HOST / f"{name}.py").read_text())
    return workers_trace_job.trace(asked, "tester", **how) if how else trace_once(asked)


def refused(name: str, report: TraceReport) -> bool:
    outcome, _, said = EXPECTED[name]
    return report.outcome is outcome and said in report.reason


@pytest.mark.parametrize("name", without.CLAIMS)
def test_without_the_claim_it_is_accepted(name: str) -> None:
    others = {key: claim for key, claim in CLAIMS.items() if key != without.CLAIMS[name]}
    assert len(others) == len(CLAIMS) - 1
    assert traced(name, judging=workers_trace_job.TraceJudging(others)).outcome is Outcome.CORRECT
    assert refused(name, traced(name, judging=workers_trace_job.TraceJudging(CLAIMS)))


@pytest.mark.parametrize("name", without.RULES)
def test_without_the_rule_it_is_accepted(name: str) -> None:
    others = {key: rule for key, rule in RULES.items() if key != without.RULES[name]}
    assert len(others) == len(RULES) - 1
    lenient = workers_trace_job.TraceJudging(CLAIMS, partial(assemble_ptx, target=TARGETS["sm_90"], rules=others))
    assert traced(name, judging=lenient).outcome is Outcome.CORRECT
    assert refused(name, traced(name, judging=workers_trace_job.TraceJudging(CLAIMS, partial(assemble_ptx, target=TARGETS["sm_90"]))))


@pytest.mark.parametrize("name", sorted(without.TYPES))
def test_without_a_look_at_what_is_multiplied_it_is_accepted(name: str) -> None:
    def assembler(kernel: Kernel) -> MachineCode:
        code = assemble_kernel(kernel)
        return replace(code, mix=replace(code.mix, sums=frozenset(), factors=frozenset()))

    assert traced(name, judging=workers_trace_job.TraceJudging(CLAIMS, assembler)).outcome is Outcome.CORRECT
    assert refused(name, traced(name))


@pytest.mark.parametrize("name", without.IMPORTS)
def test_without_the_list_of_imports_the_jail_is_left(name: str) -> None:
    allowed = (*ALLOWED_IMPORTS, without.IMPORTS[name])
    report = traced(name, tracer_function=partial(tracer.trace, allowed_imports=allowed))
    assert report.outcome is Outcome.CORRECT, report.reason
    assert refused(name, traced(name))


def test_claims_that_the_types_of_plans_bound_already_are_a_second_line() -> None:
    for name in ("claims_too_much_memory", "uses_before_allocating"):
        report = traced(name, judging=workers_trace_job.TraceJudging({}, workers_trace_job.JUDGING.assembler))
        assert refused(name, report), report.reason


@cache
def measured(name: str) -> MeasureJob:
    """A rogue of the device with its plans for a few small shapes."""
    rogue = load_rogues()[name]
    operator = operators()[rogue.operator]
    count = without.SHAPES.get(name, FEW)
    asked = trace_job(name, rogue.operator, rogue.source).model_copy(update={"shapes": smallest(operator, count)})
    report = trace_once(asked)
    return model_job(operator, rogue.source, report, graphs(rogue.operator, count))


def smallest(operator: Operator, count: int) -> tuple[Shape, ...]:
    return tuple(sorted(shapes_of(operator), key=lambda shape: prod(shape.dims.values()))[:count])


@cache
def graphs(name: str, count: int) -> tuple[Graph, ...]:
    few = smallest(operators()[name], count)
    return trace_once(trace_job(name, name, None).model_copy(update={"shapes": few})).graphs


def judged(name: str, left_out: set[str]) -> Report:
    checks = {key: check for key, check in CHECKS.items() if key not in left_out}
    return ModelDevice(DEVICE, "tester", checks=checks).measure(measured(name))


def check_lines(name: str, lines: set[str]) -> None:
    """Without all of the lines it passes, and each of them alone stops it, unless the draw is lucky."""
    report = judged(name, lines)
    assert report.outcome is Outcome.CORRECT, report.reason
    for line in lines:
        reports = (judged(name, lines - {line}) for _ in range(DRAWN_AGAIN))
        stopped = next(report for report in reports if report.outcome is not Outcome.CORRECT)
        assert [check.name for check in stopped.checks if check.verdict == "failed"] == [line]


@pytest.mark.parametrize("name", without.CHECKS)
def test_without_the_checks_it_is_accepted(name: str) -> None:
    check_lines(name, without.CHECKS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", without.MORE_CHECKS)
def test_without_more_checks_it_is_accepted(name: str) -> None:
    check_lines(name, without.MORE_CHECKS[name])
