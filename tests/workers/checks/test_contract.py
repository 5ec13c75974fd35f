"""The contract of the whole table: honest kernels pass everything, planted faults fail with the right outcome."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.workers.checks.cases import FAULTS, HONEST, examine, gather, operator
from workers.checks import CHECKS, CheckEvidence
from workers.inputs import DRAWS
from workers.interpreter.products import multiply

SHAPES = ({}, {"M": 1, "N": 1, "K": 1, "H": 1}, {"M": 3, "N": 7, "K": 5}, {"M": 33, "N": 129, "K": 65})


def sized(op, dims):
    return {name: size for name, size in dims.items() if name in op.dimensions}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_pass(name, dtype):
    op = operator(name, dtype)
    for seed, dims in enumerate(SHAPES):
        for draw in DRAWS:
            evidence = gather(op, draw, seed, HONEST[name], **sized(op, dims))
            check, finding = examine(evidence)
            assert finding.outcome is None, (check, finding)
            check, finding = examine(CheckEvidence(**{**vars(evidence), "outputs": evidence.reference.native}))
            assert finding.outcome is None, ("native", check, finding)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_fail_on_some_draw(fault):
    name, implementation, outcomes = FAULTS[fault]
    op = operator(*name.split(":"))
    found = set()
    for seed, dims in enumerate(({}, {"M": 40, "N": 64, "K": 100}, {"M": 33, "N": 1000, "K": 65})):
        for draw in DRAWS:
            finding = examine(gather(op, draw, seed, implementation, **sized(op, dims)))[1]
            found |= {finding.outcome} - {None}
            assert finding.outcome is None or finding.reason
    assert found
    assert found <= outcomes


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_measures_nothing_on_a_perfect_kernel(name):
    evidence = gather(operator("rmsnorm"), "normal", 1, HONEST["rmsnorm"])
    perfect = CheckEvidence(**{**vars(evidence), "outputs": evidence.reference.native})
    finding = CHECKS[name].examine(perfect)
    assert (finding.outcome, finding.reason) == (None, "")
    assert 0 <= finding.worst < 1
    assert CHECKS[name].name == name


def test_reasons_say_where_and_what():
    def tail(x):
        result = HONEST["softmax"](x)
        result[:, 80:] = 0
        return result

    _, finding = examine(gather(operator("softmax"), "normal", 0, tail))
    assert "M=48,N=96, normal inputs" in finding.reason
    assert "all from index 80 of axis 1 on, which has 96: is its tail masked?" in finding.reason
    assert "is 0 at [" in finding.reason


def test_an_unwritten_tail_is_called_that():
    def unwritten(x):
        result = HONEST["softmax"](x)
        result[40:] = float("nan")
        return result

    check, finding = examine(gather(operator("softmax"), "normal", 0, unwritten))
    assert check == "special_values"
    assert "never written" in finding.reason
    assert "all from index 40 of axis 0 on" in finding.reason


def test_mutable_inputs_may_change_if_their_memory_is_an_output():
    def change(x, weight):
        result = HONEST["rmsnorm"](x, weight)
        x += 1
        return result

    op = operator("rmsnorm")
    assert examine(gather(op, "normal", 0, change))[0] == "untouched_inputs"
    first = op.inputs[0].model_copy(update={"mutable": True})
    allowed = gather(op.model_copy(update={"inputs": (first, op.inputs[1])}), "normal", 0, change)
    assert examine(allowed)[0] == "untouched_inputs"
    assert examine(replace(allowed, overwritten=frozenset({0})))[1].outcome is None
    assert examine(replace(gather(op, "normal", 0, change), overwritten=frozenset({0})))[0] == "untouched_inputs"


def test_tf32_passes_where_the_operator_allows_it():
    _, kernel, _ = FAULTS["tf32"]
    allowed = operator("matmul", "float32", precision={"allow_tf32": True})
    for draw in DRAWS:
        assert examine(gather(allowed, draw, 0, kernel))[1].outcome is None, draw


def test_products_of_bfloat16_do_not_pass_as_tf32():
    def kernel(a, b):
        return (a.bfloat16().double() @ b.bfloat16().double()).float()

    allowed = operator("matmul", "float32", precision={"allow_tf32": True})
    found = {examine(gather(allowed, draw, 0, kernel, M=33, N=129, K=65))[1].outcome for draw in DRAWS}
    assert "precision" in found


def test_three_products_of_tf32_are_as_good_as_float32_asks_for():
    def kernel(a, b):
        total = np.zeros((1, 1, a.shape[0], b.shape[1]), dtype=np.float32)
        for left, right in zip(a.split(16, 1), b.split(16, 0), strict=True):
            with np.errstate(invalid="ignore"):
                total = multiply(left[None, None].numpy(), right[None, None].numpy(), total, "TF32x3")
        return torch.from_numpy(total[0, 0])

    for draw in DRAWS:
        assert examine(gather(operator("matmul", "float32"), draw, 0, kernel))[1].outcome is None, draw


def test_a_missing_output_is_a_wrong_type():
    evidence = gather(operator("softmax"), "normal", 0, lambda x: ())
    assert examine(evidence)[1].outcome == "wrong_output_type"


def test_overflow_is_judged_by_the_mask_of_the_output_dtype():
    op = operator("matmul", "float16")

    def scaled(a, b):
        return HONEST["matmul"](a, b)

    evidence = gather(op, "shifted", 0, scaled)
    assert evidence.reference.native[0].isinf().any(), "30 * 30 * 80 is beyond float16"
    assert examine(evidence)[1].outcome is None
    finite = CheckEvidence(**{**vars(evidence), "outputs": (evidence.outputs[0].nan_to_num(posinf=65504.0),)})
    assert examine(finite)[0] == "special_values"


def test_causal_attention_may_skip_what_the_reference_multiplies_by_zero():
    op = operator("attention")
    skipped = 0
    for seed in range(8):
        evidence = gather(op, "planted", seed, HONEST["attention"])
        assert examine(evidence)[1].outcome is None
        skipped += int((torch.isnan(evidence.reference.native[0]) & ~torch.isnan(evidence.outputs[0])).sum())
    assert skipped
