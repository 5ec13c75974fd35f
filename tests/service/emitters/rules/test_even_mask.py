import pytest

from tests.service.emitters.looped import LOOPED
from tests.service.emitters.samples import applies, rewritten, seed


@pytest.mark.parametrize(
    ("operator", "comparison", "flag"),
    [
        ("rmsnorm", "cols < n_cols", "EVEN=n_cols % BLOCK == 0"),
        ("gelu", "offsets < n_elements", "EVEN=n_elements % BLOCK == 0"),
        ("cross_entropy", "cols < n_cols", "EVEN=n_cols % BLOCK == 0"),
        ("attention", "cols[None, :] < n_positions", "EVEN=n_positions % BLOCK_M == 0"),
    ],
)
def test_masks_fall_where_the_tile_divides_the_axis(operator, comparison, flag):
    found = [rewritten("even_mask", seed(operator), draw) for draw in range(12)]
    assert any(flag in code for code in found)
    if operator != "attention":
        assert any(f"({comparison}) | EVEN" in code for code in found)


def test_all_comparisons_of_one_axis_fall_together():
    code = rewritten("even_mask", LOOPED["rmsnorm"])
    assert code.count("(cols < n_cols) | EVEN") == code.count("cols < n_cols")


def test_each_axis_once():
    code = seed("matmul")
    for _ in range(3):
        code = rewritten("even_mask", code)
    assert not applies("even_mask", code)
    for flag in ("M % BLOCK_M == 0", "N % BLOCK_N == 0", "K % BLOCK_K == 0"):
        assert code.count(flag) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("triton.cdiv(n_elements, 1024)", "triton.cdiv(n_elements, 1024) + 1"),
        ("triton.cdiv(n_elements, 1024)", "triton.cdiv(n_elements, 512)"),
        ("offsets < n_elements", "offsets <= n_elements"),
        ("offsets < n_elements", "offsets < 100"),
        ("tl.program_id(0).to(tl.int64) * BLOCK", "tl.program_id(0).to(tl.int64) * 512"),
        ("tl.program_id(0).to(tl.int64) * BLOCK", "tl.program_id(1) * BLOCK"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, 1024)"),
        ("    n_elements = x.numel()", "    n_elements = 5\n    n_elements = x.numel()"),
    ],
)
def test_positions_that_may_pass_the_end(old, new):
    assert old in seed("gelu")
    assert not applies("even_mask", seed("gelu").replace(old, new))


def test_a_loop_that_ends_elsewhere():
    source = seed("attention").replace("(cols[None, :] < n_positions)", "(cols[None, :] < D)")
    assert "| EVEN" not in "".join(
        line for line in rewritten("even_mask", source, 1).splitlines() if "cols[None, :] < D" in line
    )
