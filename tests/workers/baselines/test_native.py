"""One-call functions of PyTorch: they compute what the catalogue's references do, and only for these operators."""

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, PLAIN, SIZES, inputs, small_graph
from workers.baselines.agreement import check
from workers.baselines.module import spread, to_module
from workers.baselines.native import ATTENTIONS, NATIVE, SDPA, native_of

WITHOUT = {"matmul", "rope", *PLAIN, "quantize_fp8", "lm_head_sparse", "w4a16_matmul", "ternary_matmul", "qk_norm_rope"}
WITHOUT |= {"sigmoid_attention", "paged_decode", "rope_half"}
"""Operators whose reference is one call already, or that PyTorch has no call for."""


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - WITHOUT))
def test_it_agrees_with_the_reference(name):
    operator, tensors = OPERATORS[name], inputs(OPERATORS[name])
    found = native_of(operator, SIZES)
    assert found is not None
    assert found[0] == (SDPA if name in ATTENTIONS else NATIVE)
    expected = spread(to_module(small_graph(name), len(tensors), torch.device("cpu")))(tensors)
    check(operator, found[1](tensors), expected, max(SIZES.values()), lambda: expected)


def test_gradients_leave_the_inputs_as_they_are():
    operator, tensors = OPERATORS["layernorm_backward"], inputs(OPERATORS["layernorm_backward"])
    before = [tensor.clone() for tensor in tensors]
    results = native_of(operator, SIZES)[1](tensors)
    assert len(results) == len(operator.results)
    assert not any(tensor.requires_grad for tensor in (*tensors, *results))
    assert all(map(torch.equal, tensors, before))


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_there_is_none(name):
    assert native_of(OPERATORS[name], SIZES) is None


def test_an_operator_of_the_same_name_with_other_arguments_has_none():
    rmsnorm = OPERATORS["rmsnorm"]
    other = rmsnorm.model_copy(update={"inputs": rmsnorm.inputs[:1]})
    assert native_of(other, SIZES) is None
