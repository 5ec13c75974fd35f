"""Lowering: Inductor's output for a reference, in its sandbox."""

from importlib import import_module

import pytest

from tests.workers.inductor_seeds.lowered import lowered
from tests.workers.tracer.jobs import operator
from workers.protocol import Operator


def ask_for_the_card():
    """Fill torch's caches, as torch.compile does on a machine without a card."""
    import_module("torch._inductor.graph")
    import_module("torch._inductor.runtime.triton_heuristics")
    import_module("torch._dynamo.device_interface").get_interface_for_device("cpu")
    import_module("torch._inductor.utils").get_gpu_type()
    import_module("torch.utils._triton").has_triton()


def keep_the_card_out_of_sight():
    """Fail at the first fake tensor on a card, as a build of torch for cards does in the sandbox."""

    def fail(_device):
        raise RuntimeError("Found no NVIDIA driver on your system")

    vars(import_module("torch._subclasses.fake_tensor"))["init_gpu_context"] = fail


def test_convolutions_are_lowered_by_builds_of_torch_for_cards():
    inputs = [
        {"name": "x", "shape": ["M", 3, "N", "N"], "dtype": "float32"},
        {"name": "w", "shape": [8, 3, 3, 3], "dtype": "float32"},
    ]
    reference = "import torch\n\n\ndef scale(x, w):\n    return torch.nn.functional.conv2d(x, w)\n"
    of = operator(reference=reference, inputs=inputs, shapes=[{"dims": {"M": 4, "N": 32}}])
    assert "kernelreef.convolution" in lowered(of, before=keep_the_card_out_of_sight)["host"]


def test_numbers_that_a_reference_holds_as_tensors_are_made_on_the_card():
    line = "return (x * w).exp().clamp(max=torch.log(torch.tensor(1.0 / 0.01)))"
    code = f"import torch\n\n\ndef scale(x, w):\n    {line}\n"
    found = lowered(operator(reference=code, shapes=[{"dims": {"M": 4, "N": 128}}]))
    assert any("100.0" in text and "log" in text for _, text, *_ in found["kernels"])


def test_sizes_that_vary_stay_symbols_even_those_that_are_one():
    found = lowered(operator(shapes=[{"dims": {"M": 1, "N": 128}}], ranges={"M": [1, 4], "N": [1, 128]}))
    ((name, text, grid, options),) = found["kernels"]
    assert f"{name}.run(" in found["host"]
    assert text.startswith("@triton.jit")
    assert grid == "Grid1D"
    assert {"XBLOCK", "num_warps", "num_stages"} <= options.keys()
    assert "xnumel" in text


@pytest.mark.parametrize(
    "expression",
    [
        "F.pad(x, (0, 0, 1, 2))",
        "F.pad(x, (1, -2), value=3.0)",
        "x.cumsum(0)",
        "F.interpolate(x[None, None], scale_factor=2, mode='bilinear')",
        "F.max_pool1d(x[None], 3, 1, 1)",
        "torch.view_as_real(torch.view_as_complex(x.view(-1, 32, 2)) * torch.view_as_complex(x.view(-1, 32, 2)))",
    ],
)
def test_sizes_stay_symbols_in_operations_whose_composition_takes_numbers(expression):
    shapes = [{"dims": {"M": 640, "N": 64}}]
    reference = f"import torch\nimport torch.nn.functional as F\n\n\ndef scale(x, w):\n    return {expression}\n"
    inputs = [{"name": "x", "shape": ["M", 64], "dtype": "float32"}, {"name": "w", "shape": ["N"], "dtype": "float32"}]
    of = operator(reference=reference, inputs=inputs, shapes=shapes, ranges={"M": [1, 640]})
    found = lowered(of)
    assert found["kernels"] and "zero_" not in found["host"] and "torch.ops.aten" not in found["host"]


def test_a_reference_that_decides_by_a_size_has_no_seed_for_all_sizes():
    lines = ["from torch.nn.functional import pad", "", "", "def scale(x, w):"]
    lines += ["    y = pad(x, (0, 0, 0, -x.shape[0] % 64))", "    return y * w if y.shape == x.shape else x", ""]
    reference = "\n".join(lines)
    of = operator(reference=reference, shapes=[{"dims": {"M": 640, "N": 128}}], ranges={"M": [1, 640]})
    with pytest.raises(AssertionError, match="decides by the size 'M'"):
        lowered(of)


def test_a_remainder_compares_dtypes_by_equality():
    ((_, text, *_),) = lowered(operator(reference="def scale(x, w):\n    return x % 3.0 * w\n"))["kernels"]
    assert "dtype == tl.float32" in text and " is tl." not in text


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_what_torch_found_before_does_not_matter(target):
    assert lowered(operator(), target, ask_for_the_card) == lowered(operator(), target)


def test_a_reduction_has_blocks_along_both_axes():
    found = lowered(operator(reference="def scale(x, w):\n    return x.softmax(-1) * w\n", ranges={"N": [1, 128]}))
    assert {"XBLOCK", "R0_BLOCK"} <= found["kernels"][0][3].keys()


def of_matrix(reference: str, rows: int = 4096, columns: int = 4096) -> Operator:
    """Return an operator of x[M, N] and w[N] for up to so many rows and columns."""
    return operator(
        reference=f"import torch\n\ndef scale(x, w):\n    return {reference}\n",
        shapes=[{"dims": {"M": rows, "N": columns}}],
        ranges={"M": [1, rows], "N": [1, columns]},
    )


@pytest.mark.parametrize(
    ("reference", "columns"),
    [("x.sum(0) * w", True), ("x.sum(1)", False), ("(x * w).amax(0)", True), ("(x + w[:1] * x[:, :1]).sum(0)", True)],
)
def test_programs_of_a_reduction_have_results_whose_elements_lie_side_by_side(reference, columns):
    (kernel, *_) = lowered(of_matrix(reference))["kernels"]
    assert (kernel[3]["XBLOCK"] >= 32) is columns, kernel[3]
    assert (kernel[3]["R0_BLOCK"] >= 1024) is not columns


@pytest.mark.parametrize(
    ("reference", "rows", "columns", "are_square"),
    [
        ("x.sum(0) * w", 4096, 2**18, True),
        ("x.sum(0) * w", 4096, 2**10, False),
        ("x.sum(0) * w", 32, 2**18, False),
        ("x.amax(0) * w", 4096, 2**18, False),
    ],
)
def test_sums_of_columns_have_square_tiles_where_these_are_filled_and_all_processors_have_some(
    reference, rows, columns, are_square
):
    found = lowered(of_matrix(reference, rows, columns))["kernels"][0][3]
    assert (tuple(found.get(name) for name in ("XBLOCK", "R0_BLOCK", "num_warps")) == (64, 64, 8)) is are_square


@pytest.mark.parametrize(
    ("reference", "has_windows"),
    [
        ("torch.nn.functional.avg_pool1d(x[None], 5, 1, 2)[0]", True),
        ("torch.nn.functional.max_pool1d(x[None], 3, 2)[0]", True),
        ("x * x.sigmoid() + w", False),
        ("x[:, 4:-4] + x[:, 8:] + x[:, :-8]", False),
    ],
)
def test_kernels_that_read_neighbours_have_few_elements_per_thread(reference, has_windows):
    (kernel, *_) = lowered(of_matrix(reference))["kernels"]
    assert (kernel[3]["XBLOCK"] <= 64 * kernel[3]["num_warps"]) is has_windows, kernel


@pytest.mark.parametrize(("m", "rows"), [(2**20, 32), (2**12, 1), (2**14, 8)])
def test_tiles_of_short_rows_have_many_where_every_processor_still_has_programs(m, rows):
    shapes = [{"dims": {"M": m, "N": 27}}]
    found = lowered(
        operator(reference="def scale(x, w):\n    return x.amax(1)\n", shapes=shapes, ranges={"N": [27, 27]})
    )
    assert found["kernels"][0][3]["XBLOCK"] == rows


def options(reference: str, dtype: str, *, m: int = 4096, n: int = 4096) -> dict[str, int]:
    """Return the options for the kernel of a product of x[M, N] and w[N, N]."""
    inputs = [
        {"name": "x", "shape": ["M", "N"], "dtype": dtype},
        {"name": "w", "shape": ["N", "N"], "dtype": dtype},
    ]
    shapes = [{"dims": {"M": m, "N": n}}]
    found = lowered(operator(reference=f"def scale(x, w):\n    return {reference}\n", inputs=inputs, shapes=shapes))
    return found["kernels"][0][3]


@pytest.mark.parametrize(
    ("reference", "dtype", "m", "tile"),
    [
        ("x @ w", "bfloat16", 4096, (128, 128, 32, 8)),
        ("x @ w", "float32", 4096, (128, 64, 32, 8)),
        ("(x @ w) * (x @ w.T)", "bfloat16", 4096, (128, 64, 32, 8)),
        ("x @ w", "bfloat16", 16, (32, 64, 32, 8)),
    ],
)
def test_the_largest_tile_that_surely_fits_is_chosen_for_a_product(reference, dtype, m, tile):
    found = options(reference, dtype, m=m)
    assert tuple(found[name] for name in ("YBLOCK", "XBLOCK", "R0_BLOCK", "num_warps")) == tile


def test_a_variance_is_made_of_sums():
    found = lowered(operator(reference="def scale(x, w):\n    return (x - x.mean(0)) / x.var(0) * w\n"))
    assert "welford" not in "".join(item[1] for item in found["kernels"])


def test_a_product_with_a_vector_is_a_sum():
    found = lowered(operator(reference="def scale(x, w):\n    return x @ w\n"))
    assert "tl.sum(" in found["kernels"][0][1]
    assert "tl.dot(" not in found["kernels"][0][1]
