"""Operators of the liger-kernel package, traced as they are.

The package may import itself here: its host code was written for a GPU and knows nothing of plans.
"""

import re

import pytest
import torch._dynamo  # liger-kernel imports it; here, every jail finds it imported.

from tests.workers.tracer.jobs import traced
from workers.protocol import Operator, Outcome
from workers.tracer.source import ALLOWED_IMPORTS

pytest.importorskip("liger_kernel")
assert torch._dynamo

ALLOWED = (*ALLOWED_IMPORTS, "liger_kernel")

ROWS = {"x": ["M", "N"]}
TWO_ROWS = {"a": ["M", "N"], "b": ["M", "N"]}
HEADS = {"q": ["B", "H", "T", "D"], "k": ["B", "H", "T", "D"]}
SIZES = {"M": 64, "N": 512, "K": 128, "B": 2, "H": 8, "T": 64, "D": 64, "C": 32}


class Case:
    """A call of one of the package's functions as an operator: inputs, their dtype, results, what is called."""

    def __init__(self, module, call, inputs, outputs=1, dtype="bfloat16", result="bfloat16", mutable=()):
        self.module, self.call, self.inputs, self.outputs = module, call, inputs, outputs
        self.dtype, self.result, self.mutable = dtype, result, mutable

    @property
    def source(self):
        function = re.match(r"\w+", self.call)[0]
        names = ", ".join(self.inputs)
        return (
            f"from liger_kernel.ops.{self.module} import {function}\n\n\ndef entry({names}):\n    return {self.call}\n"
        )

    def operator(self, policy):
        extents = {extent for shape in self.inputs.values() for extent in shape if isinstance(extent, str)}
        return Operator.model_validate(
            {
                "name": self.module,
                "entry": "entry",
                "reference": "unused",
                "inputs": [self._input(name, shape) for name, shape in self.inputs.items()],
                "outputs": [{"name": f"y{index}", "dtype": self.result} for index in range(self.outputs)],
                "shapes": [{"dims": {extent: SIZES[extent] for extent in extents}}],
                "policy": {"host": policy},
            }
        )

    def _input(self, name, shape):
        if name == "target":
            return {"name": name, "shape": shape, "dtype": "int64", "high": 512}
        return {"name": name, "shape": shape, "dtype": self.dtype, "mutable": name in self.mutable}


ALLOCATING = {
    "RMSNorm": Case("rms_norm", "LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, 'llama', False)", {**ROWS, "w": ["N"]}),
    "LayerNorm": Case("layer_norm", "LigerLayerNormFunction.apply(x, w, b, 1e-5)", {**ROWS, "w": ["N"], "b": ["N"]}),
    "fused add and RMSNorm": Case(
        "fused_add_rms_norm",
        "LigerFusedAddRMSNormFunction.apply(a, b, w, 1e-6, 0.0, 'llama', False)",
        {**TWO_ROWS, "w": ["N"]},
        outputs=2,
    ),
    "SwiGLU": Case("swiglu", "LigerSiLUMulFunction.apply(a, b)", TWO_ROWS),
    "GEGLU": Case("geglu", "LigerGELUMulFunction.apply(a, b)", TWO_ROWS),
    "ReLU squared": Case("relu_squared", "LigerReLUSquaredFunction.apply(x)", ROWS),
    "softmax": Case("softmax", "LigerSoftmaxFunction.apply(x)", ROWS),
    "GroupNorm": Case(
        "group_norm",
        "LigerGroupNormFunction.apply(x, w, b, 32, 8, 1e-5)",
        {"x": ["B", "C", "T"], "w": ["C"], "b": ["C"]},
    ),
    "DyT": Case("dyt", "LigerDyTFunction.apply(x, a, w, b)", {**ROWS, "a": [1], "w": ["N"], "b": ["N"]}),
    "PolyNorm": Case("poly_norm", "LigerPolyNormFunction.apply(x, w, b, 1e-6)", {**ROWS, "w": [3], "b": [1]}),
    "KL divergence": Case(
        "kl_div",
        "LigerKLDivLossFunction.apply(a, b, 'none', False, 1e-10)",
        TWO_ROWS,
        dtype="float32",
        result="float32",
    ),
    "total variation distance": Case(
        "tvd", "LigerTVDLossFunction.apply(a, b, None, 'none')", TWO_ROWS, dtype="float32", result="float32"
    ),
    "neighborhood attention": Case(
        "fused_neighborhood_attention",
        "LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1)",
        {**HEADS, "v": ["B", "H", "T", "D"]},
    ),
}
"""Operators that trace with `host = "allocate"`."""

COPYING = {
    "RoPE": Case(
        "rope",
        "LigerRopeFunction.apply(q, k, cos, sin)",
        {**HEADS, "cos": [1, "T", "D"], "sin": [1, "T", "D"]},
        outputs=2,
    ),
    "multimodal RoPE": Case(
        "qwen2vl_mrope",
        "LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, [8, 12, 12])",
        {**HEADS, "cos": [3, 1, "T", "D"], "sin": [3, 1, "T", "D"]},
        outputs=2,
    ),
}
"""Operators that need `host = "copy"`: they make inputs contiguous."""

REFUSED = {
    "cross entropy": (
        Case("cross_entropy", "LigerCrossEntropyFunction.apply(x, target, None)[0]", {**ROWS, "target": ["M"]}),
        "(ne)",
    ),
    "fused linear cross entropy": (
        Case(
            "fused_linear_cross_entropy",
            "LigerFusedLinearCrossEntropyFunction.apply(a, b, target)[0]",
            {"a": ["M", "K"], "b": ["N", "K"], "target": ["M"]},
        ),
        "(ne)",
    ),
    "fused linear JSD": (
        Case(
            "fused_linear_jsd",
            "LigerFusedLinearJSDFunction.apply(a, b, c, d, None, 0.5)",
            {"a": ["M", "K"], "b": ["N", "K"], "c": ["M", "K"], "d": ["N", "K"]},
        ),
        "(mm)",
    ),
    "JSD": (Case("jsd", "LigerJSDFunction.apply(a, b)", TWO_ROWS, dtype="float32"), "(sum)"),
    "sparsemax": (Case("sparsemax", "LigerSparsemaxFunction.apply(x, -1)", ROWS), "(sort)"),
    "multi-token attention": (
        Case(
            "multi_token_attention",
            "LigerMultiTokenAttentionFunction.apply(a, b, None, 1, 1, 1, 1, False)",
            {"a": ["B", "H", "T", "T"], "b": ["H", "H", 3, 3]},
        ),
        "(convolution)",
    ),
}
"""Operators whose host code computes, and what it computes first."""

IN_PLACE = Case(
    "llama4_rope",
    "LigerLlama4RopeFunction.apply(q, k, freqs)",
    {"q": ["B", "T", "H", "D"], "k": ["B", "T", "H", "D"], "freqs": ["T", "D"]},
    outputs=2,
)


def reply_to(case, policy):
    return traced(case.source, case.operator(policy), allowed_imports=ALLOWED)


@pytest.mark.parametrize("case", ALLOCATING.values(), ids=ALLOCATING)
def test_operators_trace_as_they_are(case):
    reply = reply_to(case, "allocate")
    assert reply.outcome is Outcome.CORRECT, reply.reason
    assert reply.variants[0].plans[0].launches


@pytest.mark.parametrize("case", COPYING.values(), ids=COPYING)
def test_operators_that_reorder_their_inputs_need_copies(case):
    assert reply_to(case, "allocate").outcome is Outcome.FORBIDDEN_OP
    reply = reply_to(case, "copy")
    assert reply.outcome is Outcome.CORRECT, reply.reason


@pytest.mark.parametrize(("case", "computes"), REFUSED.values(), ids=REFUSED)
def test_operators_that_compute_on_the_host_are_refused(case, computes):
    reply = reply_to(case, "copy")
    assert reply.outcome is Outcome.FORBIDDEN_OP
    assert computes in reply.reason


def test_operators_that_write_their_inputs_need_them_mutable():
    assert "memory of input 'q'" in reply_to(IN_PLACE, "allocate").reason
    IN_PLACE.mutable = ("q", "k")
    assert reply_to(IN_PLACE, "allocate").outcome is Outcome.CORRECT
