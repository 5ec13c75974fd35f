"""What the script says of defences, as far as it can be tried without a card."""

import pytest

from benchmarks.defences import judge, orders, spread_of
from benchmarks.figures import TimeAllowance
from tests.gpu.contracts import operators
from tests.gpu.honest import Honest
from tests.gpu.judging import measure_job, trace_all
from tests.gpu.rogues import load_rogues
from workers.devices import ModelDevice
from workers.errors import WorkerError
from workers.protocol import Device

MODEL = Device.parse("model:sm_90")


def test_a_spread_is_a_median_and_a_high_percentile():
    assert spread_of([float(value) for value in range(1, 22)]) == {"median": 11.0, "p90": 19.0}
    assert spread_of([2.0]) == {"median": 2.0, "p90": 2.0}


@pytest.mark.slow
def test_a_seed_is_judged_again_and_again_and_a_rogue_not_at_all():
    seed, rogue = Honest("gelu/seed", "gelu", operators()["gelu"].seeds[0]), load_rogues()["flag_memo"]
    traces = trace_all([seed, rogue], "sm_90", 1)
    jobs = [measure_job(kernel, next(traces.variants(kernel.name)), traces, MODEL) for kernel in (seed, rogue)]
    bench = ModelDevice(MODEL, "tester")
    row = orders(bench, jobs[0], TimeAllowance(0.0))
    assert row["judged"] >= 3 and row["an_hour"] > 0 and row["mean_by_order_s"] == {}
    assert row["median_by_stage_s"]
    with pytest.raises(WorkerError, match="an honest kernel is refused"):
        judge(bench, jobs[1], 1, TimeAllowance(60.0))
