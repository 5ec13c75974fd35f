import pytest

from tests.service.emitters.samples import DOUBLED, applies, candidate, rewritten, seed


def test_one_sweep_for_each_step_that_needs_the_whole_row():
    sweeps = {"rope": 1, "rmsnorm": 2, "softmax": 3, "layernorm": 3}
    for operator, number in sweeps.items():
        assert rewritten("chunk_row", seed(operator)).count("for start in range(0, n_cols, BLOCK):") == number


def test_folds_keep_one_value_a_lane():
    code = rewritten("chunk_row", seed("softmax"))
    assert "peak_lanes = tl.full([BLOCK], -float('inf'), tl.float32)" in code
    assert "peak_lanes = tl.maximum(peak_lanes, x)" in code
    assert "peak = tl.max(peak_lanes, axis=0)" in code
    assert "total_lanes = total_lanes + numerator" in code


def test_a_sweep_computes_only_what_it_needs():
    first_sweep = rewritten("chunk_row", seed("rmsnorm")).split("for start")[1]
    assert "weight" not in first_sweep


def test_the_host_caps_the_tile():
    assert "BLOCK=min(triton.next_power_of_2(n_cols), " in rewritten("chunk_row", seed("rmsnorm"))
    named = candidate(DOUBLED, passed="x, y, n_cols, BLOCK=size", host="size = triton.next_power_of_2(n_cols)")
    assert "size = min(triton.next_power_of_2(n_cols), " in rewritten("chunk_row", named)
    fixed = candidate(DOUBLED, passed="x, y, n_cols, BLOCK=1024")
    assert "BLOCK=1024" in rewritten("chunk_row", fixed)


def test_tiles_of_rows_are_cut_along_the_row():
    code = rewritten("chunk_row", rewritten("rows_tile", seed("rmsnorm")))
    assert "total_lanes = tl.full([ROWS, BLOCK], 0.0, tl.float32)" in code
    assert "cols = (start + tl.arange(0, BLOCK))[None, :]" in code


@pytest.mark.parametrize("operator", ["swiglu", "matmul", "attention", "cross_entropy"])
def test_kernels_without_a_row_in_one_tile(operator):
    assert not applies("chunk_row", seed(operator))


def test_a_tile_whose_extent_another_launch_uses_stays():
    source = candidate(DOUBLED, passed="x, y, n_cols, BLOCK=size", host="size = triton.next_power_of_2(n_cols)")
    again = source.replace("    return y", "    other[(1,)](y, size)\n    return y")
    again += "\n@triton.jit\ndef other(y_ptr, N: tl.constexpr):\n    tl.store(y_ptr + tl.arange(0, N), 0.0)\n"
    assert applies("chunk_row", source)
    assert not applies("chunk_row", again)
