"""Operators that have a kernel in Helion, and its tuning with the card alone; figures are for a card."""

import fcntl
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from tests.workers.baselines.catalogue import OPERATORS, SIZES, inputs
from workers.baselines import helion
from workers.baselines.client import SHAPE_S, TUNING_S
from workers.baselines.helion import SETTINGS, helion_of
from workers.baselines.preparation import READY_S

THERE = {
    *("rmsnorm", "layernorm", "softmax", "swiglu", "cross_entropy", "matmul", "gate_up_swiglu", "attention"),
}


@pytest.fixture
def tuner(monkeypatch):
    """A package that notes how kernels are made, and how the card is locked at each call."""
    package, calls = ModuleType("helion"), []

    def kernel(function, **settings):
        def call(*arguments):
            calls.append((function.__name__, settings, _locked_by(package.lock)))
            return arguments[0]

        return call

    package.kernel, package.calls = kernel, calls
    monkeypatch.setitem(sys.modules, "helion", package)
    package.__spec__ = ModuleSpec("helion", None)
    kernels = ModuleType("kernels")
    kernels.rmsnorm = lambda x, weight: x
    kernels.rmsnorm.__name__ = "rmsnorm"
    monkeypatch.setitem(sys.modules, helion.KERNELS, kernels)
    return package


def _locked_by(lock):
    return lock._how


def test_it_is_tuned_with_the_card_alone_and_then_runs_beside_others(tuner, turns):
    tuner.lock = turns
    function, tensors = helion_of(OPERATORS["rmsnorm"], SIZES, turns), inputs(OPERATORS["rmsnorm"])
    with turns.shared():
        for _ in range(2):
            assert function(tensors)[0] is tensors[0]
    assert [name for name, *_ in tuner.calls] == ["rmsnorm", "rmsnorm"]
    assert [how for *_, how in tuner.calls] == [fcntl.LOCK_EX, fcntl.LOCK_SH]
    assert tuner.calls[0][1] == SETTINGS


def test_its_tuning_has_time_of_its_own():
    assert SETTINGS["autotune_budget_seconds"] == TUNING_S
    assert SHAPE_S >= 2 * READY_S + READY_S + TUNING_S


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - THERE))
def test_what_it_lacks_has_a_reason(name, turns):
    assert helion_of(OPERATORS[name], SIZES, turns) == "there is no kernel in Helion for it"


@pytest.mark.parametrize("name", sorted(THERE))
def test_without_the_package_there_is_a_reason(name, turns, monkeypatch):
    monkeypatch.setitem(sys.modules, "helion", None)
    assert helion_of(OPERATORS[name], SIZES, turns) == "helion is not installed"
