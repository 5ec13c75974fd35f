"""Where a variant stands in its search's grid; how it gets there is in `test_next_step` and `test_verdicts`."""

from service.evaluation.promotion import first_benchmark
from tests.service import records


def test_coordinates_come_from_the_first_benchmark_shape() -> None:
    assert first_benchmark(records.search()) == 1
