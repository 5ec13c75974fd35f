"""Time floors from bytes and operations."""

import pytest

from service.evaluation.floors import ShapeWork, TimeFloors, floors, memory_floors, works
from tests.service import records
from tests.workers.sheets import H100
from workers.protocol import Device, ShapeResult
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


def test_floors_by_memory_are_those_of_the_reports_card_and_copy() -> None:
    readings = records.readings().model_copy(update={"bytes_required": 33_520_000})
    shapes = (
        ShapeResult(shape="N=1", readings=readings, copy_us=12.0),
        ShapeResult(shape="N=2", readings=readings),
        ShapeResult(shape="N=3"),
    )
    found = memory_floors(records.report({}, device=Device.parse("h100"), shapes=shapes, card=H100))
    assert list(found) == ["N=1", "N=2"]
    assert (found["N=1"].peak_us, found["N=1"].copy_us) == (pytest.approx(10.0, rel=1e-3), 12.0)
    assert str(found["N=1"]) == "a copy of its bytes takes 12.00 us, 10.00 us at the peak bandwidth"
    assert str(found["N=2"]) == "10.00 us at the peak bandwidth"
