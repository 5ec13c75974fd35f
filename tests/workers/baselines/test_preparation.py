"""Rehearsal: whoever fails, disagrees or touches its inputs is left out, with a reason, and the others go on."""

import time
from functools import partial

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS, inputs, small_graph
from workers.baselines import preparation as module
from workers.baselines.agreement import Disagrees
from workers.baselines.contenders import EAGER
from workers.baselines.module import spread, to_module
from workers.baselines.preparation import REASON_CHARS, ContenderPreparation

SWIGLU = OPERATORS["swiglu"]
EAGER_SWIGLU = partial(spread, to_module(small_graph("swiglu"), len(SWIGLU.given), torch.device("cpu")))


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


@pytest.fixture
def admitted(turns):
    def admit(**functions):
        others = {name: lambda function=function: function for name, function in functions.items()}
        return ContenderPreparation(SWIGLU, inputs(SWIGLU), turns).admit({EAGER: EAGER_SWIGLU, **others})

    return admit


def test_an_honest_contender_is_admitted_beside_eager(admitted):
    ready, refused = admitted(honest=honest)
    assert (set(ready), refused) == ({EAGER, "honest"}, {})
    assert ready["honest"] is honest


def test_seconds_are_told_of_every_contender(turns):
    rehearsal = ContenderPreparation(SWIGLU, inputs(SWIGLU), turns)
    rehearsal.admit({EAGER: EAGER_SWIGLU, "honest": lambda: honest, "raising": lambda: raising})
    assert set(rehearsal.spent_s) == {"honest", "raising"} and min(rehearsal.spent_s.values()) > 0


def test_a_contender_that_disagrees_is_left_out(admitted):
    ready, refused = admitted(wrong=wrong, honest=honest)
    assert set(ready) == {EAGER, "honest"}
    assert "times what rounding explains" in refused["wrong"]


def test_a_contender_that_changes_inputs_is_left_out_and_its_traces_are_removed(admitted):
    ready, refused = admitted(mutating=mutating, honest=honest)
    assert set(ready) == {EAGER, "honest"}
    assert refused == {"mutating": "it changes its inputs: gate"}


def test_inputs_come_back_where_they_may_be_changed(turns):
    free = tuple(item.model_copy(update={"mutable": True}) for item in SWIGLU.inputs)
    tensors = inputs(SWIGLU)
    before = [tensor.clone() for tensor in tensors]
    ready, refused = ContenderPreparation(SWIGLU.model_copy(update={"inputs": free}), tensors, turns).admit(
        {EAGER: EAGER_SWIGLU, "mutating": lambda: mutating}
    )
    assert (set(ready), refused) == ({EAGER, "mutating"}, {})
    assert all(torch.equal(tensor, kept) for tensor, kept in zip(tensors, before, strict=True))


def test_a_failure_is_a_reason_in_one_short_line(admitted):
    _, refused = admitted(raising=raising)
    assert refused["raising"].startswith("RuntimeError: out of memory")
    assert len(refused["raising"]) == REASON_CHARS


def hidden(tensors):
    try:
        raising(tensors)
    except RuntimeError:
        raise ValueError("Attempt to trace generator")  # noqa: B904


@pytest.mark.parametrize("function", [raising, hidden])
def test_a_lack_of_memory_is_told_and_beside_others_it_is_no_verdict(turns, function):
    makers = {EAGER: EAGER_SWIGLU, "short": lambda: function, "honest": lambda: honest}
    ready, refused = ContenderPreparation(SWIGLU, inputs(SWIGLU), turns).admit(makers)
    assert set(ready) == {EAGER, "honest"} and refused["short"].startswith("RuntimeError: out of memory")
    with pytest.raises(RuntimeError, match="out of memory"):
        ContenderPreparation(SWIGLU, inputs(SWIGLU), turns, alone=False).admit(makers)


def test_a_contender_that_never_gets_ready_is_left_out(monkeypatch, admitted):
    monkeypatch.setattr(module, "READY_S", 1.0)
    ready, refused = admitted(endless=lambda tensors: time.sleep(60), honest=honest)
    assert set(ready) == {EAGER, "honest"}
    assert refused == {"endless": "TimeoutError: it was not ready after 1 s"}


def test_the_pacer_is_compared_the_same_way(turns):
    rehearsal = ContenderPreparation(SWIGLU, inputs(SWIGLU), turns)
    rehearsal.admit({EAGER: EAGER_SWIGLU})
    rehearsal.compare(honest)
    with pytest.raises(Disagrees):
        rehearsal.compare(wrong)


def test_a_reference_that_does_not_run_here_is_our_failure(turns):
    with pytest.raises(RuntimeError, match="out of"):
        ContenderPreparation(SWIGLU, inputs(SWIGLU), turns).admit({EAGER: lambda: raising})


def test_the_reference_is_asked_again_on_inputs_that_are_a_little_off_and_they_come_back(turns):
    wide = tuple(item.model_copy(update={"dtype": "float32"}) for item in SWIGLU.inputs)
    outputs = tuple(item.model_copy(update={"dtype": "float32"}) for item in SWIGLU.outputs)
    operator = SWIGLU.model_copy(update={"inputs": wide, "outputs": outputs})
    tensors, asked = [tensor.float() for tensor in inputs(SWIGLU)], []
    before = [tensor.clone() for tensor in tensors]

    def eager(given):
        asked.append([tensor.clone() for tensor in given])
        return (torch.nn.functional.silu(given[0]) * given[1],)

    rehearsal = ContenderPreparation(operator, tensors, turns)
    rehearsal.admit({EAGER: lambda: eager})
    with pytest.raises(Disagrees):
        rehearsal.compare(lambda given: (eager(given)[0] * 1.01,))
    assert len(asked) == 3 and all(map(torch.equal, tensors, before))
    for nudged, tensor in zip(asked[-1], before, strict=True):
        moved = (nudged / tensor - 1).abs()
        assert 0 < moved.max() < 2.1e-6
