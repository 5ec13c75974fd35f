"""A small error that always leans the same way is no rounding."""

from tests.workers.checks.cases import HONEST, gather, operator
from workers.checks import CHECKS

CHECK = CHECKS["bias"]


def _worst(change):
    op = operator("rmsnorm", "float32")
    return CHECK.examine(gather(op, "normal", 0, lambda *a: change(HONEST["rmsnorm"](*a)), M=128, N=256)).worst


def test_leaning_errors_measure_worse_than_honest_ones():
    assert _worst(lambda y: y) < 1
    assert _worst(lambda y: y * (1 + 3e-7)) > _worst(lambda y: y)
