import pytest

from service.emitters.rules.tiles import dealt_axis, tie_tiles
from service.operators.sources import render
from tests.service.emitters.samples import kernel_of, seed


def tied(source):
    kernel = kernel_of(source)
    tie_tiles(kernel)
    return render(kernel.module)


def test_a_number_on_both_sides_gets_a_name():
    code = tied(seed("swiglu"))
    assert "    BLOCK = 1024\n" in code
    assert "triton.cdiv(n_elements, BLOCK)" in code
    assert "BLOCK=BLOCK" in code


def test_equal_numbers_of_two_axes_get_names_of_their_own():
    code = tied(seed("matmul"))
    assert "grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))" in code
    assert "BLOCK_K=32" in code


def test_a_number_that_the_loop_steps_by_is_not_the_one_in_the_grid():
    code = tied(seed("attention"))
    assert "grid = (triton.cdiv(n_positions, BLOCK_M), batch * heads)" in code
    assert "BLOCK_N=64" in code


@pytest.mark.parametrize(
    ("old", "new"),
    [("cdiv(n_elements, 1024)", "cdiv(n_elements, 512)"), ("cdiv(n_elements, 1024)", "cdiv(n_elements, 1024) + 0")],
)
def test_counts_that_are_not_written_alike_stay(old, new):
    assert "BLOCK=1024" in tied(seed("swiglu").replace(old, new))


def test_axes_of_the_grid():
    kernel = kernel_of(seed("matmul"))
    assert [dealt_axis(kernel, tile) for tile in ("BLOCK_M", "BLOCK_N", "BLOCK_K")] == [0, 1, None]
