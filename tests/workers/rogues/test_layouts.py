"""Layouts that an operator names in its reference: kernels that keep to them, and kernels that are wrong as people are.

Inputs are contiguous. An operator over something else says so: transposed, sliced, broadcast, or one element further on.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.workers.rogues.modelled import DEVICE, model_job, trace_of
from workers.devices import ModelDevice
from workers.mutation_testing import admit
from workers.protocol import Operator, Outcome, Report, TraceReport
from workers.protocol.plan import Pointer

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operator-spec.md"
HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
DOUBLE = """@triton.jit
def kernel(x_ptr, y_ptr, n_cols, x_row, x_col, y_row, y_col, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_row + cols * y_col, x * 2.0, mask=mask)


def doubled(x):
    {view}
    y = {output}
    kernel[(y.shape[0],)]({given}, y, y.shape[1], {strides}, {y_strides}, BLOCK=triton.next_power_of_2(y.shape[1]))
    return y
"""
"""Rows of a matrix times two; the host says where they lie."""
ADD = """@triton.jit
def kernel(x_ptr, row_ptr, y_ptr, n_cols, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    added = tl.load(row_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, x + added, mask=mask)


def biased(x, bias):
    {view}
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, {given}, y, x.shape[1], {stride}, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""
STEP = """@triton.jit
def kernel(later_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr, FULL: tl.constexpr):
    {hint}
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if FULL:
        later, x = tl.load(later_ptr + {later}), tl.load(x_ptr + offsets)
        tl.store(y_ptr + offsets, later.to(tl.float32) - x.to(tl.float32))
    else:
        mask = offsets < n
        later = tl.load(later_ptr + {later}, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, later - x, mask=mask)


def stepped(x):
    n = x.shape[0] - 1
    y = torch.empty((n,), dtype=x.dtype, device=x.device)
    kernel[(triton.cdiv(n, 128),)]({given}, x, y, n, BLOCK=128, FULL=n % 128 == 0, num_warps=1)
    return y
"""


def operator(entry: str, body: str, inputs: dict[str, tuple[object, ...]], sizes: dict[str, int], least: int = 1):
    return Operator.model_validate(
        {
            "name": entry,
            "entry": entry,
            "reference": f"def {entry}({', '.join(inputs)}):\n    {body}\n",
            "inputs": [{"name": name, "shape": shape, "dtype": "bfloat16"} for name, shape in inputs.items()],
            "outputs": [{"name": "y", "dtype": "bfloat16"}],
            "shapes": [{"dims": sizes}],
            "ranges": {name: (least, 1024) for name in sizes},
        }
    )


MATRIX, SIZES = {"x": ("M", "N")}, {"M": 64, "N": 256}
OPERATORS = {
    "transposed": operator("doubled", "return (x.t().float() * 2).to(x.dtype)", MATRIX, SIZES),
    "sliced": operator("doubled", "return (x[:, 3:].float() * 2).to(x.dtype)", MATRIX, SIZES, least=4),
    "broadcast": operator(
        "biased", "return (x.float() + bias.expand(x.shape).float()).to(x.dtype)", {**MATRIX, "bias": ("N",)}, SIZES
    ),
    "one further": operator(
        "stepped", "return (x[1:].float() - x[:-1].float()).to(x.dtype)", {"x": ("N",)}, {"N": 2**12 + 1}, least=2
    ),
}
TURNED = {
    "view": "view = x.t()",
    "output": "torch.empty(view.shape, dtype=x.dtype, device=x.device)",
    "given": "view",
    "strides": "view.stride(0), view.stride(1)",
    "y_strides": "y.stride(0), y.stride(1)",
}
CUT = TURNED | {"view": "view = x[:, 3:]"}
SPREAD = {"view": "view = bias.expand(x.shape)", "given": "view", "stride": "view.stride(0)"}
LATER = {"hint": "", "later": "offsets", "given": "x[1:]"}


def kernel(template: str, said: dict[str, str], **changes: str) -> str:
    return HEADER + template.format(**said | changes)


RIGHT = {
    "transposed": {
        "with the strides of a view": kernel(DOUBLE, TURNED),
        "with strides by hand": kernel(DOUBLE, TURNED, given="x", strides="1, x.shape[1]"),
        "to a result that is transposed as well": kernel(DOUBLE, TURNED, output="torch.empty_like(view)"),
    },
    "sliced": {
        "with the stride of a view": kernel(DOUBLE, CUT),
        "as a strided view": kernel(
            DOUBLE, CUT, view="view = x.as_strided((x.shape[0], x.shape[1] - 3), (x.shape[1], 1), 3)"
        ),
        "narrowed": kernel(DOUBLE, CUT, view="view = x.narrow(1, 3, x.shape[1] - 3)"),
    },
    "broadcast": {
        "expanded": kernel(ADD, SPREAD),
        "as a strided view": kernel(ADD, SPREAD, view="view = bias.as_strided(x.shape, (0, 1))"),
        "with no stride at all": kernel(ADD, SPREAD, given="bias", stride="0"),
    },
    "one further": {
        "a view": kernel(STEP, LATER),
        "an offset": kernel(STEP, LATER, later="offsets + 1", given="x"),
    },
}
"""Kernels that are right, by how they say it."""
LONG = "tl.max_contiguous(tl.multiple_of({}, 8), 8)"
"""What a run of eight elements that begins at a multiple of 16 bytes is called."""
WRONG = {
    "transposed": {
        "the stride of a row taken for its length": (
            kernel(DOUBLE, TURNED, strides="view.shape[1], 1"),
            Outcome.WRONG_RESULT,
        ),
        "a result that is transposed, too, written in order": (
            kernel(DOUBLE, TURNED, output="torch.empty_like(view)", y_strides="y.shape[1], 1"),
            Outcome.WRONG_RESULT,
        ),
    },
    "sliced": {
        "the offset ignored": (kernel(DOUBLE, CUT, given="x"), Outcome.WRONG_RESULT),
        "the length of a row taken for its stride": (
            kernel(DOUBLE, CUT, strides="view.shape[1], 1"),
            Outcome.WRONG_RESULT,
        ),
        "the offset added twice": (
            kernel(DOUBLE, CUT, view="view = x[:, 3:].as_strided((x.shape[0], x.shape[1] - 3), x.stride(), 6)"),
            Outcome.PLAN_REJECTED,
        ),
    },
    "broadcast": {
        "read as if it were full": (kernel(ADD, SPREAD, stride="x.shape[1]"), Outcome.OUT_OF_BOUNDS),
    },
    "one further": {
        "the offset ignored": (kernel(STEP, LATER, given="x"), Outcome.WRONG_RESULT),
        "an odd address taken for an even one": (
            kernel(STEP, LATER, later=LONG.format("offsets + 1"), given="x"),
            Outcome.NOT_INTERPRETABLE,
        ),
        "a view taken for aligned memory": (
            kernel(STEP, LATER, hint="later_ptr = tl.multiple_of(later_ptr, 16)"),
            Outcome.NOT_INTERPRETABLE,
        ),
    },
}
"""Kernels that are wrong as people are, and what becomes of them on `model`."""


@cache
def graphs(layout: str):
    report = trace_of(OPERATORS[layout], None, 7)
    assert report.graphs, report.reason
    return report.graphs


def judged(layout: str, source: str) -> Report | TraceReport:
    report = trace_of(OPERATORS[layout], source, 7)
    if report.outcome is not Outcome.CORRECT:
        return report
    return ModelDevice(DEVICE, "tester").measure(model_job(OPERATORS[layout], source, report, graphs(layout)))


def named(table):
    return [pytest.param(layout, name, id=f"{layout}-{name}") for layout, kinds in table.items() for name in kinds]


@pytest.mark.parametrize("layout", OPERATORS)
def test_the_gate_can_judge_it(layout):
    gate = admit(OPERATORS[layout], graphs(layout))
    assert gate.verdict == "passed", gate.reason


@pytest.mark.parametrize(("layout", "name"), named(RIGHT))
def test_who_keeps_to_the_layout_is_right(layout, name):
    report = judged(layout, RIGHT[layout][name])
    assert report.outcome is Outcome.CORRECT, report.reason


@pytest.mark.parametrize(("layout", "name"), named(WRONG))
def test_who_mistakes_it_is_refused(layout, name):
    source, outcome = WRONG[layout][name]
    report = judged(layout, source)
    assert report.outcome is outcome, (report.outcome, report.reason)
    assert report.reason


def test_what_the_page_says_is_judged_as_it_says():
    section = PAGE.read_text().partition("## Layouts")[2].partition("\n## ")[0]
    reference, candidate = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert reference == OPERATORS["sliced"].reference
    report = judged("sliced", HEADER + candidate)
    assert report.outcome is Outcome.CORRECT, report.reason


def test_a_view_is_as_aligned_as_it_is():
    """At a full tile what begins with the buffer is moved four elements at once, and what is one further one by one."""
    bundle = trace_of(OPERATORS["one further"], RIGHT["one further"]["a view"], 7).variants[0].bundle
    (plan,) = (plan for plan in bundle.plans if plan.shape.dims == {"N": 129})
    (launch,) = plan.launches
    assert [pointer.offset_bytes for pointer in launch.arguments if isinstance(pointer, Pointer)] == [2, 0, 0]
    loads = re.findall(r"ld\.global\S*", bundle.kernels[launch.kernel].assembly)
    assert sorted(loads) == [*["ld.global.b16"] * 4, "ld.global.v2.b32"]
