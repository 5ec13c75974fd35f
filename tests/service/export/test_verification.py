"""Verification: every function is traced and judged, and what differs, fails or does not compile is left out."""

import asyncio
from dataclasses import replace

import pytest

from service.certificates.document import Certificate
from service.export.executors import ExportExecutors
from service.export.extraction import NotExtractable
from service.export.modules import ExportedModule, write_module
from service.export.variants import exact_functions, ones
from service.export.verification import ExportVerifier, VerifiedModule, specialises_fully
from tests.service.export.pieces import (
    GLUON_SHAPES,
    KEYS,
    OPERATOR,
    SOURCE,
    bundle_of,
    certificate,
    gluon_module,
    sampled,
    verified,
)
from workers.protocol import Device, Outcome

MODEL = Device.parse("model:sm_90")


def test_every_function_has_a_verdict_of_its_own() -> None:
    found = verified()
    assert [each.report.outcome for each in found.verdicts] == [Outcome.CORRECT] * len(found.module.functions)
    assert [bool(each.function.assumed) for each in found.verdicts] == [True, False], "divisible by 16, and any"
    aligned, generic = found.verdicts
    assert not set(aligned.kernels) & set(generic.kernels) and len(aligned.report.checks) > 3
    assert set(aligned.shapes).isdisjoint(generic.shapes) and KEYS[1] in aligned.shapes
    assert found.times and all(time_us > 0 for time_us in found.times.values()) and not found.pytorch
    assert sampled().spread == set(found.times)


def test_a_shape_is_served_by_the_judged_machine_code_where_triton_specialises_alike() -> None:
    aligned, generic = verified().module.functions
    assert specialises_fully(aligned, {"N": 1024}) and not specialises_fully(generic, {"N": 1024})
    assert specialises_fully(generic, {"N": 1023}) and not specialises_fully(generic, {"N": 1}), "1 is a constant"
    single = ones(generic.plan, {"N": 1})
    assert single and specialises_fully(replace(generic, ones=single), {"N": 1})
    judged = set(certificate().bundle.cubins.values())
    assert set(verified().verdicts[0].kernels) <= judged


@pytest.fixture(scope="module")
def module() -> ExportedModule:
    return verified().module


async def test_a_module_that_differs_is_found(module: ExportedModule) -> None:
    then = {"triton": "3.6.0"}
    aged = module.certificate.verdict.model_copy(update={"versions": then})
    older = module.certificate.model_copy(update={"verdict": aged})

    def changed(before: str, after: str) -> ExportedModule:
        assert before in module.text
        return replace(module, text=module.text.replace(before, after), certificate=older)

    few = sampled(small=True)
    async with ExportExecutors(MODEL) as executors:
        verifier = ExportVerifier(executors)
        assert await verifier.retrace(module, few) == ""
        for before, after in (
            ("fill_(0)", "fill_(1)"),
            ("((N + 255) // 256, 1, 1)", "((N + 255) // 256 + 1, 1, 1)"),
            ("N % 16", "N % 4"),
        ):
            wrong = await verifier.retrace(changed(before, after), few)
            assert "differs from the judged one at" in wrong and "judged with triton 3.6.0" in wrong, before
        slow = await verifier.retrace(changed("BY - 1.0", "BY - 0.5"), few)
        assert "differs from the judged one at N=1024, N=4" in slow
        broken = await verifier.retrace(changed("import torch\n", "from sys import *\nimport torch\n"), few)
        assert "does not trace: forbidden_import" in broken


def candidate(before: str, after: str) -> Certificate:
    """A certificate of the source with a change, as the search would have traced it."""
    assert before in SOURCE
    source = SOURCE.replace(before, after)
    return certificate(source, bundle_of(OPERATOR.reference, source))


WRONG = (
    "tl.store(y_ptr + cols, FUNCTION(value, by), mask=mask)",
    "tl.store(y_ptr + cols, FUNCTION(value, by) + (n % 16 > 0) * (n > 4), mask=mask)",
)


def test_a_function_that_is_wrong_where_nobody_searched_is_left_out() -> None:
    found = run(candidate(*WRONG))
    assert [bool(each.function.assumed) for each in found.verdicts] == [True]
    assert any("wrong_result at" in remark for remark in found.remarks)
    assert found.module.function_for({"N": 33}) is None and found.module.function_for({"N": 32}) == 0


def test_a_function_that_does_not_compile_is_left_out() -> None:
    found = run(candidate("by=TWICE.value,", "by=TWICE.value if n < 2000 else None,"))
    assert len(found.verdicts) == 2 and "computed by PyTorch: compile_error" in " ".join(found.remarks)
    served = [n for n in (16, 1999, 2000, 4096) if found.module.function_for({"N": n}) is not None]
    assert served == [16, 1999]


DESCRIBED = """
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def double_kernel(x_tiles, y_tiles, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    y_tiles.store([at], x_tiles.load([at]) * by)


def launch(x, y, by):
    x_tiles, y_tiles = (TensorDescriptor(each, each.shape, each.stride(), [64]) for each in (x, y))
    double_kernel[(triton.cdiv(x.numel(), 64),)](x_tiles, y_tiles, by, BLOCK=64)
    return y


def double(x, by):
    return launch(x, torch.empty_like(x), by)


def double_backward(grad_y, x, y, by):
    return launch(grad_y, torch.empty_like(x), by)
"""


def test_descriptors_of_host_code_are_written_with_formulas() -> None:
    found = run(certificate(DESCRIBED, bundle_of(OPERATOR.reference, DESCRIBED)))
    (verdict,) = found.verdicts
    assert verdict.report.outcome is Outcome.CORRECT and len(set(verdict.kernels)) == 1
    assert "TensorDescriptor(x, (N,), (1,), [64])" in found.module.text
    assert all(found.module.function_for({"N": n}) == 0 for n in (1, 77, 4096))


IN_TUPLES = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(tensors, sizes, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < sizes[0]
    value = tl.load(tensors[0] + at * sizes[1][0], mask=mask)
    if sizes[1][1] is None:
        value = value * by
    tl.store(tensors[1] + at, value, mask=mask)


def launch(x, y, by):
    n = x.numel()
    double_kernel[(triton.cdiv(n, 256),)]((x, y), (n, (x.stride(0), None)), by, BLOCK=256)
    return y


def double(x, by):
    return launch(x, torch.empty_like(x), by)


def double_backward(grad_y, x, y, by):
    return launch(grad_y, torch.empty_like(x), by)
"""


def test_parts_of_tuples_are_formulas_with_guards_of_what_triton_assumes_of_them() -> None:
    found = run(certificate(IN_TUPLES, bundle_of(OPERATOR.reference, IN_TUPLES)))
    assert (
        not found.remarks
        and "double_kernel[((N + 255) // 256, 1, 1)]((x, b2,), (N, (1, None,),), " in found.module.text
    )
    aligned, generic = found.verdicts
    assert {name for _, name in aligned.function.assumed} == {"sizes.0"} and not generic.function.assumed
    assert len(set(aligned.kernels)) == len(set(generic.kernels)) == 1, "Triton compiles no other kernel at any shape"
    assert "__any_" not in found.module.text, "Triton specialises parts of tuples whatever it is told"
    assert [found.module.function_for({"N": n}) for n in (1024, 16, 1023, 2, 1)] == [0, 0, 1, 1, None]


@pytest.fixture(scope="module")
def in_gluon() -> ExportedModule:
    return gluon_module()


async def test_gluon_is_exported_with_formulas_and_judged_on_cards_alone(in_gluon: ExportedModule) -> None:
    module, elite = in_gluon, in_gluon.certificate
    assert all(module.function_for(shape.dims) is not None for shape in GLUON_SHAPES.all)
    one_shape = write_module(elite, exact_functions(elite.bundle.plans))
    assert "num_warps=4" in one_shape.text, "not 8, the warps of both roles"
    async with ExportExecutors(MODEL) as executors:
        verifier = ExportVerifier(executors)
        for honest in (module, one_shape):
            assert await verifier.retrace(honest, GLUON_SHAPES) == ""
        for before, after in (
            ("swizzle_byte_width=128", "swizzle_byte_width=64"),
            ("GluonDescriptor(a, (M, K), (K, 1)", "GluonDescriptor(a, (M, K - 1), (K, 1)"),
        ):
            assert before in module.text
            wrong = replace(module, text=module.text.replace(before, after))
            assert "differs from the judged one" in await verifier.retrace(wrong, GLUON_SHAPES), before
        found = await verifier.verified(elite, GLUON_SHAPES)
    said = "is written in Gluon, which is not interpreted: judge it on a card"
    assert all(said in remark for remark in found.remarks) and len(found.remarks) >= 2
    kept = {step.function for each in found.verdicts for step in each.function.plan.launches}
    assert kept == {"plain_kernel"}, "the kernel in Triton, where rows are odd"
    assert found.module.function_for(GLUON_SHAPES.all[-1].dims) is None, "PyTorch computes what nothing judged"


def test_host_code_without_formulas_keeps_its_judged_shapes() -> None:
    found = run(candidate("    n = x.numel()\n", "    n = x.numel()\n    assert isinstance(n, int)\n"))
    assert [each.function.own for each in found.verdicts] == [True, True] and "AssertionError" in found.remarks[0]
    served = [n for n in (4, 5, 1024, 1025) if found.module.function_for({"N": n}) is not None]
    assert served == [4, 1024]


def test_a_source_that_is_not_what_was_judged_is_refused() -> None:
    other = SOURCE.replace("BY - 1.0", "BY - 0.5")
    with pytest.raises(NotExtractable, match="differs from the judged one at N=1024"):
        run(certificate(other))


def run(elite: Certificate) -> VerifiedModule:
    async def verify() -> VerifiedModule:
        async with ExportExecutors(MODEL) as executors:
            return await ExportVerifier(executors).verified(elite, sampled())

    return asyncio.run(verify())
