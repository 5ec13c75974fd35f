"""A small operator, candidates for it, and a way to trace them as the trace side does: in a jail of their own."""

import textwrap
from functools import partial

from workers import sandbox, tracer
from workers.protocol import Operator, Shape, ShapeRole, TraceJob
from workers.trace_job.warmup import warm
from workers.tracer.reply import TraceReply

LIMITS = sandbox.SandboxLimits(wall_s=60.0, cpu_s=60.0)

HEADER = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask)
    w = tl.load(w_ptr + cols, mask)
    tl.store(y_ptr + row * n_cols + cols, x * w, mask)


"""
ALLOCATE = "y = torch.empty_like(x)\n"
LAUNCH = "scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))\nreturn y\n"


def candidate(body: str = ALLOCATE + LAUNCH, signature: str = "x, w") -> str:
    """A source whose entry `scale` has this body, with `scale_kernel` above it."""
    return f"{HEADER}def scale({signature}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"


def operator(**changes) -> Operator:
    """`scale(x[M, N], w[N]) -> y`, all float32."""
    fields = {
        "name": "scale",
        "entry": "scale",
        "reference": "def scale(x, w):\n    return x * w\n",
        "inputs": [
            {"name": "x", "shape": ["M", "N"], "dtype": "float32"},
            {"name": "w", "shape": ["N"], "dtype": "float32"},
        ],
        "outputs": [{"name": "y", "dtype": "float32"}],
        "shapes": [{"dims": {"M": 64, "N": 128}}],
    }
    return Operator.model_validate({**fields, **changes})


def shape(role: ShapeRole = ShapeRole.BENCHMARK, **dims: int) -> Shape:
    return Shape(dims=dims, role=role)


def job(source: str | None, of: Operator | None = None, **changes) -> TraceJob:
    """A job for `sm_90` and the operator's own shapes."""
    of = of or operator()
    fields = {
        "id": "job-1",
        "search": "search-1",
        "candidate": "candidate-1",
        "source": source,
        "operator": of,
        "shapes": tuple(Shape(dims=item.dims) for item in of.shapes),
        "target": "sm_90",
    }
    return TraceJob(**{**fields, **changes})


def traced(source: str, of: Operator | None = None, allowed_imports=None, **changes) -> TraceReply:
    """What the tracer answers; it takes its process over, so it runs in a jail."""
    function = partial(tracer.trace, allowed_imports=allowed_imports) if allowed_imports else tracer.trace
    result = in_jail(function, job(source, of, **changes).model_dump_json().encode())
    return TraceReply.model_validate_json(result)


def in_jail(function, request: bytes = b"") -> bytes:
    """What a function returns in a jail of its own.

    Raises:
        AssertionError: If it ends otherwise.
    """
    warm()
    result = sandbox.run(function, request, LIMITS)
    assert result.ending is sandbox.SandboxEnding.RETURNED, result.detail
    return result.reply
