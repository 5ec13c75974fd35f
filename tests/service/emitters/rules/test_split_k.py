import pytest

from tests.service.emitters.samples import applies, rewritten, seed, small


def test_programs_share_the_inner_axis_and_their_sums_are_added_up():
    code = rewritten("split_k", seed("matmul"))
    assert "for start in range(tl.program_id(2) * BLOCK_K, K, BLOCK_K * PARTS):" in code
    assert "c_ptr + tl.program_id(2).to(tl.int64) * part_size" in code
    assert "parts = torch.empty((" in code and "dtype=torch.float32, device=c.device)" in code
    assert code.index("matmul_kernel[") < code.index("add_parts_kernel[")


@pytest.mark.parametrize("draw", range(3))
def test_any_number_of_parts_computes_the_same(draw, assert_same):
    assert_same(small("matmul"), rewritten("split_k", small("matmul"), draw), "matmul")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total, mask=c_mask", "total + 1.0, mask=c_mask"),
        ("tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)", "tl.full((BLOCK_M, BLOCK_N), 1.0, dtype=tl.float32)"),
        ("total = tl.dot(a, b, total)", "total = tl.dot(a, b, total) * 2.0"),
        ("        inner = start", "        step = step + 1\n        inner = start"),
        ("c = torch.empty((M, N), dtype=a.dtype, device=a.device)", "c = a"),
    ],
)
def test_what_is_not_surely_a_sum_is_left_alone(old, new):
    assert old in seed("matmul")
    assert not applies("split_k", seed("matmul").replace(old, new))


def test_only_sums_of_products_and_once():
    assert not applies("split_k", seed("attention"))
    assert not applies("split_k", seed("rmsnorm"))
    assert not applies("split_k", rewritten("split_k", seed("matmul")))
