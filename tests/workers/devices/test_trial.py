from tests.service import records
from workers.devices.trial import LARGE_DRAWS, LARGE_PLAN_BYTES, benchmarks, draws_for, plan_bytes
from workers.inputs import DRAWS
from workers.protocol import Buffer, ShapeRole


def sized(size):
    plan = records.bundle(1).plans[0]
    return plan.model_copy(update={"buffers": (Buffer(id=0, bytes=size, input=0),), "steps": (), "outputs": ()})


def test_small_plans_meet_every_draw_and_large_ones_those_that_find_most():
    assert draws_for(sized(LARGE_PLAN_BYTES)) == tuple(DRAWS)
    assert draws_for(sized(LARGE_PLAN_BYTES + 1)) == LARGE_DRAWS
    assert set(LARGE_DRAWS) <= set(DRAWS)
    assert plan_bytes(sized(7)) == 7


def test_only_benchmark_shapes_are_timed():
    bundle = records.bundle(1)
    found = dict(benchmarks(bundle))
    assert found and all(plan.shape.role is ShapeRole.BENCHMARK for plan in found.values())
    assert all(bundle.plans[index] is plan for index, plan in found.items())
