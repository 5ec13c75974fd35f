"""The gate in its jail: with every export of a reference, once for each, and no graph can hold the bench up."""

import time

from tests.workers.mutation_testing.references import graphs_of, operator
from tests.workers.tracer.jobs import job
from tests.workers.tracer.jobs import operator as scale
from workers import trace_job
from workers.protocol import Outcome, ShapeRole
from workers.sandbox import SandboxLimits
from workers.trace_job.admission import admission
from workers.trace_job.warmup import warm


def test_a_reference_comes_with_its_gate():
    report = trace_job.trace(job(None), "worker-1")
    assert report.outcome is Outcome.CORRECT and report.graphs
    assert report.gate is not None
    assert (report.gate.verdict, report.gate.kill_rate) == ("passed", 1.0)
    assert set(report.stages_s) == {"trace", "gate"}


def test_a_reference_that_nothing_can_be_judged_by_is_told():
    report = trace_job.trace(job(None, scale(reference="def scale(x, w):\n    return x * w * 0\n")), "worker-1")
    assert report.outcome is Outcome.CORRECT
    assert report.gate is not None and report.gate.verdict == "failed"
    assert "'zeros'" in report.gate.reason


def test_without_graphs_there_is_no_gate():
    report = trace_job.trace(job(None, scale(reference="def scale(x, w):\n    return x.item()\n")), "worker-1")
    assert report.outcome is not Outcome.CORRECT and report.gate is None


def test_a_verdict_is_kept_and_held_out_shapes_do_not_matter():
    warm()
    of = operator("silu")
    (first, second) = graphs_of(of, {"M": 33}, {"M": 5})
    drawn = second.model_copy(update={"shape": second.shape.model_copy(update={"role": ShapeRole.HELD_OUT})})
    gate = admission(of, (first, drawn))
    started = time.perf_counter()
    assert admission(of, (first,)) is gate
    assert time.perf_counter() - started < 0.1
    assert gate.shapes == ("M=33,N=40",)


def test_a_graph_that_asks_for_too_much_memory_stays_untried():
    warm()
    of = operator("zeros")
    (graph,) = graphs_of(of)
    full = graph.nodes[0].model_copy(update={"op": "aten.full.default", "args": ((2**40,), 1.0), "kwargs": {}})
    gate = admission(of, (graph.model_copy(update={"nodes": (full,)}),))
    assert gate.verdict == "untried"
    assert gate.reason == "mutation testing needs more than 2 GiB of memory; let `ranges` start with smaller sizes"


def test_the_reason_of_one_that_takes_too_long_is_its_ending_and_no_stack():
    warm()
    brief = SandboxLimits(wall_s=0.02, memory_bytes=2**31)
    gate = admission(operator("silu"), graphs_of(operator("silu"), {"M": 47}), brief)
    assert gate.verdict == "untried"
    assert gate.reason == "the process that tests the operator's checks did not end within 0.02 s"
