"""Answers hold the reference wide enough, and say in one number a row what the checks compute from tensors."""

from dataclasses import replace

import pytest
import torch

from tests.workers.checks.cases import HONEST, gather, graph_of, operator
from tests.workers.live import LiveBytes
from workers.checks import CheckEvidence, Expectation
from workers.checks.bias import DRAWS as VARIED
from workers.checks.tolerance import RowErrors, bounds_without_sensitivity
from workers.commands import TIMED
from workers.inputs import DRAWS
from workers.oracle.answers import Answer, ExactAnswer, FloatAnswer, derive
from workers.protocol import Shape

LARGEST = 12.5
"""Times the bytes of its input that the answer of a float32 operator may take to work out (`workers.oracle.card`)."""


def derived(name: str, dtype: str = "bfloat16", draw: str = "normal") -> tuple[Answer, CheckEvidence]:
    evidence = gather(operator(name, dtype), draw, 0, HONEST[name])
    (answer,) = derive(replace(evidence, outputs=evidence.reference.native), widened=False)
    return answer, evidence


@pytest.mark.parametrize(("dtype", "kept"), [("bfloat16", torch.float32), ("float32", torch.float64)])
def test_values_are_kept_wider_than_the_output(dtype, kept):
    answer, evidence = derived("rmsnorm", dtype)
    assert answer.kind == (getattr(torch, dtype), torch.Size([48, 96]))
    assert answer.values.dtype == answer.inverse.dtype == kept
    torch.testing.assert_close(answer.values.double(), evidence.reference.expected[0], rtol=1e-7, atol=0)


def test_bounds_are_those_of_the_checks():
    answer, evidence = derived("rmsnorm")
    bounds = bounds_without_sensitivity(evidence, RowErrors.of(evidence, 0))
    torch.testing.assert_close(1 / answer.inverse, bounds.worst[:, 0].float())
    torch.testing.assert_close((answer.squares / 96).sqrt() / answer.inverse, bounds.rms[:, 0].float())
    assert answer.own == bounds.own == torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("draw", DRAWS)
def test_rows_tell_of_a_bias_where_the_check_asks_them(draw):
    answer, _ = derived("rmsnorm", draw=draw)
    assert bool(answer.gains.any()) == (draw in VARIED)


def test_special_values_are_those_of_the_operators_dtypes():
    answer, evidence = derived("gelu", draw="planted")
    native = evidence.reference.native[0]
    assert torch.equal(answer.values.isnan(), native.isnan())
    assert torch.equal(answer.values.isposinf(), native.isposinf())


def test_integers_are_kept_as_they_are():
    answer, evidence = derived("argmax")
    assert isinstance(answer, ExactAnswer)
    assert answer.kind == (torch.int64, torch.Size([48]))
    assert torch.equal(answer.values, evidence.reference.native[0])
    assert answer.bytes == 48 * 8


def test_a_number_is_a_row_of_one():
    answer, _ = derived("cross_entropy")
    assert isinstance(answer, FloatAnswer)
    assert answer.values.shape == (1, 1)
    assert answer.kind == (torch.float32, torch.Size([]))
    assert answer.bytes == 8 + 8 + 4 + 4 + 2 * 4


@pytest.mark.parametrize("draw", ["normal", TIMED])
@pytest.mark.parametrize("name", ["softmax", "gelu"])
def test_an_answer_takes_no_more_memory_than_a_card_has(name: str, draw: str):
    op, shape, x = operator(name, "float32"), Shape(dims={"M": 16, "N": 4096}), torch.randn(16, 4096)
    graph = graph_of(op, shape)
    with LiveBytes(x) as live:
        reference = Expectation(op, graph, (x,), draw)
        evidence = CheckEvidence(
            operator=op,
            shape=shape,
            draw=draw,
            inputs=(x,),
            inputs_after=(x,),
            outputs=reference.native,
            reference=reference,
        )
        derive(evidence, widened=True)
    assert live.most <= LARGEST * x.nbytes
