from tests.service.emitters.samples import applies, rewritten, seed


def test_two_numbers_from_one():
    code = rewritten("flat_grid", seed("matmul"))
    assert "tl.program_id(0) % grid_width * BLOCK_M" in code
    assert "tl.program_id(0) // grid_width * BLOCK_N" in code
    assert "[triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),]" in code
    assert "grid_width=triton.cdiv(M, BLOCK_M)" in code


def test_groups_are_flattened_too():
    code = rewritten("flat_grid", rewritten("group_programs", seed("matmul")))
    assert "tl.num_programs(0) // grid_width" in code


def test_one_axis_stays():
    assert not applies("flat_grid", seed("gelu"))
