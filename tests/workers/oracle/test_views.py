"""Runs are seen where slots have them, and inputs are made again from their content alone."""

import pytest
import torch

from tests.workers.checks.cases import HONEST, operator
from tests.workers.oracle.stage import SEED, Stage
from workers.commands import TIMED, InputContent
from workers.errors import BadMessage
from workers.inputs import draw
from workers.oracle.base import OracleSubject, PlanRun
from workers.oracle.views import expect, give_evidence, inputs_after, inputs_before, outputs, timed_inputs


@pytest.mark.parametrize("name", ["normal", TIMED])
def test_inputs_lie_where_they_were_put(name):
    stage = Stage(operator("rmsnorm"))
    first, second = stage.slots(2)
    run = stage.play(HONEST["rmsnorm"], second, InputContent(draw=name, seed=SEED, stream=5))
    stage.play(HONEST["rmsnorm"], first, InputContent(draw=name, seed="00", stream=5))
    before = inputs_before(stage.card, stage.operator, run)
    assert [tensor.shape for tensor in before] == [(48, 96), (96,)]
    for one, other in zip(before, inputs_after(stage.card, stage.operator, run), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(outputs(stage.card, [run])[0][0], HONEST["rmsnorm"](*before))


def test_drawn_inputs_are_those_of_the_draw():
    stage = Stage(operator("softmax"))
    (slot,) = stage.slots(1)
    (given,) = inputs_before(
        stage.card, stage.operator, PlanRun(stage.plan, slot, InputContent(draw="heavy", seed=SEED))
    )
    assert torch.equal(given, draw(stage.operator, stage.shape, "heavy", bytes.fromhex(SEED))[0])


def test_streams_differ_and_repeat():
    stage = Stage(operator("softmax"))
    one = timed_inputs(stage.card, stage.operator, stage.shape, SEED, [1, 2])
    again = timed_inputs(stage.card, stage.operator, stage.shape, SEED, [2])
    assert torch.equal(one[2][0], again[2][0])
    assert not torch.equal(one[1][0], one[2][0])


def test_a_strided_output_is_seen_as_such():
    stage = Stage(operator("softmax"))
    (slot,) = stage.slots(1)
    run = stage.play(HONEST["softmax"], slot, InputContent(draw="normal", seed=SEED))
    view = run.plan.outputs[0].model_copy(update={"shape": (24, 48), "strides": (192, 2), "offset_bytes": 2})
    strided = run.plan.model_copy(update={"outputs": (view,)})
    (seen,), (whole,) = outputs(stage.card, [PlanRun(strided, slot, run.content), run])
    assert torch.equal(seen, whole[::2, 1::2])
    assert torch.equal(outputs(stage.card, [run, run])[1][0], whole)


def test_evidence_holds_all_that_was_seen():
    stage = Stage(operator("softmax"))
    (slot,) = stage.slots(1)
    run = stage.play(HONEST["softmax"], slot, InputContent(draw="shifted", seed=SEED))
    subject = OracleSubject(stage.operator, {stage.shape.key: stage.graph})
    given = inputs_before(stage.card, stage.operator, run)
    evidence = give_evidence(stage.card, subject, run, given)
    assert (evidence.draw, evidence.shape.key) == ("shifted", "M=48,N=96")
    assert torch.equal(evidence.outputs[0], evidence.reference.native[0])
    with pytest.raises(BadMessage, match="no reference"):
        expect(OracleSubject(stage.operator, {}), run, given)
