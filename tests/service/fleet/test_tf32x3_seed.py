"""A draft with its float32 products on the matrix units."""

from service.fleet.tf32x3_seed import on_matrix_units
from tests.service.emitters.samples import seed

EXACT = seed("matmul").replace("tl.dot(a, b, total)", "tl.dot(a, b, total, input_precision='ieee')")


def test_products_become_three_of_tf32_in_four_warps():
    made = on_matrix_units(EXACT.replace("num_warps=4", "num_warps=8"))
    assert made is not None and "input_precision='tf32x3'" in made and "ieee" not in made
    assert made.count("num_warps=4") == made.count("num_stages=3") == 1 and "num_warps=8" not in made


def test_a_draft_without_float32_products_has_no_second():
    assert on_matrix_units(seed("matmul")) is None
    assert on_matrix_units(seed("rmsnorm")) is None
