import pytest

from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import DOUBLED, applies, candidate, rewritten, seed

NORM = candidate(DOUBLED.replace("x + x", "x * tl.sum(x, axis=0)"))


def test_everything_gets_one_more_axis():
    code = rewritten("rows_tile", NORM)
    assert "rows = (program * ROWS + tl.arange(0, ROWS))[:, None]" in code
    assert "cols = tl.arange(0, BLOCK)[None, :]" in code
    assert "tl.sum(x, axis=1, keep_dims=True)" in code
    assert code.count("mask=mask & live") == 2
    assert "kernel[triton.cdiv(n_rows, ROWS),](" in code
    assert "n_rows=n_rows, ROWS=ROWS" in code


def test_what_all_rows_share_is_loaded_once():
    assert "tl.load(weight_ptr + cols, mask=mask, other=0.0)" in rewritten("rows_tile", seed("rmsnorm"))


def test_numbers_that_loops_carry_become_columns():
    code = rewritten("rows_tile", LOOPED["cross_entropy"])
    assert "peak = tl.full([ROWS, 1], -float('inf'), tl.float32)" in code
    assert "total = tl.full([ROWS, 1], 0.0, tl.float32)" in code
    assert "tl.load(target_ptr + row, mask=live, other=0)" in code


def test_pieces_of_a_loop_are_tiled_too():
    code = rewritten("rows_tile", rewritten("persistent", NORM))
    assert "programs = triton.cdiv(n_rows, ROWS)" in code


def test_hints_stay_around_what_they_speak_of():
    code = rewritten("rows_tile", rewritten("contiguity", rewritten("chunk_row", seed("rmsnorm"))))
    assert "tl.max_contiguous(tl.multiple_of(start + tl.arange(0, BLOCK), BLOCK), BLOCK)[None, :]" in code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    mask", "    if row > 2:\n        row = row\n    mask"),
        ("    mask", "    while row > 2:\n        row = row\n    mask"),
        ("    mask", "    for i in range(0, row):\n        row = row\n    mask"),
        ("    mask", "    tl.device_assert(row > 1)\n    mask"),
        ("    mask", "    count = tl.num_programs(0)\n    mask"),
        ("tl.store(y_ptr + row * n_cols", "tl.store(y_ptr"),
        ("tl.sum(x, axis=0)", "tl.cumsum(x, axis=0)"),
        ("tl.sum(x, axis=0)", "tl.sum(x[:, None], axis=0)"),
        ("tl.sum(x, axis=0)", "tl.sum(tl.zeros([4, BLOCK], tl.float32) + x, axis=0)"),
        ("x * tl.sum", "unknown(x) * tl.sum"),
        ("    mask", "    start = n_cols\n    start = start + row\n    mask"),
        ("(n_rows,)", "n_rows"),
    ],
)
def test_kernels_that_are_not_surely_one_row_a_program(old, new):
    assert old in NORM
    assert not applies("rows_tile", NORM.replace(old, new))


@pytest.mark.parametrize("operator", ["matmul", "attention"])
def test_tiles_of_two_axes_stay(operator):
    assert not applies("rows_tile", seed(operator))
