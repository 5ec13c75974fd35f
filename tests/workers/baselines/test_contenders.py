"""The list of contenders: eager first, what is missing with a reason."""

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, PLAIN, inputs, small_graph
from workers.baselines.contenders import COMPILE, EAGER, MAX_AUTOTUNE, contenders_of
from workers.baselines.native import BACKENDS
from workers.reference import evaluate

CPU = torch.device("cpu")
ALWAYS = {EAGER, COMPILE, MAX_AUTOTUNE}
EXPECTED = {
    "argmax": {*ALWAYS, "native"},
    "attention": {*ALWAYS, *BACKENDS},
    "cross_entropy": {*ALWAYS, "native", "liger"},
    "decode_attention": {*ALWAYS, *BACKENDS},
    "gate_up_swiglu": {*ALWAYS, "native"},
    "gelu": {*ALWAYS, "native"},
    "gelu_backward": {*ALWAYS, "native"},
    "layernorm": {*ALWAYS, "native", "liger"},
    "layernorm_backward": {*ALWAYS, "native"},
    "linear_cross_entropy": {*ALWAYS, "native"},
    "lm_head_sparse": ALWAYS,
    "matmul": ALWAYS,
    "paged_decode": ALWAYS,
    "qk_norm_rope": ALWAYS,
    "quantize_fp8": ALWAYS,
    "rmsnorm": {*ALWAYS, "native", "liger"},
    "rmsnorm_backward": {*ALWAYS, "native"},
    "rope": ALWAYS,
    "rope_half": ALWAYS,
    "sigmoid_attention": ALWAYS,
    "sliding_window_attention": {*ALWAYS, *BACKENDS},
    "softmax": {*ALWAYS, "native", "liger"},
    "softmax_backward": {*ALWAYS, "native"},
    "swiglu": {*ALWAYS, "native", "liger"},
    "swiglu_backward": {*ALWAYS, "native"},
    "ternary_matmul": ALWAYS,
    "w4a16_matmul": ALWAYS,
    **dict.fromkeys(PLAIN, ALWAYS),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_its_contenders(name, turns):
    makers, left_out = contenders_of(OPERATORS[name], small_graph(name), CPU, turns)
    assert set(makers) - {"helion"} == EXPECTED[name]
    assert next(iter(makers)) == EAGER
    assert set(left_out) - {"helion"} == {"liger"} - EXPECTED[name]
    assert "helion" in {*makers, *left_out}


@pytest.mark.parametrize(
    ("asked", "timed"),
    [((), {EAGER}), (("compile",), {EAGER, COMPILE}), (("native", "max_autotune"), {EAGER, MAX_AUTOTUNE, *BACKENDS})],
)
def test_what_an_operator_is_not_compared_with_is_not_made_ready(asked, timed, turns):
    attention = OPERATORS["attention"].model_copy(update={"baselines": asked})
    assert set(contenders_of(attention, small_graph("attention"), CPU, turns)[0]) == timed
    norm = OPERATORS["rmsnorm"].model_copy(update={"baselines": ("liger",)})
    makers, left_out = contenders_of(norm, small_graph("rmsnorm"), CPU, turns)
    assert {*makers, *left_out} == {EAGER, "liger"}


def test_eager_is_the_reference_itself(turns):
    operator = OPERATORS["rope"]
    makers, _ = contenders_of(operator, small_graph("rope"), CPU, turns)
    (got,) = makers[EAGER]()(inputs(operator))
    (expected,) = evaluate(small_graph("rope"), inputs(operator), double=False)
    assert torch.equal(got, expected)
