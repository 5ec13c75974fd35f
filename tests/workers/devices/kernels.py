"""Candidates for softmax and a column sum, traced for real, and jobs to judge them."""

from functools import cache

from tests.traces import trace_once
from workers.protocol import (
    BenchmarkShape,
    Bundle,
    Device,
    Graph,
    MeasureJob,
    Operator,
    Shape,
    ShapeRole,
    TraceJob,
    TraceReport,
)

SOFTMAX = Operator(
    name="softmax",
    entry="softmax",
    reference="import torch\n\n\ndef softmax(x):\n    return torch.softmax(x.float(), -1).to(x.dtype)\n",
    inputs=({"name": "x", "shape": ("M", "N"), "dtype": "bfloat16"},),
    outputs=({"name": "y", "dtype": "bfloat16"},),
    shapes=(BenchmarkShape(dims={"M": 2048, "N": 1024}),),
    ranges={"M": (1, 8192), "N": (1, 8192)},
)
COLUMN_SUM = Operator(
    name="column_sum",
    entry="column_sum",
    reference="def column_sum(x):\n    return x.float().sum(0)\n",
    inputs=({"name": "x", "shape": ("M", "N"), "dtype": "bfloat16"},),
    outputs=({"name": "y", "dtype": "float32"},),
    shapes=(BenchmarkShape(dims={"M": 512, "N": 1024}),),
    ranges={"M": (1, 8192), "N": (1, 8192)},
)
GRAM = Operator(
    name="gram",
    entry="gram",
    reference="def gram(x):\n    return x @ x.T\n",
    inputs=({"name": "x", "shape": ("M", "N"), "dtype": "float32"},),
    outputs=({"name": "y", "dtype": "float32"},),
    shapes=(BenchmarkShape(dims={"M": 2048, "N": 1024}),),
    ranges={"M": (1, 2048), "N": (1, 1024)},
)
OPERATORS = {"softmax": SOFTMAX, "column_sum": COLUMN_SUM, "gram": GRAM}

SHAPES = (
    Shape(dims={"M": 37, "N": 129}, role=ShapeRole.BOUNDARY),
    Shape(dims={"M": 1, "N": 1}, role=ShapeRole.BOUNDARY),
    Shape(dims={"M": 64, "N": 128}, role=ShapeRole.HELD_OUT),
)

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
KERNEL = """@triton.jit
def kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=float("-inf")).to(tl.float32)
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


"""
HOST = """def softmax(x):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""
PLAIN = HEADER + KERNEL + HOST


def changed(old: str, new: str) -> str:
    """The plain softmax with a fault planted."""
    assert old in PLAIN, old
    return PLAIN.replace(old, new)


AUTOTUNED = (
    HEADER + "@triton.autotune([triton.Config({'ROWS': 1}), triton.Config({'ROWS': 4}, num_warps=8)], key=['n_cols'])\n"
    "@triton.heuristics({'BLOCK': lambda args: triton.next_power_of_2(args['n_cols'])})\n"
    "@triton.jit\n"
    "def kernel(x_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):\n"
    "    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)\n"
    "    cols = tl.arange(0, BLOCK)\n"
    "    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)\n"
    "    place = rows[:, None] * n_cols + cols[None, :]\n"
    "    x = tl.load(x_ptr + place, mask=mask, other=-float('inf')).to(tl.float32)\n"
    "    x = tl.where(rows[:, None] < n_rows, x, 0.0)\n"
    "    e = tl.exp(x - tl.max(x, 1)[:, None])\n"
    "    tl.store(y_ptr + place, e / tl.sum(e, 1)[:, None], mask=mask)\n\n\n"
    "def softmax(x):\n"
    "    y = torch.empty_like(x)\n"
    "    grid = lambda meta: (triton.cdiv(x.shape[0], meta['ROWS']),)\n"
    "    kernel[grid](x, y, x.shape[0], x.shape[1])\n"
    "    return y\n"
)

SUM = (
    HEADER + "@triton.jit\n"
    "def partial_sums(x_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):\n"
    "    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)\n"
    "    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)\n"
    "    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)\n"
    "    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0).to(tl.float32)\n"
    "    {update}\n\n\n"
    "def column_sum(x):\n"
    "    y = torch.{factory}(x.shape[1], dtype=torch.float32, device=x.device)\n"
    "    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 64))\n"
    "    partial_sums[grid](x, y, x.shape[0], x.shape[1], ROWS=16, BLOCK=64)\n"
    "    return y\n"
)
ATOMIC = "tl.atomic_add(y_ptr + cols, tl.sum(x, 0), mask=cols < n_cols)"
RACE = "tl.store(y_ptr + cols, tl.load(y_ptr + cols, mask=cols < n_cols) + tl.sum(x, 0), mask=cols < n_cols)"


PRODUCT = (
    HEADER + "@triton.jit\n"
    "def kernel(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):\n"
    "    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    others = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)\n"
    "    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)\n"
    "    for start in range(0, n_cols, BLOCK):\n"
    "        cols = start + tl.arange(0, BLOCK)[None, :]\n"
    "        inside, other = cols < n_cols, others[:, None]\n"
    "        a = tl.load(x_ptr + rows[:, None] * n_cols + cols, mask=(rows[:, None] < n_rows) & inside, other=0.0)\n"
    "        b = tl.load(x_ptr + other * n_cols + cols, mask=(other < n_rows) & inside, other=0.0)\n"
    "        total = tl.dot(a, tl.trans(b), total, input_precision='ieee')\n"
    "    mask = (rows[:, None] < n_rows) & (others[None, :] < n_rows)\n"
    "    tl.store(y_ptr + rows[:, None] * n_rows + others[None, :], total, mask=mask)\n\n\n"
    "def gram(x):\n"
    "    y = torch.empty((x.shape[0], x.shape[0]), dtype=x.dtype, device=x.device)\n"
    "    tiles = triton.cdiv(x.shape[0], 32)\n"
    "    kernel[(tiles, tiles)](x, y, x.shape[0], x.shape[1], BLOCK=32)\n"
    "    return y\n"
)  # fmt: skip
"""A float32 product of rows with rows."""


TUPLES = (
    HEADER + "@triton.jit\n"
    "def loaded(pointers, which: tl.constexpr, place, inside):\n"
    "    return tl.load(pointers[which] + place, mask=inside, other=-float('inf')).to(tl.float32)\n\n\n"
    "@triton.jit\n"
    "def kernel(pointers, sizes, SHAPE: tl.constexpr):\n"
    "    inputs, output = pointers\n"
    "    cols = tl.arange(0, SHAPE[0])\n"
    "    place, inside = tl.program_id(0) * sizes[0] + cols, cols < sizes[0]\n"
    "    most = tl.full((SHAPE[0],), -float('inf'), tl.float32)\n"
    "    for which in tl.static_range(len(inputs)):\n"
    "        most = tl.maximum(most, loaded(inputs, which, place, inside))\n"
    "    e = tl.exp(loaded(inputs, 0, place, inside) - tl.max(most, 0))\n"
    "    tl.store(output + place, e / tl.sum(e, 0) * sizes[1], mask=inside)\n\n\n"
    "def softmax(x):\n"
    "    y = torch.empty_like(x)\n"
    "    sizes = (x.shape[1], 1.0, 1, None)\n"
    "    kernel[(x.shape[0],)](((x, x), y), sizes, SHAPE=(triton.next_power_of_2(x.shape[1]), (2,)))\n"
    "    return y\n"
)  # fmt: skip
"""A softmax whose arguments are tuples, one of them nested and two with constants."""


@cache
def traced(source: str | None, operator: str = "softmax", target: str = "sm_90") -> TraceReport:
    """A candidate's trace, or the reference's for None."""
    op = OPERATORS[operator]
    shapes = (*SHAPES, Shape(dims=op.shapes[0].dims))
    job = TraceJob(id="t", search="s", candidate="c", source=source, operator=op, shapes=shapes, target=target)
    report = trace_once(job)
    assert report.outcome == "correct", report
    return report


def graphs(operator: str) -> tuple[Graph, ...]:
    """The reference for every shape."""
    return traced(None, operator).graphs


def job_for(source: str, operator: str = "softmax", variant: int = 0, target: str = "sm_90", **more) -> MeasureJob:
    """An order to judge a variant of a candidate."""
    bundle = traced(source, operator, target).variants[variant].bundle
    return MeasureJob(
        id="m",
        search="s",
        candidate="c",
        variant=variant,
        bundle=bundle,
        operator=OPERATORS[operator],
        graphs=graphs(operator),
        device=Device.parse(f"model:{target}"),
        **{"source": source, **more},
    )


def job_of_lines(source: str) -> tuple[Bundle, Bundle]:
    """A softmax's bundle at its benchmark shape, and that of the same source traced with line numbers."""
    shape = Shape(dims={"M": 2048, "N": 1024}, role=ShapeRole.BENCHMARK)
    found = []
    for lines in (False, True):
        job = TraceJob(
            id="t",
            search="s",
            candidate="c",
            source=source,
            operator=SOFTMAX,
            shapes=(shape,),
            target="sm_90",
            lines=lines,
        )
        bundle = trace_once(job).variants[0].bundle
        assert bundle is not None
        found.append(bundle)
    return found[0], found[1]
