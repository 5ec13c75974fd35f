"""One-call functions of PyTorch: they compute what the catalogue's references do, and only for these operators."""

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, PLAIN, SIZES, inputs, small_graph
from workers.baselines.agreement import check
from workers.baselines.module import spread, to_module
from workers.baselines.native import ATTENTIONS, BACKENDS, NATIVE, natives_of

WITHOUT = {"matmul", "rope", *PLAIN, "quantize_fp8", "lm_head_sparse", "w4a16_matmul", "ternary_matmul", "qk_norm_rope"}
WITHOUT |= {"sigmoid_attention", "paged_decode", "rope_half"}
"""Operators whose reference is one call already, or that PyTorch has no call for."""


FLASH = "sdpa_flash"
"""The one fused backend that a processor has."""


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - WITHOUT))
def test_it_agrees_with_the_reference(name):
    operator, tensors = OPERATORS[name], inputs(OPERATORS[name])
    found = natives_of(operator, SIZES)
    assert set(found) == (set(BACKENDS) if name in ATTENTIONS else {NATIVE})
    expected = spread(to_module(small_graph(name), len(tensors), torch.device("cpu")))(tensors)
    got = found[FLASH if name in ATTENTIONS else NATIVE](tensors)
    check(operator, got, expected, max(SIZES.values()), lambda: expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("backend", sorted(set(BACKENDS) - {FLASH}))
def test_a_backend_that_cannot_run_says_so_and_no_other_takes_its_place(backend):
    with pytest.raises(RuntimeError, match=r"No (available kernel|viable backend)"):
        natives_of(OPERATORS["attention"], SIZES)[backend](inputs(OPERATORS["attention"]))


def test_a_mask_is_made_once_per_shape(monkeypatch):
    operator, made = OPERATORS["sliding_window_attention"], []
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, **options: made.append(size) or ones(*size, **options))
    call = natives_of(operator, {**SIZES, "window": 2})[FLASH]
    for _ in range(2):
        call(inputs(operator))
    assert len(made) == 1


def test_gradients_leave_the_inputs_as_they_are():
    operator, tensors = OPERATORS["layernorm_backward"], inputs(OPERATORS["layernorm_backward"])
    before = [tensor.clone() for tensor in tensors]
    results = natives_of(operator, SIZES)[NATIVE](tensors)
    assert len(results) == len(operator.results)
    assert not any(tensor.requires_grad for tensor in (*tensors, *results))
    assert all(map(torch.equal, tensors, before))


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_there_is_none(name):
    assert natives_of(OPERATORS[name], SIZES) == {}


def test_an_operator_of_the_same_name_with_other_arguments_has_none():
    rmsnorm = OPERATORS["rmsnorm"]
    other = rmsnorm.model_copy(update={"inputs": rmsnorm.inputs[:1]})
    assert natives_of(other, SIZES) == {}
