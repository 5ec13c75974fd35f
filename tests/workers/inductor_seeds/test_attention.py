"""Attention is found in references that spell it in several ways, and nothing else is taken for it."""

import ast

import pytest

from tests.workers.inductor_seeds.lowered import lowered
from tests.workers.tracer.jobs import operator
from workers.inductor_seeds.attention import ATTENTION
from workers.protocol import Operator

HEADS = 4
INPUTS = [
    {"name": "q", "shape": ["B", HEADS, "S", 24], "dtype": "float32"},
    {"name": "k", "shape": ["B", HEADS, "T", 24], "dtype": "float32"},
    {"name": "v", "shape": ["B", HEADS, "T", 40], "dtype": "float32"},
    {"name": "mask", "shape": ["S", "T"], "dtype": "float32"},
]
SCORES = "q @ k.transpose(-1, -2)"
ONE = "q[:1, 0]"
SPELLED = {
    "scaled_dot_product_attention(q, k, v)": (False, True),
    "scaled_dot_product_attention(q, k, v, attn_mask=mask)": (True, True),
    "scaled_dot_product_attention(q, k, v, attn_mask=mask > 0)": (True, True),
    f"softmax({SCORES} / 24 ** 0.5, -1) @ v": (False, False),
    f"softmax(({SCORES} * 0.2).masked_fill(mask[None, None] > 0, -inf), -1) @ v": (True, False),
    f"softmax(torch.where(mask > 0, {SCORES}, -inf), 3) @ v": (True, False),
    f"softmax(torch.where(mask > 0, {SCORES}, -inf) + mask, 3) @ v": None,
    "torch.baddbmm(mask[None], q[:, 0] * 0.2, k[:, 0].transpose(-1, -2)).softmax(-1) @ v[:, 0]": (True, False),
    "torch.baddbmm(mask[None], q[:, 0], k[:, 0].mT, beta=0.5).softmax(-1) @ v[:, 0]": None,
    f"softmax({SCORES}, -2) @ v": None,
    f"softmax(({SCORES}).relu(), -1) @ v": None,
    f"softmax(({SCORES} + mask) * 0.2, -1) @ v": None,
    f"softmax({SCORES} + v[:1, :, None, :, 0], -1) @ v": (True, False),
    f"softmax(({SCORES}).masked_fill(v[:, :1, None, :, 0] > 0, -inf), -1) @ v": (True, False),
    f"softmax({SCORES} + v[:1, :, None, :, 0] + mask, -1) @ v": (True, False),
    f"softmax({SCORES} + v[:1, :, None, :, 0] + v[:, :1, None, :, 0], -1) @ v": None,
    f"softmax({SCORES} + q[:, :, :, :1] , -1) @ v": None,
    "softmax(q[:, :, :1] @ k.mT + mask, -1) @ v": None,
    "softmax(q[:1] @ k[:1].mT + v[:, :, None, :, 0], -1) @ v": None,
    f"softmax({SCORES}, -1).sqrt() @ v": None,
    f"softmax(({SCORES}).flatten(2), -1).view(q.shape[0], 4, q.shape[2], k.shape[2]) @ v": None,
    f"softmax(({SCORES}).long().float(), -1) @ v": None,
    f"(lambda s: (lambda w: (w / w.sum(-1)) @ {ONE})(torch.exp(s - s.amax(-1, True))))({ONE} @ {ONE}.mT)": None,
    f"(lambda s: (lambda w: (w / w.sum(-1, True)) @ {ONE})(torch.exp(s - s.amax(-1, True))))({ONE} @ {ONE}.mT)": (
        False,
        False,
    ),
}
"""Code of results, and whether attention has a bias, and zeros for rows without keys; None where none is found."""


def of_code(code: str, dtype: str = "float32", sizes: tuple[int, int] = (96, 80)) -> Operator:
    lines = ["import torch", "from math import inf", "from torch.nn.functional import *"]
    return operator(
        reference="\n".join([*lines, "", "", "def scale(q, k, v, mask):", f"    return {code}", ""]),
        inputs=[{**item, "dtype": dtype} for item in INPUTS],
        outputs=[{"name": "y", "dtype": dtype}],
        ranges={"B": [1, 3], "S": [1, 2048], "T": [1, 2048]},
        shapes=[{"dims": {"B": 2, "S": sizes[0], "T": sizes[1]}}],
    )


def host_of(of: Operator) -> str:
    return lowered(of)["host"]


@pytest.mark.parametrize("code", SPELLED)
def test_attention_is_found_however_it_is_spelled(code: str) -> None:
    host = host_of(of_code(code))
    calls = [node for node in ast.walk(ast.parse(host)) if isinstance(node, ast.Call)]
    found = [call for call in calls if ast.unparse(call.func) == ATTENTION]
    said = [(ast.unparse(call.args[3]) != "None", ast.literal_eval(call.args[7])) for call in found]
    assert said == ([] if SPELLED[code] is None else [SPELLED[code]]), host


@pytest.mark.parametrize(("part", "outer"), [("v[:1, :, None, :, 0]", False), ("v[:, :1, None, :, 0]", True)])
def test_a_bias_is_of_heads_or_of_whole_sequences(part: str, outer: bool) -> None:
    call = next(
        node
        for node in ast.walk(ast.parse(host_of(of_code(f"softmax({SCORES} + {part}, -1) @ v"))))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == ATTENTION
    )
    assert ast.literal_eval(call.args[6]) is outer


def test_attention_of_fixed_sizes_is_found_in_long_rows_too() -> None:
    fixed = of_code(f"softmax({SCORES}, -1) @ v", sizes=(64, 1500)).model_copy(update={"ranges": {}})
    assert ATTENTION in host_of(fixed)


def test_weights_that_are_returned_as_well_leave_attention_as_it_is() -> None:
    both = of_code(f"(lambda w: (w @ v) * w.sum())(softmax({SCORES}, -1))")
    assert ATTENTION not in host_of(both)
