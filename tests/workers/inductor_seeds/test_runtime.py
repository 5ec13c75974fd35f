"""Replacement of Inductor's runtime by plain Triton."""

import ast

import pytest

from tests.workers.inductor_seeds.interpreted import interpreted
from workers.inductor_seeds.runtime import COMBINE, dotted, replace_runtime
from workers.tracer.refusal import TraceRefused


def respelled(line: str) -> str:
    function = ast.parse(f"def kernel():\n    {line}\n    pass").body[0]
    return ast.unparse(replace_runtime(function)).splitlines()[1].strip()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a = libdevice.exp(b)", "a = tl.exp(b)"),
        ("a = tl_math.abs(b)", "a = tl.abs(b)"),
        ("a = libdevice.tanh(b)", "a = libdevice.tanh(b)"),
        ("a = triton_helpers.maximum(b, c)", "a = larger(b, c)"),
        ("a = triton_helpers.max2(b, 1)[:, None]", "a = tl.reduce(b, 1, larger)[:, None]"),
        ("a, b = triton_helpers.max_with_index(c, d, 1)", "a, b = tl.reduce((c, d), 1, larger_at)"),
        (
            "a = triton_helpers.select_one(b, c, dim=-1, keep_dims=True)",
            "a = tl.sum(tl.where(c, b, 0), -1, keep_dims=True)",
        ),
        ("a, = tl.associative_scan((b,), 1, f)", "a = tl.associative_scan(b, 1, f)"),
        ("a = triton_helpers.div_floor_integer(ks0 + 1, 2)", "a = (ks0 + 1) // 2"),
        ("a = triton_helpers.div_floor_integer(x0 - 1, 2)", "a = quotient(x0 - 1, 2)"),
        ("a = triton_helpers.remainder_integer(x0, ks0)", "a = remainder(x0, ks0)"),
        ("a = ks0.to(tl.float32)", "a = tl.cast(ks0, tl.float32)"),
        ("a = (ks0 + 1).to(tl.int32)", "a = tl.cast(ks0 + 1, tl.int32)"),
        ("a = tmp0.to(tl.float32)", "a = tmp0.to(tl.float32)"),
        ("a = tl.broadcast_to(ks0, [XBLOCK, 1])", "a = tl.broadcast_to(tl.cast(ks0, tl.int64), [XBLOCK, 1])"),
        ("a = tl.broadcast_to(tmp0, [XBLOCK, 1])", "a = tl.broadcast_to(tmp0, [XBLOCK, 1])"),
        ("tl.device_assert(a, 'text')", "pass"),
    ],
)
def test_words(written, expected):
    assert respelled(written) == expected


def test_a_local_that_is_a_size_is_cast_as_one():
    function = ast.parse("def kernel(ks0):\n    tmp0 = ks0\n    tmp1 = tmp0.to(tl.float32)").body[0]
    assert "tmp1 = tl.cast(tmp0, tl.float32)" in ast.unparse(replace_runtime(function))


def test_a_local_that_is_made_of_sizes_is_cast_as_one():
    lines = ("tmp0 = 4 * ks0 + ks0 * triton_helpers.div_floor_integer(ks1, 2)", "tmp1 = tmp0.to(tl.float32)")
    function = ast.parse("def kernel(ks0, ks1):\n    " + "\n    ".join(lines)).body[0]
    assert "tl.cast(tmp0, tl.float32)" in ast.unparse(replace_runtime(function))


@pytest.mark.parametrize("written", ["a = triton_helpers.frexp(b)", "a = triton_helpers.rand_eager"])
def test_what_has_no_counterpart_is_refused(written):
    with pytest.raises(TraceRefused, match="its runtime"):
        respelled(written)


def test_dotted_names():
    assert dotted(ast.parse("tl.math.exp", mode="eval").body) == "tl.math.exp"
    assert dotted(ast.parse("f().x", mode="eval").body) == ""


FUNCTIONS = "\n\n".join(COMBINE.values())
EACH = """
@triton.jit
def run(a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, z_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c, d = tl.load(a_ptr + at), tl.load(b_ptr + at), tl.load(c_ptr + at), tl.load(d_ptr + at)
    {line}
    tl.store(y_ptr + at, y)
    tl.store(z_ptr + at, z)
"""
CASES = {
    "y, z = larger_at(a, c, b, d)": (
        ([1.0, 2.0, "nan", "nan"], [2.0, 2.0, 1.0, "nan"]),
        [[2.0, 2.0, "nan", "nan"], [1, 0, 0, 0]],
    ),
    "y, z = smaller_at(a, c, b, d)": (
        ([1.0, 2.0, 3.0, "nan"], [2.0, 2.0, "nan", 4.0]),
        [[1.0, 2.0, "nan", "nan"], [0, 0, 1, 0]],
    ),
    "y, z = tl.reduce((a, c), 0, larger_at)": (([1.0, 5.0, 5.0, 2.0], [0.0] * 4), [[5.0] * 4, [0] * 4]),
    "y, z = tl.reduce(a, 0, times), c": (([1.0, 5.0, 0.5, 2.0], [0.0] * 4), [[5.0] * 4, [0] * 4]),
    "y, z = quotient(a.to(tl.int32), b.to(tl.int32)), c": (
        ([-7, 7, -8, 7], [2, 2, 4, -2]),
        [[-4, 3, -2, -4], [0] * 4],
    ),
    "y, z = remainder(a.to(tl.int32), b.to(tl.int32)), c": (
        ([-7, 7, -8, 7], [2, 2, 4, -2]),
        [[1, 1, 0, -1], [0] * 4],
    ),
    "y, z = softmax_step(b, tl.full(a.shape, 1.0, tl.float32), a)": (
        ([0.0, 1.0, "-inf", 0.0], [0.0, 1.0, "-inf", "-inf"]),
        [[0.0, 1.0, "-inf", 0.0], [2, 2, 2, 1]],
    ),
    "y, z = softmax_fold(a, b, 0)": (([0.0, "-inf", 0.0, 0.0], [1.0, 0.0, 1.0, 2.0]), [[0.0] * 4, [4] * 4]),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, list]:
    """What each line gives, all from one process."""
    source = FUNCTIONS + "\nfound = {}\n"
    for line, (given, _) in CASES.items():
        made = ", ".join(f"torch.tensor({[float(item) for item in column]})" for column in given)
        source += EACH.format(line=line) + f"\n\na, b = {made}\n"
        source += "c, d = torch.zeros(4, dtype=torch.int32), torch.ones(4, dtype=torch.int32)\n"
        source += "y, z = torch.zeros(4), torch.zeros(4)\nrun[(1,)](a, b, c, d, y, z, N=4)\n"
        source += f"found[{line!r}] = [[str(item) for item in column.tolist()] for column in (y, z)]\n"
    return interpreted(source + "print(json.dumps(found))\n", tmp_path_factory.mktemp("lines"))


@pytest.mark.parametrize("line", CASES)
def test_functions_that_candidates_bring_along(line, found):
    assert found[line] == [[str(float(item)) for item in column] for column in CASES[line][1]]
