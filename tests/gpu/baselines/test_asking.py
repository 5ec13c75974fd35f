"""The whole way on a card: a plan of ours against eager, compiled, autotuned and liger-kernel's RMSNorm."""

from contextlib import closing

import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.plans import bundle_of, rmsnorm_plan
from tests.workers.baselines.catalogue import OPERATORS, graph_of
from workers.assembler import assemble
from workers.baselines import BaselineProcess, measure_baselines
from workers.baselines.cache import FigureCache
from workers.protocol import Device, Shape

pytestmark = pytest.mark.gpu
DIMS = {"M": 4096, "N": 4096}


def test_a_plan_is_related_to_every_contender_and_the_figures_are_kept(tmp_path):
    operator = OPERATORS["rmsnorm"]
    kernel = compiled("rmsnorm")
    bundle = bundle_of(kernel, rmsnorm_plan(kernel, DIMS)).model_copy(update={"operator": operator.digest})
    pacer = assemble(bundle, operator).bundle
    graphs = (graph_of(operator, Shape(dims=DIMS)),)
    with closing(BaselineProcess(0)) as process:
        question = (operator, graphs, pacer, Device.parse("h200"), process.ask)
        (baseline,) = measure_baselines(*question, FigureCache(tmp_path), {"card": "test"}).values()
        (again,) = measure_baselines(*question, None, {}).values()
    assert baseline.skipped == {}
    assert set(baseline.figures) == {"eager", "compile", "max_autotune", "native", "liger"}
    assert all(figure.half_width < 0.02 for figure in baseline.figures.values())
    assert baseline.figures["eager"].over_pacer > 3
    assert baseline.pacer_half_width < 0.02
    assert baseline.copy_us is not None, "67 MB, at 1.5 to 4.8 TB/s"
    assert 67e6 / 4.8e12 < baseline.copy_us / 1e6 < 67e6 / 1.5e12
    assert set(again.figures) == set(baseline.figures)
    assert again.figures["compile"].over_pacer == pytest.approx(baseline.figures["compile"].over_pacer, rel=0.05)
    assert measure_baselines(*question, FigureCache(tmp_path), {"card": "test"}) == {baseline.shape: baseline}
