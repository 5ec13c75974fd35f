"""Symbolic plans as claims: what differs from a trace anywhere that it was compared is dropped."""

import pytest

from tests.traces import trace_once
from tests.workers.tracer.jobs import ALLOCATE, candidate, in_jail, job, operator, shape
from workers.protocol import Outcome, Shape, TraceReport
from workers.protocol.formula import Formula
from workers.trace_job.symbolic import compare, difference
from workers.tracer.reply import SymbolicReply
from workers.tracer.symbolic import trace_symbolic

RANGES = {"M": [1, 4096], "N": [1, 8192]}
SHAPES = tuple(shape(M=m, N=n) for m in (1, 5, 64) for n in (1, 16, 100, 128, 8192))


def report(source: str, deadline_s: float = 20.0) -> TraceReport:
    return trace_once(job(source, operator(ranges=RANGES), shapes=SHAPES, symbolic={}, deadline_s=deadline_s))


def test_plans_come_back_compared() -> None:
    found = report(candidate())
    assert (found.outcome, found.reason, found.admitted) == (Outcome.CORRECT, "", len(SHAPES))
    assert not found.variants and len(found.symbolic) == 4
    assert all(any(plan.admits(each.dims) for plan in found.symbolic) for each in SHAPES)


LIES = {
    "a grid of its own for symbolic sizes": "blocks = x.shape[0] if isinstance(x.shape[0], int) else 1\n",
    "a way that plain numbers take alone": "blocks = 2 * x.shape[0] if x.shape[0] is 5 else x.shape[0]\n",
    "a count of its calls": "global calls\ncalls += 1\nblocks = x.shape[0] + calls // 16 * 0 + (calls > 15)\n",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_host_code_that_tells_symbols_from_numbers_gains_nothing(lie: str) -> None:
    body = lie + ALLOCATE + "scale_kernel[(blocks,)](x, w, y, x.shape[1], BLOCK=8192)\nreturn y"
    found = report(candidate(body).replace("@triton.jit", "calls = 0\n\n\n@triton.jit"))
    assert (found.outcome, found.symbolic, found.admitted) == (Outcome.CORRECT, (), 0)
    assert "the steps of the plan differ" in found.reason


def test_a_failed_trace_says_why() -> None:
    refused = report("from sys import *\n")
    assert (refused.outcome, refused.symbolic) == (Outcome.FORBIDDEN_IMPORT, ())
    endless = report(candidate("while True:\n    pass"), deadline_s=1.0)
    assert endless.outcome is Outcome.TRACE_TIMEOUT


def _reply() -> SymbolicReply:
    asked = job(candidate(), operator(ranges=RANGES), shapes=SHAPES, symbolic={})
    return SymbolicReply.model_validate_json(in_jail(trace_symbolic, asked.model_dump_json().encode()))


def test_each_changed_formula_is_noticed_and_each_forged_reply_refused() -> None:
    honest = _reply()
    asked = job(candidate(), operator(ranges=RANGES), shapes=SHAPES, symbolic={})
    assert len(compare(honest, asked).plans) == 4
    plan = next(plan for plan in honest.plans if plan.admits({"M": 5, "N": 100}))
    instance = next(each for each in honest.instances if each.shape.dims == {"M": 5, "N": 100})
    assert difference(plan, instance) == ""
    more = Formula("+", ("M", 1))
    launch = plan.launches[0]
    for changes, reason in (
        ({"buffers": (*plan.buffers[:2], plan.buffers[2].model_copy(update={"bytes": 1 << 20}))}, "the buffers of"),
        ({"steps": (plan.steps[0], launch.model_copy(update={"grid": (more, 1, 1)}))}, "the steps of the plan"),
        ({"steps": (plan.steps[0], launch.model_copy(update={"constants": {"BLOCK": 64}}))}, "the steps of the plan"),
        ({"steps": plan.steps[:1]}, "the steps are others"),
        ({"outputs": (plan.outputs[0].model_copy(update={"offset_bytes": 4}),)}, "beyond its end"),
        ({"outputs": (plan.outputs[0].model_copy(update={"strides": (1, "M")}),)}, "the outputs of"),
    ):
        assert reason in difference(plan.model_copy(update=changes), instance)
    with pytest.raises(ValueError, match="not those of the job's shapes"):
        compare(honest.model_copy(update={"instances": honest.instances[1:]}), asked)


def test_a_plan_that_nothing_was_compared_with_does_not_stand() -> None:
    honest = _reply()
    few = (Shape(dims={"M": 5, "N": 100}),)
    asked = job(candidate(), operator(ranges=RANGES), shapes=few, symbolic={})
    kept = tuple(each for each in honest.instances if each.shape.dims == few[0].dims)
    found = compare(honest.model_copy(update={"instances": kept}), asked)
    assert len(found.plans) == 1 and found.admitted == 1
