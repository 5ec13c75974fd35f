"""How predicted and measured times are compared."""

import json
import random

import numpy as np
import pytest

from benchmarks.correlation import FEWEST, correlate, judged, spearman, summary
from benchmarks.figures import FigureRows
from tests.gpu.contracts import operators
from tests.gpu.honest import Honest
from workers.protocol import Device, Shape, ShapeResult

MODEL = Device.parse("model:sm_90")


def test_equal_orders_correlate_whatever_the_values():
    assert spearman([1, 2, 3, 4, 5], [1, 4, 9, 16, 250]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]) == pytest.approx(-1.0)


def test_ties_take_their_mean_rank():
    assert spearman([1, 2, 2, 3, 4], [1, 2, 2, 3, 4]) == pytest.approx(1.0)
    expected = np.corrcoef([0.5, 0.5, 2.5, 2.5, 4.5, 4.5], [0.0, 1.5, 1.5, 3.5, 3.5, 5.0])[0, 1]
    assert spearman([1, 1, 2, 2, 3, 3], [1, 2, 2, 3, 3, 4]) == pytest.approx(expected)


def test_without_ties_it_is_the_correlation_of_ranks():
    rng = random.Random(3)
    one, two = ([rng.random() for _ in range(40)] for _ in range(2))
    ranks = [np.argsort(np.argsort(values)) for values in (one, two)]
    assert spearman(one, two) == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_few_points_and_equal_values_have_no_correlation():
    assert spearman(range(FEWEST - 1), range(FEWEST - 1)) is None
    assert spearman([1.0] * 9, range(9)) is None


def test_a_summary_is_by_operator_and_shape_and_leaves_out_what_was_not_timed():
    rows = [
        {"operator": name, "kernel": f"{name}/{i}", "shape": shape, "measured_us": 1.0 + i, "predicted_us": 2.0 + 2 * i}
        | {"readings_us": None}
        for name in ("a", "b")
        for shape in ("M=1", "M=2")
        for i in range(6)
    ]
    found = summary([*rows, {"operator": "a", "kernel": "a/9", "outcome": "wrong_result"}])
    groups = {(row["operator"], row["shape"]): row for row in found}
    assert set(groups) == {("all", "all"), *((name, shape) for name in "ab" for shape in ("all", "M=1", "M=2"))}
    assert groups["a", "all"]["bundles"] == 6
    assert all(row["spearman_predicted"] == pytest.approx(1.0) for row in found)
    assert all(row["spearman_readings"] is None and row["median_error_predicted"] == 1.0 for row in found)


def test_kernels_that_were_judged_come_with_their_times(tmp_path):
    times = {"shape": "M=1,N=1", "low_us": 1.0, "mid_us": 2.0, "high_us": 3.0, "pacer_us": 4.0}
    row = {"kernel": "gelu/seed", "operator": "gelu", "outcome": "correct", "variant": 0, "shapes": [times]}
    others = [
        {**row, "variant": 1},
        {**row, "kernel": "rope/seed", "operator": "rope"},
        {**row, "outcome": "precision"},
    ]
    path = tmp_path / "judged.json"
    path.write_text(json.dumps({"rows": [row, *others]}))
    ((kernel, shapes),) = judged(path, ["gelu"]).items()
    assert (kernel.name, [item.mid_us for item in shapes]) == ("gelu/seed", [2.0])


@pytest.mark.slow(reason="traces and predicts a seed; the summary is tested above")
def test_a_kernel_whose_time_is_known_is_predicted(tmp_path):
    operator = operators()["gelu"]
    key = Shape(dims=operator.shapes[0].dims).key
    kernel = Honest("gelu/seed", "gelu", operator.seeds[0])
    correlate(FigureRows(tmp_path, "correlation"), MODEL, {kernel: [ShapeResult(shape=key, mid_us=100.0)]})
    document = json.loads((tmp_path / "correlation.json").read_text())
    (row,) = document["rows"]
    assert (row["measured_us"], document["not_traced"]) == (100.0, 0)
    assert row["predicted_us"] > 0 and row["readings_us"] > 0
