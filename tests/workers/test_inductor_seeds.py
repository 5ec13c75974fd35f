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
    **dict.fromkeys(("gated_linear_attention", "lightning_attention", "ssd_chunk_scan"), "decides by the size 'T'"),
    "sigmoid_attention": "as a Python number",
    "simplicial_attention": "a scalar",
    "sliding_window_attention": "a scalar",
    **dict.fromkeys((name for name in catalogue_names() if load_operator(name).backward), "gradients"),
}
"""Operators of the catalogue that have no draft, each with what the reason names (docs/reference/emitters.md)."""


def drafted(of: Operator, target: str = "sm_90") -> WrittenSeed:
    warm_drafts()
    job = TraceJob(id="j", search="s", operator=of, shapes=shapes(of), target=target, drafts=True)
    return WrittenSeed.model_validate_json(in_jail(inductor_seeds.draft, job.model_dump_json().encode()))


async def judge_correct(of: Operator, source: str) -> None:
    async with Judge(of, Device.parse("model:sm_90"), admit=True) as judge:
        found = await judge.judge(source)
        assert found.outcome is Outcome.CORRECT, found.reason


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


CONVOLUTIONS = {
    "with even and odd places": ("conv2d(x, w, b, stride=2, padding=1).relu() + b[0]", (6, 20)),
    "without padding": ("conv2d(x, w, b, dilation=2) * torch.sigmoid(b)[:, None, None]", (6, 20)),
    "of many channels": ("conv2d(x, w, b, padding=1).relu() * 3", (16, 32)),
    "spread": (
        "torch.clamp(conv_transpose2d(x, w.transpose(0, 1), None, stride=2) + b[:, None, None], -1, 2)",
        (5, 20),
    ),
    "spread, of many channels": ("conv_transpose2d(x, w.transpose(0, 1), b, padding=1).relu()", (16, 32)),
    "by channel": ("conv2d(x, w[:, :1], b, groups=6).relu()", (6, 6)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONVOLUTIONS)
async def test_convolutions_end_with_what_follows_them_and_are_judged_correct(kind: str):
    code, (channels, filters) = CONVOLUTIONS[kind]
    lines = ["import torch", "from torch.nn.functional import conv2d, conv_transpose2d"]
    of = operator(
        reference="\n".join([*lines, "", "", "def scale(x, w, b):", f"    return {code}", ""]),
        inputs=[
            {"name": "x", "shape": ["N", channels, "H", "W"], "dtype": "float32"},
            {"name": "w", "shape": [filters, channels, 3, 3], "dtype": "float32", "low": -1, "high": 1},
            {"name": "b", "shape": [filters], "dtype": "float32", "low": -1, "high": 1},
        ],
        ranges={"N": [1, 2], "H": [5, 12], "W": [5, 12]},
        shapes=[{"dims": {"N": 2, "H": 9, "W": 12}}],
        precision={"allow_tf32": "convolutions"},
    )
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    last = written.source.splitlines()[-2]
    assert "scale_product" in last or "scale_add_up" in last, "nothing is launched after the convolution"
    assert ("scale_pack[" in written.source) == ("many channels" in kind)
    assert "return scale_fixed(x, w, b)" in written.source
    await judge_correct(of, written.source)


ATTENTIONS = {
    "plain": "scaled_dot_product_attention(q, k, v)",
    "masked": "softmax((q @ k.mT * 0.2).masked_fill(torch.ones(q.shape[2], k.shape[2]).tril() == 0, -inf), -1) @ v",
    "with a bias of each head": "softmax(q @ k.mT + v[:1, :, None, :, 0], -1) @ v",
    "padded": "softmax((q @ k.mT).masked_fill(v[:, :1, None, :, 0] > 1, -inf), -1) @ v",
    "with empty rows": "scaled_dot_product_attention(q, k, v, attn_mask=mask > 0.9)",
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ATTENTIONS)
async def test_attention_is_one_kernel_and_judged_correct(kind: str, dtype: str):
    lines = [
        "import torch",
        "from math import inf",
        "from torch.nn.functional import scaled_dot_product_attention, softmax",
    ]
    of = operator(
        reference="\n".join([*lines, "", "", "def scale(q, k, v, mask):", f"    return {ATTENTIONS[kind]}", ""]),
        inputs=[
            *({"name": name, "shape": ["B", 2, "S", 24], "dtype": dtype} for name in "qkv"),
            {"name": "mask", "shape": ["S", "S"], "dtype": dtype},
        ],
        outputs=[{"name": "y", "dtype": dtype}],
        ranges={"B": [1, 2], "S": [1, 70]},
        shapes=[{"dims": {"B": 2, "S": 70}}],
    )
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    assert written.source.count("_attention[") == 2 and "peak - offset" in written.source
    await judge_correct(of, written.source)


@pytest.mark.slow
async def test_a_linear_layer_over_channels_that_are_first_is_judged_correct():
    of = operator(
        reference="import torch\n\n\ndef scale(x, w):\n    return x.permute(0, 2, 3, 1) @ w.t()\n",
        inputs=[
            {"name": "x", "shape": ["B", 24, "H", "W"], "dtype": "float32"},
            {"name": "w", "shape": [40, 24], "dtype": "float32"},
        ],
        ranges={"B": [1, 2], "H": [1, 5], "W": [1, 9]},
        shapes=[{"dims": {"B": 2, "H": 5, "W": 7}}],
    )
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    await judge_correct(of, written.source)


WEIGHTS = {"w": [20], "u": [20], "b": [], "v": []}
LAYERS = {
    "lstm": (
        "torch.lstm(x, (h, c), (w0, u0, b0, v0, w1, u1, b1, v1), True, 2, 0.0, False, False, True)",
        4,
        ["B", "T", 20],
    ),
    "gru": (
        "torch.gru(x, h + c, (w0, u0, b0, v0, w1, u1, b1, v1), True, 1, 0.0, False, True, False)",
        3,
        ["T", "B", 20],
    ),
}
"""Calls of two stacked layers and of two directions, the number of gates, and the shape of their input."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAYERS)
async def test_recurrent_layers_are_one_launch_per_position_and_judged_correct(kind: str):
    code, gates, shape = LAYERS[kind]
    weights = [(f"{name}{chain}", [20 * gates, *more]) for chain in "01" for name, more in WEIGHTS.items()]
    tensors = [("x", shape), ("h", [2, "B", 20]), ("c", [2, "B", 20]), *weights]
    named = ", ".join(name for name, _ in tensors)
    of = operator(
        reference=f"import torch\n\n\ndef scale({named}):\n    return {code}[0]\n",
        inputs=[{"name": name, "shape": of, "dtype": "float32", "low": -1, "high": 1} for name, of in tensors],
        ranges={"T": [1, 6], "B": [1, 5]},
        shapes=[{"dims": {"T": 6, "B": 5}}],
        precision={"allow_tf32": "convolutions"},
    )
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    assert "for wave in range(T" in written.source and "scale_step[" in written.source
    await judge_correct(of, written.source)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "once"),
    [
        ("layer_norm(x, x.shape[1:])", True),
        ("batch_norm(x, None, None, w, training=True)", True),
        ("layer_norm(x, x.shape[2:])", False),
    ],
)
async def test_far_apart_elements_are_read_once_for_their_variance(code: str, once: bool):
    of = operator(
        reference=f"from torch.nn.functional import batch_norm, layer_norm\n\n\ndef scale(x, w):\n    return {code}\n",
        inputs=[
            {"name": "x", "shape": ["M", "C", "N"], "dtype": "float32"},
            {"name": "w", "shape": ["C"], "dtype": "float32", "low": -1, "high": 1},
        ],
        ranges={"M": [2, 64], "C": [2, 64], "N": [2, 4096]},
        shapes=[{"dims": {"M": 64, "C": 64, "N": 4096}}],
    )
    written = drafted(of)
    assert ("moments_" in written.source) is once, written.reason
    await judge_correct(of, written.source)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", ["softmax(x, 1)", "log_softmax(x, 1)", "log_softmax(x.half(), 1, dtype=torch.float32)"]
)
async def test_long_rows_of_softmax_are_read_twice(code: str):
    of = operator(
        reference=f"import torch\nfrom torch.nn.functional import *\n\n\ndef scale(x, w):\n    return {code}\n",
        inputs=[
            {"name": "x", "shape": ["M", "N"], "dtype": "float32"},
            {"name": "w", "shape": ["N"], "dtype": "float32"},
        ],
        ranges={"M": [1, 64], "N": [1, 5000]},
        shapes=[{"dims": {"M": 64, "N": 5000}}],
    )
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    before, _, fixed = written.source.partition("def scale_fixed_kernel(")
    fixed = fixed.partition("def scale_fixed(")[0]
    assert "def softmax_step(" in before and fixed.count("for start in") == 2
    await judge_correct(of, written.source)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", ["x / (x * x).mean(1, keepdim=True).sqrt()", "torch.softmax(x * 2, 1)", "x - torch.logsumexp(x, 1, True)"]
)
async def test_norms_over_an_axis_in_the_middle_are_judged_correct(code: str):
    """After the reduction the loops of what follows are reordered."""
    of = operator(
        reference=f"import torch\n\n\ndef scale(x, w):\n    return {code}\n",
        inputs=[
            {"name": "x", "shape": ["M", 48, "N", 12], "dtype": "float32"},
            {"name": "w", "shape": ["N"], "dtype": "float32"},
        ],
        ranges={"M": [1, 4], "N": [1, 20]},
        shapes=[{"dims": {"M": 4, "N": 20}}],
    )
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    await judge_correct(of, written.source)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["3, stride=2, padding=1, dilation=3", "(2, 3, 1), ceil_mode=True"])
async def test_maxima_of_windows_of_three_axes_are_one_kernel(how: str):
    of = operator(
        reference=f"import torch\n\n\ndef scale(x, w):\n    return torch.nn.functional.max_pool3d(x, {how})\n",
        inputs=[
            {"name": "x", "shape": ["M", 2, "N", 9, 8], "dtype": "float32"},
            {"name": "w", "shape": ["N"], "dtype": "float32"},
        ],
        ranges={"M": [1, 3], "N": [7, 11]},
        shapes=[{"dims": {"M": 3, "N": 11}}],
    )
    written = drafted(of)
    assert written.outcome is Outcome.CORRECT, written.reason
    assert ("tl.reduce(" in written.source) is False
    await judge_correct(of, written.source)


def test_rules_find_in_the_draft_of_a_product_what_they_look_for():
    source = drafted(load_operator("matmul")).source
    wanted = ("group_programs", "tensor_descriptors", "split_k", "pipeline_loop", "block_pointers", "even_mask")
    assert [name for name in wanted if not RULES[name].applies(source)] == []


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_drafts_for_other_targets(target):
    written = drafted(operator(), target)
    assert (written.outcome, "@triton.jit" in written.source) == (Outcome.CORRECT, True), written.reason


def test_what_inductor_leaves_to_a_library_is_refused_with_its_name():
    of = operator(reference="import torch\n\n\ndef scale(x, w):\n    return torch.digamma(x) * w\n")
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
