"""What is judged on a card, as far as it can be tried without one."""

from collections import Counter

import pytest

from service.operators.sources import digest
from tests.gpu.benches import Served, answers
from tests.gpu.contracts import operators, shapes_of
from tests.gpu.honest import authored_kernels, honest_kernels
from tests.gpu.judging import measure_job, trace_all, trace_job
from tests.gpu.predicted import assert_accepted, judge_on_model
from workers.protocol import Device, ExecutorFailure, ShapeRole


def test_there_are_many_honest_kernels_of_every_operator_and_no_two_are_alike():
    kernels = honest_kernels()
    assert len(kernels) >= 180
    assert len({digest(kernel.source) for kernel in kernels.values()}) == len(kernels)
    assert set(Counter(kernel.operator for kernel in kernels.values())) == set(operators())
    assert {name.split("/")[1] for name in kernels} - {"liger"} == {"seed", "hand", "rewrite", "tune"}
    assert {name: kernels[name] for name in QUICK} == QUICK


def test_honest_kernels_are_the_same_every_time():
    before = dict(honest_kernels())
    honest_kernels.cache_clear()
    assert honest_kernels() == before


def test_shapes_are_the_same_every_time_and_of_every_role():
    for operator in operators().values():
        assert shapes_of(operator) == shapes_of(operator)
        assert {shape.role for shape in shapes_of(operator)} == set(ShapeRole) - {ShapeRole.RANDOM}


def test_a_bench_that_is_lost_is_a_failure_and_is_replaced():
    with Served(("false",)) as bench:
        job = trace_job("gelu", "gelu", None)
        first, second = bench.ask(job), bench.ask(job)
    assert isinstance(first, ExecutorFailure) and isinstance(second, ExecutorFailure)
    assert "ExecutorDied" in first.error


def test_several_benches_answer_by_name():
    jobs = {name: trace_job(name, "gelu", source) for name, source in (("none", None), ("broken", "def gelu(:"))}
    found = dict(answers(jobs, processes=2))
    assert {name: answer.outcome for name, answer in found.items()} == {"none": "correct", "broken": "syntax_error"}


def test_a_job_names_a_pacer_only_where_times_are_measured():
    kernels = [honest_kernels()["gelu/seed"], honest_kernels()["gelu/rewrite/backward"]]
    traces = trace_all(kernels, processes=2)
    assert traces.failures == {} and traces.knows("gelu") and not traces.knows("rope")
    card, model = Device.parse("h200"), Device.parse("model:sm_90")
    seed, other = (next(traces.variants(kernel.name)) for kernel in kernels)
    assert measure_job(kernels[0], seed, traces, card).pacer is None
    assert measure_job(kernels[1], other, traces, card).pacer == traces.pacers["gelu"].reduced()
    assert measure_job(kernels[1], other, traces, card).source is None
    assert measure_job(kernels[1], other, traces, model).pacer is None
    assert measure_job(kernels[1], other, traces, model).source == kernels[1].source


QUICK = {
    name: kernel
    for name, kernel in authored_kernels().items()
    if name.startswith(("gelu/hand/", "rmsnorm/liger/", "rmsnorm/hand/clusters"))
}


@pytest.mark.parametrize("name", QUICK)
def test_styles_of_a_simple_operator_are_accepted(name: str) -> None:
    assert_accepted(name, judge_on_model(QUICK[name], 4))
