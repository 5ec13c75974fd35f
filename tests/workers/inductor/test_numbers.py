"""What is written anew computes the same: run in Triton's interpreter, in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from tests.workers.inductor.test_products import KERNEL, flattened
from workers.inductor.spelling import COMBINE

HEADER = "import torch\nimport triton\nimport triton.language as tl\nnan, inf = float('nan'), float('inf')\n\n"
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


def interpreted(source: str) -> list:
    """What a script prints as JSON."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    with_path = [sys.executable, "-c", "import sys; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))"]
    found = subprocess.run([*with_path, source], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_a_flattened_product_gives_what_the_text_before_gives(tmp_path):
    done, body = flattened()
    assert done
    head = KERNEL.strip().splitlines()[0]
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    before = KERNEL.strip().replace(": C", ": tl.constexpr")
    head = head.replace(": C", ": tl.constexpr").replace("def kernel", "def plain")
    kernels = f"@triton.jit\n{before}\n\n@triton.jit\n{head}\n{indented}\n"
    launch = """
a, b = torch.randn(37, 21, dtype=torch.float16), torch.randn(21, 50, dtype=torch.float16)
found = [torch.full((37, 50), 7.0) for _ in range(2)]
for kernel, c, grid in ((kernel, found[0], (4, 3, 1)), (plain, found[1], (4, 3))):
    kernel[grid](a, b, c, 21, 50, 37, 50, 21, YBLOCK=16, XBLOCK=16, R0_BLOCK=16)
import json
print(json.dumps([torch.equal(*found), torch.allclose(found[1], a.float() @ b.float(), atol=1e-2)]))
"""
    script = tmp_path / "script.py"
    script.write_text(HEADER + kernels + launch)
    assert interpreted(str(script)) == [True, True]


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


@pytest.mark.parametrize(("line", "given", "expected"), [(line, *case) for line, case in CASES.items()])
def test_functions_that_candidates_bring_along(line, given, expected, tmp_path):
    numbers = [[float(item) for item in column] for column in given]
    made = ", ".join(f"torch.tensor({column})" for column in numbers)
    script = tmp_path / "script.py"
    script.write_text(
        HEADER
        + FUNCTIONS
        + EACH.format(line=line)
        + f"a, b = {made}\nc, d = torch.zeros(4, dtype=torch.int32), torch.ones(4, dtype=torch.int32)\n"
        + "y, z = torch.zeros(4), torch.zeros(4)\nrun[(1,)](a, b, c, d, y, z, N=4)\n"
        + "import json\nprint(json.dumps([[str(item) for item in column.tolist()] for column in (y, z)]))\n"
    )
    assert interpreted(str(script)) == [[str(float(item)) for item in column] for column in expected]
