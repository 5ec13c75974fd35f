import pytest

from service.dashboard.roofline import ShapeWork, TimeFloors, floors, roofline, works
from workers.targets import TARGETS

CARD = TARGETS["sm_90"]


def test_the_memory_floor_is_what_the_bytes_take() -> None:
    assert floors(ShapeWork(4_800_000), CARD) == TimeFloors(pytest.approx(1.0), None)
    assert floors(ShapeWork(), CARD) == TimeFloors(None, None)
    assert floors(ShapeWork(), CARD).bound is None and floors(ShapeWork(), CARD).floor_us is None


def test_the_arithmetic_floor_is_what_the_operations_take_at_the_rate_of_their_units() -> None:
    short = floors(ShapeWork(4_800_000, matrix_flops=9.89e11), CARD)
    assert short.arithmetic_us == pytest.approx(1000.0) and (short.bound, short.floor_us) == ("arithmetic", 1000.0)
    long = floors(ShapeWork(4_800_000, matrix_flops=9.89e11, halves=False), CARD)
    assert long.arithmetic_us == pytest.approx(2000.0)
    pointwise = floors(ShapeWork(48_000_000, matrix_flops=0.0, other_flops=6.7e7), CARD)
    assert pointwise.arithmetic_us == pytest.approx(1.0) and pointwise.bound == "memory"


def test_what_is_to_be_done_comes_from_the_graph_of_the_same_shape() -> None:
    shapes = [{"dims": {"M": 2, "N": 3}}, {"dims": {"M": 4, "N": 3}}]
    graphs = [{"shape": {"dims": {"N": 3, "M": 4}}, "matrix_flops": 8.0, "other_flops": 2.0}]
    unknown, known = works(shapes, graphs, ["float32", "bfloat16"])
    assert (unknown.flops, known.flops, known.halves) == (None, 10.0, True)
    assert not works(shapes, graphs, ["float32", "int64"])[0].halves


def test_shapes_lie_under_the_roofs_of_their_card() -> None:
    work = ShapeWork(100_000_000, matrix_flops=1.37e11, other_flops=0.0)
    drawn = roofline([("M=1", work, 200.0), ("M=2", ShapeWork(), 3.0)], CARD)
    assert drawn is not None and [point.label for point in drawn.points] == ["M=1"]
    (point,) = drawn.points
    assert 0 < point.x < 100 and 0 < point.y < 100
    assert drawn.peak == "989 TFLOP/s" and "1.37e+03 operations per byte, 685 TFLOP/s" in drawn.summary
    slower = roofline([("M=1", work, 2000.0)], CARD)
    assert slower is not None and slower.points[0].y > point.y and slower.points[0].x == point.x and point.side == "end"


def test_labels_of_close_points_do_not_cover_each_other() -> None:
    work = ShapeWork(100_000_000, matrix_flops=1.37e11, other_flops=0.0)
    drawn = roofline([("slow", work, 220.0), ("far", work, 20_000.0), ("fast", work, 200.0)], CARD)
    assert drawn is not None
    assert [(point.label, point.row) for point in drawn.points] == [("fast", 0), ("slow", 1), ("far", 0)]


def test_without_arithmetic_there_is_no_roofline() -> None:
    assert roofline([("a", ShapeWork(1000), 1.0)], CARD) is None
    pointwise = roofline([("a", ShapeWork(1000, matrix_flops=0.0, other_flops=500.0), 1.0)], CARD)
    assert pointwise is not None and pointwise.peak == "67 TFLOP/s"
