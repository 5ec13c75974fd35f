"""A draft without its kernels for one shape."""

from service.fleet.all_sizes_seed import without_choice
from tests.service.emitters.samples import seed

FIXED = """
@triton.jit
def fixed_kernel(x_ptr):
    tl.store(x_ptr, 1.0)


def matmul_fixed(a, b):
    fixed_kernel[(1,)](a)
    return a
"""
CHOICE = "    if a.shape[0] == 64:\n        return matmul_fixed(a, b)\n    M, K = a.shape"


def test_the_choice_goes_with_all_that_it_alone_needs():
    draft = seed("matmul").replace("    M, K = a.shape", CHOICE) + FIXED
    made = without_choice(draft, "matmul")
    assert made is not None and "fixed" not in made and "== 64" not in made
    assert "matmul_kernel[" in made and "M, K = a.shape" in made and "import torch" in made


def test_a_draft_without_a_choice_has_no_second():
    assert without_choice(seed("matmul"), "matmul") is None
    guarded = seed("matmul").replace(
        "    M, K = a.shape", "    if a.shape[0] == 0:\n        return b\n    M, K = a.shape"
    )
    assert without_choice(guarded, "matmul") is None
