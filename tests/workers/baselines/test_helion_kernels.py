"""Kernels in Helion compute what the catalogue's references do; its own eager mode runs them on a processor."""

import subprocess
import sys

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, SIZES, inputs, small_graph
from workers.baselines import helion
from workers.baselines.agreement import check
from workers.baselines.helion import helion_of
from workers.baselines.module import spread, to_module

package = pytest.importorskip("helion")
ROWS = ("rmsnorm", "layernorm", "softmax", "swiglu", "cross_entropy")
PRODUCTS = ("matmul", "gate_up_swiglu", "attention")


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    modes = package.runtime.ref_mode.RefMode
    monkeypatch.setattr(helion, "SETTINGS", {"static_shapes": True, "ref_mode": modes.EAGER})


@pytest.mark.parametrize("name", ROWS)
def test_it_agrees_with_the_reference(name, turns):
    operator, tensors = OPERATORS[name], inputs(OPERATORS[name])
    expected = spread(to_module(small_graph(name), len(tensors), torch.device("cpu")))(tensors)
    got = helion_of(operator, SIZES, turns)(tensors)
    assert check(operator, got, expected, max(SIZES.values()), lambda: expected) is None


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_16_bits_agree_too(name, turns, monkeypatch):
    """A processor has no product of 16-bit factors with a 32-bit result; that of the factors as float32 is the same."""
    for call in ("mm", "bmm"):
        plain = getattr(torch, call)
        monkeypatch.setattr(torch, call, lambda a, b, out_dtype=None, plain=plain: plain(a.float(), b.float()))
    for call in ("addmm", "baddbmm"):
        plain = getattr(torch, call)
        monkeypatch.setattr(torch, call, lambda c, a, b, plain=plain, **options: plain(c, a.float(), b.float()))
    operator, tensors = OPERATORS[name], inputs(OPERATORS[name])
    expected = spread(to_module(small_graph(name), len(tensors), torch.device("cpu")))(tensors)
    got = helion_of(operator, SIZES, turns)(tensors)
    assert check(operator, got, expected, max(SIZES.values()), lambda: expected) is None


@pytest.mark.slow(reason="its compiler takes half a minute; its eager mode covers the values")
def test_its_compiler_accepts_all_of_them():
    command = (sys.executable, "-m", "tests.workers.baselines.helion_generation")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(done.stdout.split()) == set(helion._KERNELS.values())
