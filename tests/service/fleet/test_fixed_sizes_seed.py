"""A draft with sizes that the compiler knows."""

from service.fleet.fixed_sizes_seed import with_fixed_sizes

POOLED = """import torch
import triton
import triton.language as tl

@triton.jit
def pool_kernel(x_ptr, y_ptr, count, alpha, N: tl.constexpr, XBLOCK: tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(y_ptr + x, tl.load(x_ptr + x // count) * alpha)

@triton.jit
def other(a, b):
    return a + b

def pool(x, alpha):
    y = torch.empty_like(x)
    pool_kernel[(4,)](x, y, 3, alpha, N=4, XBLOCK=64)
    return y
"""


def test_sizes_become_constants_but_pointers_and_scalars_do_not():
    made = with_fixed_sizes(POOLED, ["alpha"])
    assert made is not None
    assert "(x_ptr, y_ptr, count: tl.constexpr, alpha, N: tl.constexpr, XBLOCK: tl.constexpr)" in made
    assert "def other(a, b):" in made


def test_a_draft_that_divides_by_no_size_has_no_such_seed():
    assert with_fixed_sizes(POOLED.replace("x // count", "x + count"), ["alpha"]) is None
    assert with_fixed_sizes(POOLED.replace("count, alpha", "alpha: tl.constexpr"), ["alpha"]) is None


def test_a_number_that_a_loop_of_the_host_changes_stays_an_argument():
    looped = POOLED.replace("    pool_kernel[", "    for turn in range(9):\n        pool_kernel[")
    made = with_fixed_sizes(looped.replace(", 3, alpha,", ", 3, turn + 1,"))
    assert made is not None and "count: tl.constexpr, alpha, N: tl.constexpr" in made
    assert "alpha: tl.constexpr" in str(with_fixed_sizes(POOLED))


def test_a_pointer_that_is_passed_twice_stays_one():
    made = with_fixed_sizes(POOLED.replace("y_ptr", "y_ptr_2"), ["alpha"])
    assert made is not None
    assert "(x_ptr, y_ptr_2, count: tl.constexpr, alpha," in made
