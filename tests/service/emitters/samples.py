"""Kernels to rewrite, and the arguments to call them with."""

import random
import re
from importlib import resources

from service.emitters.rules import RULES
from service.emitters.rules.kernels import kernels
from service.operators.sources import jit_functions, parse

SIZES = ((1, 1), (3, 7), (5, 33), (2, 63))
"""Rows, then elements a row: one, a prime, one above and one below a multiple of the tiles."""


def tensor(*shape):
    return {"shape": list(shape)}


ARGUMENTS = {
    "rmsnorm": lambda m, n: [tensor(m, n), tensor(n)],
    "layernorm": lambda m, n: [tensor(m, n), tensor(n), tensor(n)],
    "softmax": lambda m, n: [tensor(m, n)],
    "cross_entropy": lambda m, n: [tensor(m, n), {"shape": [m], "high": n}],
    "swiglu": lambda m, n: [tensor(m, n), tensor(m, n)],
    "gelu": lambda m, n: [tensor(m, n)],
    "rope": lambda m, n: [tensor(1, 2, m, 2 * n), tensor(m, 2 * n), tensor(m, 2 * n)],
    "matmul": lambda m, n: [tensor(5 * m + 1, n), tensor(n, 6 * m + 1)],
    "attention": lambda m, n: [*[tensor(1, 2, 4 * m + 1, 16)] * 3, True],
}
"""Arguments of each operator of the catalogue, as the process reads them."""


def seed(operator):
    """A kernel of the catalogue."""
    return (resources.files("operators") / operator / "seeds" / "plain.py").read_text()


def small(operator):
    """A kernel of the catalogue, with tiles so small that small shapes take several programs and several turns."""
    return re.sub(r"\b(1024|4096|64|32)\b", "16", seed(operator))


def candidate(
    lines,
    signature="x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr",
    passed="x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols)",
    grid="(n_rows,)",
    host="",
):
    """A module with one kernel, made of some lines."""
    inner = "\n    ".join(lines.strip("\n").splitlines())
    return f"""import torch
import triton
import triton.language as tl

@triton.jit
def kernel({signature}):
    {inner}

def entry(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    {host}
    kernel[{grid}]({passed})
    return y
"""


DOUBLED = """
row = tl.program_id(0).to(tl.int64)
cols = tl.arange(0, BLOCK)
mask = cols < n_cols
x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
tl.store(y_ptr + row * n_cols + cols, x + x, mask=mask)
"""
"""Lines of a kernel that doubles a row."""


def function_of(source):
    """The first kernel of a source."""
    return next(iter(jit_functions(parse(source)).values()))


def kernel_of(source):
    """The only understood kernel of a source, with its launches."""
    (found,) = kernels(parse(source))
    return found


def rewritten(name, source, seed=0):
    """A source after one rule, which must apply."""
    after = RULES[name].rewrite(source, random.Random(seed))
    assert after is not None
    return after


def applies(name, source):
    """Whether a rule applies to a source."""
    return RULES[name].rewrite(source, random.Random(0)) is not None
