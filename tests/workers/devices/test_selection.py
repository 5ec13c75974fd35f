"""Which plans are executed on which draws."""

from tests.workers.devices.kernels import PLAIN, graphs, job_for
from workers.devices.selection import ALL_DRAWS_BYTES, LARGEST_PLAN_BYTES, plan_bytes, select_cases
from workers.inputs import DRAWS
from workers.protocol import Buffer, Shape


def enlarged(bundle, factor):
    plans = tuple(
        plan.model_copy(
            update={
                "shape": Shape(dims={"M": index + 1, "N": 1}),
                "buffers": (*plan.buffers, Buffer(id=len(plan.buffers), bytes=factor * (index + 1))),
            }
        )
        for index, plan in enumerate(bundle.plans)
    )
    return bundle.model_copy(update={"plans": plans})


def test_small_plans_come_first_and_get_every_draw():
    bundle = job_for(PLAIN).bundle
    cases = select_cases(bundle, graphs("softmax"))
    assert [case.plan.shape.key for case in cases] == ["M=1,N=1", "M=37,N=129", "M=64,N=128"]
    assert all(case.draws == tuple(DRAWS) and case.graph.shape.key == case.plan.shape.key for case in cases)
    assert [plan.shape.key for plan in bundle.benchmarks] == ["M=2048,N=1024"]


def test_larger_plans_share_the_draws():
    bundle = enlarged(job_for(PLAIN).bundle, ALL_DRAWS_BYTES)
    references = [
        graph.model_copy(update={"shape": p.shape}) for graph, p in zip(graphs("softmax"), bundle.plans, strict=True)
    ]
    cases = select_cases(bundle, references)
    assert all(len(case.draws) == 2 and case.draws[0] == "normal" for case in cases)
    assert len({case.draws[1] for case in cases}) == len(cases)


def test_there_is_a_limit():
    bundle = enlarged(job_for(PLAIN).bundle, LARGEST_PLAN_BYTES)
    references = [
        graph.model_copy(update={"shape": p.shape}) for graph, p in zip(graphs("softmax"), bundle.plans, strict=True)
    ]
    assert select_cases(bundle, references) == []


def test_plans_without_a_reference_are_left_out():
    bundle = job_for(PLAIN).bundle
    assert len(select_cases(bundle, graphs("softmax")[:1])) == 1
    assert plan_bytes(bundle.plans[0]) > 2 * 2 * 37 * 129
