"""Rehearsal: whoever fails, disagrees or touches its inputs is left out, with a reason, and the others go on."""

import time

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, inputs, small_graph
from workers.baselines import rehearsal as module
from workers.baselines.agreement import Disagrees
from workers.baselines.contenders import EAGER, contenders_of
from workers.baselines.rehearsal import REASON_CHARS, Rehearsal

SWIGLU = OPERATORS["swiglu"]
EAGER_SWIGLU = contenders_of(SWIGLU, small_graph("swiglu"), torch.device("cpu"))[0][EAGER]


def honest(tensors):
    return ((torch.nn.functional.silu(tensors[0].float()) * tensors[1].float()).bfloat16(),)


def wrong(tensors):
    return (tensors[0] * tensors[1],)


def mutating(tensors):
    outputs = honest(tensors)
    tensors[0].zero_()
    return outputs


def raising(tensors):
    raise RuntimeError("out of memory" + "x" * 1000 + "\nset a variable")


def admitted(**functions):
    makers = {EAGER: EAGER_SWIGLU, **{name: lambda function=function: function for name, function in functions.items()}}
    return Rehearsal(SWIGLU, inputs(SWIGLU)).admit(makers)


def test_an_honest_contender_is_admitted_beside_eager():
    ready, refused = admitted(honest=honest)
    assert (set(ready), refused) == ({EAGER, "honest"}, {})
    assert ready["honest"] is honest


def test_a_contender_that_disagrees_is_left_out():
    ready, refused = admitted(wrong=wrong, honest=honest)
    assert set(ready) == {EAGER, "honest"}
    assert "times what rounding explains" in refused["wrong"]


def test_a_contender_that_changes_inputs_is_left_out_and_its_traces_are_removed():
    ready, refused = admitted(mutating=mutating, honest=honest)
    assert set(ready) == {EAGER, "honest"}
    assert refused == {"mutating": "it changes its inputs: gate"}


def test_inputs_come_back_where_they_may_be_changed():
    free = tuple(item.model_copy(update={"mutable": True}) for item in SWIGLU.inputs)
    tensors = inputs(SWIGLU)
    before = [tensor.clone() for tensor in tensors]
    ready, refused = Rehearsal(SWIGLU.model_copy(update={"inputs": free}), tensors).admit(
        {EAGER: EAGER_SWIGLU, "mutating": lambda: mutating}
    )
    assert (set(ready), refused) == ({EAGER, "mutating"}, {})
    assert all(torch.equal(tensor, kept) for tensor, kept in zip(tensors, before, strict=True))


def test_a_failure_is_a_reason_in_one_short_line():
    _, refused = admitted(raising=raising)
    assert refused["raising"].startswith("RuntimeError: out of memory")
    assert len(refused["raising"]) == REASON_CHARS


def test_a_contender_that_never_gets_ready_is_left_out(monkeypatch):
    monkeypatch.setattr(module, "READY_S", 1.0)
    ready, refused = admitted(endless=lambda tensors: time.sleep(60), honest=honest)
    assert set(ready) == {EAGER, "honest"}
    assert refused == {"endless": "TimeoutError: it was not ready after 1 s"}


def test_the_pacer_is_compared_the_same_way():
    rehearsal = Rehearsal(SWIGLU, inputs(SWIGLU))
    rehearsal.admit({EAGER: EAGER_SWIGLU})
    rehearsal.compare(honest)
    with pytest.raises(Disagrees):
        rehearsal.compare(wrong)


def test_a_reference_that_does_not_run_here_is_our_failure():
    with pytest.raises(RuntimeError, match="out of"):
        Rehearsal(SWIGLU, inputs(SWIGLU)).admit({EAGER: lambda: raising})
