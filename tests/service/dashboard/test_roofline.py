from service.dashboard.roofline import roofline
from service.evaluation.floors import ShapeWork
from workers.targets import TARGETS

CARD = TARGETS["sm_90"]


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
