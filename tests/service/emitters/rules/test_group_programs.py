import pytest

from tests.service.emitters.samples import applies, rewritten, seed


def test_both_numbers_are_permuted():
    code = rewritten("group_programs", seed("matmul"))
    assert "program_1, program_0 = tl.swizzle2d(tl.program_id(1), tl.program_id(0)," in code
    assert "program_0 * BLOCK_M" in code
    assert "program_1 * BLOCK_N" in code
    assert "GROUP: tl.constexpr" in code


@pytest.mark.parametrize("operator", ["gelu", "rmsnorm"])
def test_one_axis_has_no_groups(operator):
    assert not applies("group_programs", seed(operator))


def test_once_is_enough():
    assert not applies("group_programs", rewritten("group_programs", seed("matmul")))
