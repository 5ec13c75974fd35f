"""An operator with gradients whose kernel uses all that plans have, traced for real, and certificates of it."""

import asyncio
from functools import cache
from pathlib import Path

from service.certificates.document import Certificate, sealed
from service.evaluation.executor_client import LocalExecutor
from service.export.executors import ExportExecutors
from service.export.modules import ExportedModule, write_module
from service.export.sampling import SampledShapes, sample
from service.export.variants import choose_functions
from service.export.verification import ExportVerifier, VerifiedModule
from service.operators.catalogue import load_catalogue
from tests.service.certificates import evidence
from workers.protocol import Bundle, Device, Operator, Shape, ShapeResult, ShapeRole, TraceJob, TraceReport

SOURCE = '''
"""Ends a text: \\"\\"\\"; import os"""
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

HALF: tl.constexpr = 0.5
TWICE = tl.constexpr(HALF * 4)
SECRET = print("the module is loaded")


@triton.jit
def _scale(value, BY: tl.constexpr):
    """What a candidate says of itself."""
    return libdevice.fma(value, BY - 1.0, value)


@triton.autotune(configs=[triton.Config({"BLOCK": 256}, num_warps=2)], key=[])
@triton.jit
def double_kernel(x_ptr, seen_ptr, y_ptr, n, by: tl.constexpr, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # a comment
    mask = cols < n
    tl.store(seen_ptr + tl.program_id(0), 1)
    value = tl.load(x_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + cols, FUNCTION(value, by), mask=mask)


def launch(x, y):
    n = x.numel()
    seen = torch.zeros(8 + triton.cdiv(n, 256), dtype=torch.int32, device=x.device)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    double_kernel[grid](x, seen[8:], y, n, by=TWICE.value, FUNCTION=_scale)


def double(x, by):
    y = torch.empty_like(x)
    launch(x, y)
    return y


def double_backward(grad_y, x, y, by):
    grad_x = torch.empty_like(x)
    launch(grad_y, grad_x)
    return grad_x
'''
"""Lifted whole in spirit: a callee as an argument, constants of constants, a fill, a part of a buffer, autotuning."""

OPERATOR = Operator.model_validate(
    {
        "name": "double",
        "entry": "double",
        "reference": "def double(x, by):\n    return x * by\n",
        "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": ["N"]}],
        "scalars": [{"name": "by", "dtype": "float", "value": 2.0}],
        "shapes": [{"dims": {"N": 1024}}],
        "ranges": {"N": [1, 4096]},
        "backward": True,
    }
)
SHAPES = (Shape(dims={"N": 4}, role=ShapeRole.BOUNDARY), Shape(dims={"N": 1024}))
KEYS = tuple(shape.key for shape in SHAPES)


def defined(reference: str) -> Operator:
    """The operator with a reference of its own."""
    return OPERATOR.model_copy(update={"reference": reference})


def traced(reference: str = OPERATOR.reference) -> Bundle:
    """What `SOURCE` is traced to, for the operator with some reference."""
    return bundle_of(reference, SOURCE)


@cache
def bundle_of(reference: str, source: str) -> Bundle:
    """What a source is traced to, for the operator with some reference."""

    async def run() -> TraceReport:
        job = TraceJob(id="t", search="t", operator=defined(reference), shapes=SHAPES, target="sm_90", source=source)
        async with LocalExecutor("trace") as bench:
            return await bench.run(job, TraceReport)

    report = asyncio.run(run())
    assert report.variants and report.variants[0].bundle is not None, report.reason
    return report.variants[0].bundle


def certificate(source: str = SOURCE, bundle: Bundle | None = None, reference: str = OPERATOR.reference) -> Certificate:
    """A certificate of predicted figures on a source; with the bundle that is that of `SOURCE` if none is given."""
    bundle, operator = bundle or traced(reference), defined(reference)
    plain = evidence.certificate()
    times = (ShapeResult(shape=KEYS[1], mid_us=5.0, low_us=5.0, high_us=5.0),)
    told = {
        "device": Device.parse("model:sm_90"),
        "operator": operator,
        "operator_digest": operator.digest,
        "shapes": SHAPES,
        "source": source,
        "bundle": bundle,
        "bundle_digest": bundle.identity,
        "configuration": bundle.configuration,
        "verdict": plain.verdict.model_copy(update={"shapes": times, "bundle": bundle.identity}),
    }
    return sealed(plain.model_copy(update=told))


def sampled(*, small: bool = False) -> SampledShapes:
    """The shapes that an export draws; with `small` those alone that the search judged."""
    return sample(OPERATOR, SHAPES) if not small else SampledShapes(SHAPES, frozenset(KEYS[1:]))


@cache
def verified() -> VerifiedModule:
    """The module of the certificate, with every function traced again and judged by the interpreter."""

    elite = certificate()

    async def run() -> VerifiedModule:
        async with ExportExecutors(Device.parse("model:sm_90")) as executors:
            return await ExportVerifier(executors).verified(elite, sampled())

    return asyncio.run(run())


GLUON = (Path(__file__).parents[2] / "gpu/kernels/matmul_gluon_specialised.py").read_text()
"""Host descriptors, warps of two roles and words of several releases; a kernel in Triton where rows are odd."""
GLUON_OPERATOR = load_catalogue()["matmul"]
GLUON_SHAPES = SampledShapes(
    (
        Shape(dims={"M": 33, "N": 20, "K": 17}, role=ShapeRole.BOUNDARY),
        Shape(dims={"M": 96, "N": 264, "K": 72}),
        Shape(dims={"M": 128, "N": 512, "K": 256}),
    ),
    frozenset({"K=256,M=128,N=512"}),
)


@cache
def gluon_module() -> ExportedModule:
    """The module of a kernel in Gluon, from real traces; no device without a card can judge it."""

    async def traced_for(bench: LocalExecutor, **symbolic: object) -> TraceReport:
        told = {"operator": GLUON_OPERATOR, "shapes": GLUON_SHAPES.all, "target": "sm_90", "source": GLUON}
        return await bench.run(TraceJob(id="t", search="t", **told, **symbolic), TraceReport)  # type: ignore[arg-type]

    async def run() -> tuple[TraceReport, TraceReport]:
        async with LocalExecutor("trace") as bench:
            return await traced_for(bench), await traced_for(bench, symbolic={})

    plain, symbolic = asyncio.run(run())
    bundle = plain.variants[0].bundle
    assert bundle is not None, plain.reason
    elite = certificate(GLUON, bundle)
    told = {"operator": GLUON_OPERATOR, "operator_digest": GLUON_OPERATOR.digest, "shapes": GLUON_SHAPES.all}
    elite = sealed(elite.model_copy(update=told))
    return write_module(elite, choose_functions(symbolic.symbolic, [shape.dims for shape in GLUON_SHAPES.all]))


OPTIONAL_SOURCE = """
import torch
import triton
import triton.language as tl


@triton.jit
def shift_kernel(bias_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    value = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)
    if bias_ptr is not None:
        value += tl.load(bias_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * n + cols, value, mask=mask)


def shift(bias, x, scale):
    y = torch.empty_like(x)
    m, n = x.shape
    block = 128 if bias is None else 256
    shift_kernel[(m, triton.cdiv(n, block))](bias, x, y, n, BLOCK=block)
    return y if scale is None else y
"""
OPTIONAL = Operator.model_validate(
    {
        "name": "shift",
        "entry": "shift",
        "reference": "def shift(bias, x, scale):\n    y = x if bias is None else x + bias\n    return y + 0.0\n",
        "inputs": [
            {"name": "bias", "shape": ["N"], "dtype": "float32", "optional": True},
            {"name": "x", "shape": ["M", "N"], "dtype": "float32"},
            {"name": "scale", "shape": ["N"], "dtype": "float32", "optional": True},
        ],
        "outputs": [{"name": "y", "dtype": "float32", "shape": ["M", "N"]}],
        "shapes": [{"dims": {"M": 4, "N": 256, "bias": 1, "scale": 1}}],
        "ranges": {"M": [1, 64], "N": [1, 512]},
    }
)
"""The first input may be None, so the device is another's; the last one changes nothing."""


@cache
def optional_module() -> VerifiedModule:
    """The verified module of an operator with optional inputs."""
    shapes = tuple(
        Shape(dims={"M": 4, "N": n, "bias": bias, "scale": scale}, role=role)
        for n, role in ((256, ShapeRole.BENCHMARK), (33, ShapeRole.BOUNDARY))
        for bias in (0, 1)
        for scale in (0, 1)
    )

    async def run() -> VerifiedModule:
        job = TraceJob(id="t", search="t", operator=OPTIONAL, shapes=shapes, target="sm_90", source=OPTIONAL_SOURCE)
        async with ExportExecutors(Device.parse("model:sm_90")) as executors:
            report = await executors.trace(job)
            bundle = report.variants[0].bundle
            assert bundle is not None, report.reason
            told = {"operator": OPTIONAL, "operator_digest": OPTIONAL.digest, "shapes": shapes}
            elite = sealed(certificate(OPTIONAL_SOURCE, bundle).model_copy(update=told))
            return await ExportVerifier(executors).verified(elite, sample(OPTIONAL, shapes))

    return asyncio.run(run())
