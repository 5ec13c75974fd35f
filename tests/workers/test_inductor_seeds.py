"""Seeds by TorchInductor, in the sandbox: a candidate that traces for every catalogue operator, or a reason."""

from pathlib import Path

import pytest

from service.emitters.rules import RULES
from service.evaluation.single import Judge
from service.operators.catalogue import catalogue_names, load_operator
from tests.workers.tracer.jobs import LIMITS, in_jail, operator
from workers import inductor_seeds, sandbox, trace_job
from workers.protocol import Device, Operator, Outcome, Shape, TraceJob, TraceReport
from workers.trace_job.warmup import warm_drafts
from workers.tracer.reply import WrittenSeed

WITHOUT_A_DRAFT = {
    "depthwise_conv_large": "filters whose extents are not fixed",
    "entmax15": "sort",
    "sigmoid_attention": "as a Python number",
    "simplicial_attention": "a scalar",
    "sliding_window_attention": "a scalar",
    **dict.fromkeys(("gated_linear_attention", "lightning_attention", "ssd_chunk_scan"), "SymInt"),
    **dict.fromkeys(("ternary_matmul", "w4a16_matmul"), "SymInt"),
    **dict.fromkeys((name for name in catalogue_names() if load_operator(name).backward), "gradients"),
}
"""Operators of the catalogue that have no draft, each with what the reason names (docs/reference/emitters.md)."""


def drafted(of: Operator, target: str = "sm_90") -> WrittenSeed:
    warm_drafts()
    job = TraceJob(id="j", search="s", operator=of, shapes=shapes(of), target=target, drafts=True)
    return WrittenSeed.model_validate_json(in_jail(inductor_seeds.draft, job.model_dump_json().encode()))


def shapes(of: Operator) -> tuple[Shape, ...]:
    return tuple(Shape(dims=item.dims) for item in of.shapes)


def traced(of: Operator, source: str | None, **more) -> TraceReport:
    candidate = None if source is None else "c"
    job = TraceJob(
        id="j", search="s", candidate=candidate, source=source, operator=of, shapes=shapes(of), target="sm_90", **more
    )
    return trace_job.trace(job, "worker")


def test_a_draft_launches_its_own_kernels_and_traces():
    report = traced(operator(), None, drafts=True, deadline_s=60.0)
    assert report.outcome is Outcome.CORRECT, report.reason
    assert "_inductor" not in report.draft
    assert "def scale(x, w):" in report.draft
    assert traced(operator(), report.draft).outcome is Outcome.CORRECT


def test_an_operator_with_gradients_has_no_draft():
    written = drafted(load_operator("gelu_backward"))
    assert (written.outcome, written.source) == (Outcome.FORBIDDEN_OP, "")
    assert "gradients" in written.reason


def test_a_draft_is_readable():
    source = drafted(load_operator("rmsnorm")).source
    assert "def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, N," in source
    assert "x_value * x_value" in source
    assert "tmp" not in source


def test_matrix_products_become_kernels_too():
    source = drafted(load_operator("matmul")).source
    assert "total = tl.dot(a, b, total, input_precision='ieee')" in source
    assert "a_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K)" in source


def test_max_pooling_is_drafted_though_its_decomposition_needs_a_module_that_nobody_imports():
    pooled = "torch.nn.functional.max_pool1d(x.unsqueeze(0), 3, 1, 1).squeeze(0)"
    of = operator(reference=f"import torch\n\n\ndef scale(x, w):\n    return {pooled} * w\n")
    written = drafted(of)
    assert (written.outcome, "@triton.jit" in written.source) == (Outcome.CORRECT, True), written.reason
    report = traced(of, written.source)
    assert report.outcome is Outcome.CORRECT, report.reason


def test_a_size_that_the_reference_computes_with_is_not_made_one_number():
    reference = "import math\n\n\ndef scale(x, w):\n    return x * w * math.log(x.shape[1])\n"
    several = [{"dims": {"M": 4, "N": size}} for size in (128, 64)]
    refused = drafted(operator(reference=reference, shapes=several))
    assert (refused.outcome, refused.source) == (Outcome.FORBIDDEN_OP, "")
    assert "the size 'N'" in refused.reason
    assert drafted(operator(reference=reference, shapes=several[:1])).outcome is Outcome.CORRECT


CONVOLVED = {
    "inputs": [
        {"name": "x", "shape": ["N", "C", "H", "W"], "dtype": "float32"},
        {"name": "w", "shape": ["F", "C", 3, 3], "dtype": "float32"},
        {"name": "b", "shape": ["F"], "dtype": "float32"},
    ],
    "ranges": {"H": [3, 64], "W": [3, 64]},
    "shapes": [{"dims": {"N": 2, "C": 6, "H": 9, "W": 12, "F": 20}}],
}


@pytest.mark.parametrize("how", ["stride=2, padding=1", ""])
def test_convolutions_are_kernels_of_ours_and_what_follows_them_inductors(how):
    reference = f"import torch\n\n\ndef scale(x, w, b):\n    return torch.nn.functional.conv2d(x, w, b, {how}).relu()\n"
    of = operator(reference=reference, **CONVOLVED)
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    assert "scale_product[" in written.source
    assert written.source.count("@triton.jit\ndef scale_") == 2
    report = traced(of, written.source)
    assert report.outcome is Outcome.CORRECT, report.reason


def test_rules_find_in_the_draft_of_a_product_what_they_look_for():
    source = drafted(load_operator("matmul")).source
    wanted = ("group_programs", "tensor_descriptors", "split_k", "pipeline_loop", "block_pointers", "even_mask")
    assert [name for name in wanted if not RULES[name].applies(source)] == []


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_drafts_for_other_targets(target):
    written = drafted(operator(), target)
    assert (written.outcome, "@triton.jit" in written.source) == (Outcome.CORRECT, True), written.reason


def test_what_inductor_leaves_to_a_library_is_refused_with_its_name():
    of = operator(
        reference="def scale(x, w):\n    return x.sort(-1).values * w\n",
    )
    written = drafted(of)
    assert (written.outcome, written.source) == (Outcome.FORBIDDEN_OP, "")
    assert "TorchInductor calls" in written.reason


def test_a_reference_that_fails_is_an_outcome_and_no_failure_of_ours():
    job = TraceJob(
        id="j",
        search="s",
        operator=operator(reference="def scale(x, w):\n    raise KeyError('x')\n"),
        shapes=(Shape(dims={"M": 4, "N": 8}),),
        target="sm_90",
        drafts=True,
    )
    assert (
        sandbox.run(inductor_seeds.draft, job.model_dump_json().encode(), LIMITS).ending
        is sandbox.SandboxEnding.RETURNED
    )
    assert trace_job.trace(job, "worker").outcome is Outcome.TRACE_CRASHED


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue_names())
async def test_every_catalogue_operator_gets_a_draft_that_is_judged_correct_or_a_reason(name, tmp_path: Path):
    of = load_operator(name)
    written = drafted(of)
    if name in WITHOUT_A_DRAFT:
        assert written.outcome is not Outcome.CORRECT and WITHOUT_A_DRAFT[name] in written.reason
        return
    assert written.outcome is Outcome.CORRECT, written.reason
    async with Judge(of, Device.parse("model:sm_90"), data=tmp_path) as judge:
        verdict = await judge.judge(written.source)
    assert verdict.outcome is Outcome.CORRECT, verdict.reason
