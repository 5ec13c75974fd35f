"""The kernels agree with the same passes in torch, which let through what the checks let through, and no more."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from service.operators.catalogue import load_operator
from tests.workers.checks.cases import FAULTS, HONEST, as_timed, examine, gather, operator
from tests.workers.oracle.paper import measure_one
from tests.workers.oracle.sieve import Measures, margins
from workers.checks import CheckEvidence
from workers.oracle.answers import FloatAnswer, derive


def perfect(evidence: CheckEvidence) -> CheckEvidence:
    return replace(evidence, outputs=evidence.reference.native)


def margin(measures: Measures, answer: FloatAnswer) -> float:
    """How near the only output of a case is to needing a closer look."""
    return float(margins(measures, [answer]).max())


def sift(evidence: CheckEvidence, *, widened: bool = False) -> bool:
    """Whether the only output of a case is suspect."""
    (answer,) = derive(perfect(evidence), widened=widened)
    measures = Measures(*(each[None] for each in measure_one(evidence.outputs[0], answer)))
    return margin(measures, answer) > 1


def gathered(name: str, kernel, dtype: str = "bfloat16", draw: str = "normal", **dims) -> CheckEvidence:
    return gather(operator(name, dtype), draw, 5, kernel, **dims)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", [name for name in HONEST if name != "argmax"])
def test_honest_kernels_pass(name, dtype):
    assert not sift(perfect(gathered(name, HONEST[name], dtype)))
    if dtype in ("bfloat16", "float32"):
        assert not sift(gathered(name, HONEST[name], dtype))


SAME_TYPE = [name for name, (_, _, outcomes) in FAULTS.items() if "wrong_output_type" not in outcomes]


@pytest.mark.parametrize("draw", ["normal", "shifted"])
@pytest.mark.parametrize("fault", SAME_TYPE)
def test_what_the_checks_refuse_is_suspect(fault, draw):
    name, kernel, _ = FAULTS[fault]
    evidence = gathered(*name.split(":")[:1], kernel, *name.split(":")[1:], draw=draw)
    if evidence.outputs[0].is_floating_point():
        outcome = examine(evidence)[1].outcome
        refused = outcome in ("wrong_result", "precision")
        assert sift(evidence) >= refused


@pytest.mark.parametrize("scale", [1.001, 0.999])
def test_a_factor_is_suspect(scale):
    wide = HONEST["rmsnorm"]
    scaled = gathered("rmsnorm", lambda x, w: (wide(x.float(), w.float()) * scale).to(x.dtype))
    assert sift(scaled)


def test_few_elements_may_miss_more_where_time_counts():
    evidence = as_timed(gathered("attention", HONEST["attention"]))
    far = evidence.outputs[0].flatten()[::4999]
    far += 0.06 * evidence.reference.expected[0].square().mean().sqrt().to(far.dtype)
    assert sift(evidence)
    assert not sift(evidence, widened=True)
    many = evidence.outputs[0].flatten()[::97]
    many += 0.06 * evidence.reference.expected[0].square().mean().sqrt().to(far.dtype)
    assert sift(evidence, widened=True)


def test_rows_that_say_nothing_hide_no_bias():
    evidence = gathered("softmax", HONEST["softmax"], M=64)
    (answer,) = derive(perfect(evidence), widened=False)
    measures = measure_one(evidence.reference.native[0], answer)
    slopes = torch.full((64,), 0.01)
    slopes[::16] = -0.15
    leaning = replace(Measures(*(each[None] for each in measures)), products=(slopes / answer.gains)[None])
    assert abs(float(slopes.mean())) <= answer.gain_limit
    assert margin(leaning, answer) > 1
    assert margin(leaning, replace(answer, widened=True)) <= 1, "all rows count, and differ much"
    without = replace(answer, widened=True, gains=answer.gains.where(slopes > 0, 0.0))
    assert margin(leaning, without) > 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_special_value_is_suspect(value):
    evidence = gathered("gelu", HONEST["gelu"])
    output = evidence.outputs[0].clone()
    output[3, 5] = value
    assert sift(replace(evidence, outputs=(output,)))


def test_special_values_where_the_reference_has_them_are_not():
    evidence = gathered("gelu", HONEST["gelu"], draw="planted")
    assert not evidence.outputs[0].isfinite().all()
    assert not sift(evidence)
    assert sift(replace(evidence, outputs=(evidence.outputs[0].nan_to_num(0.0),)))


def test_many_small_errors_are_suspect_though_each_is_allowed():
    evidence = gathered("softmax", HONEST["softmax"])
    (answer,) = derive(perfect(evidence), widened=False)
    measures = measure_one(evidence.reference.native[0], answer)
    crowded = Measures(*(each[None] for each in measures))
    assert margin(crowded, answer) <= 1
    assert margin(replace(crowded, crowd=crowded.crowd + 1), answer) == torch.inf


def test_the_strain_grows_with_the_error():
    evidence = gathered("softmax", HONEST["softmax"])
    (answer,) = derive(perfect(evidence), widened=False)
    rows = [measure_one(evidence.reference.native[0] * (1 + off), answer) for off in (0.0, 0.02, 0.1, 1.0)]
    found = margins(Measures(*(torch.stack(each) for each in zip(*rows, strict=True))), [answer] * 4)[0].tolist()
    assert found == sorted(found) and found[0] <= 1 < found[2]


def test_widened_answers_forgive_more():
    evidence = gathered("rmsnorm", HONEST["rmsnorm"], "float32", "shifted")
    (plain,), (wide,) = (derive(perfect(evidence), widened=widened) for widened in (False, True))
    assert (wide.inverse <= plain.inverse).all()
    assert (wide.inverse < plain.inverse).any()


def test_every_output_is_judged_by_its_own_answer():
    evidence = gathered("softmax", HONEST["softmax"])
    (answer,) = derive(perfect(evidence), widened=False)
    right = evidence.reference.native[0]
    outputs = [right, right * 0, right, torch.full_like(right, float("nan"))]
    rows = [measure_one(output, answer) for output in outputs]
    found = margins(Measures(*(torch.stack(each) for each in zip(*rows, strict=True))), [answer] * 4).amax(0)
    assert (found > 1).tolist() == [False, True, False, True]


def float8_rows(spoil):
    """Rows scaled by their largest value, as a kernel quantises them that multiplies by the reciprocal."""

    def kernel(x):
        scale = x.float().abs().amax(1) / 448
        return spoil(x.float() * (1 / scale)[:, None]).to(torch.float8_e4m3fn), scale

    return kernel


@pytest.mark.parametrize(
    ("spoil", "is_suspect"),
    [
        (lambda q: q, False),
        (lambda q: q.bfloat16().float(), False),
        (lambda q: q * 0.99, True),
        (lambda q: q.masked_fill(q.abs() < 28, 0.0), True),
        (lambda q: torch.where(q.abs() < 256, q.to(torch.float8_e5m2).float(), q), True),
    ],
    ids=["honest", "rounded to bfloat16 first", "too small", "small values lost", "a digit lost"],
)
@pytest.mark.parametrize("widened", [False, True])
def test_float8_is_judged_by_what_its_rounding_does_not_explain(spoil, is_suspect, widened):
    evidence = gather(load_operator("quantize_fp8"), "normal", 5, float8_rows(spoil), M=48, N=96)
    answer = derive(perfect(evidence), widened=widened)[0]
    measures = Measures(*(each[None] for each in measure_one(evidence.outputs[0], answer)))
    assert (margin(measures, answer) > 1) == is_suspect
    assert (examine(evidence)[1].outcome is not None) == is_suspect


def test_kernels_agree_with_torch():
    # A process of its own: whether Triton interprets is decided when it is imported.
    command = [sys.executable, "-m", "tests.workers.oracle.interpreted"]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
