"""The quick look points at the runs that are wrong, and at no others."""

import pytest
import torch

from tests.workers.checks.cases import HONEST, operator
from tests.workers.oracle.stage import SEED, Stage
from workers.commands import TIMED, InputContent
from workers.inputs import DRAWS
from workers.oracle import fast_check as module
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.base import OracleSubject, PlanRun
from workers.oracle.fast_check import FastCheck


def looked(stage: Stage, wrong: dict[int, object], count: int = 6, memory_bytes: int = 2**24, **options) -> list[int]:
    """Positions that a glance points at when some of the runs are other kernels'."""
    runs = [
        stage.play(
            wrong.get(index, HONEST[stage.operator.name]), slot, InputContent(draw=TIMED, seed=SEED, stream=index % 4)
        )
        for index, slot in enumerate(stage.slots(count))
    ]
    subject = OracleSubject(stage.operator, {stage.shape.key: stage.graph})
    margins = FastCheck(stage.card, subject, AnswerCache(memory_bytes)).margins(runs, **options)
    return [index for index, margin in enumerate(margins) if not margin.is_right]


@pytest.mark.parametrize("memory_bytes", [0, 2**24])
@pytest.mark.parametrize("batch_bytes", [1, 2**31])
@pytest.mark.parametrize("widened", [False, True])
def test_wrong_runs_are_pointed_at(monkeypatch, memory_bytes, batch_bytes, widened):
    monkeypatch.setattr(module, "BATCH_BYTES", batch_bytes)

    def change(x):
        result = HONEST["softmax"](x)
        x[0, 0] += 1
        return result

    wrong = {1: torch.zeros_like, 4: change, 5: lambda x: None}
    assert looked(Stage(operator("softmax")), wrong, memory_bytes=memory_bytes, widened=widened) == [1, 4, 5]


@pytest.mark.parametrize("name", HONEST)
def test_right_runs_are_not(name):
    assert looked(Stage(operator(name)), {}) == []


def test_integers_are_compared_exactly():
    stage = Stage(operator("argmax"))
    assert looked(stage, {2: lambda x: HONEST["argmax"](x) + (torch.arange(48) == 7)}) == [2]


def test_an_output_of_another_type_is_suspect():
    stage = Stage(operator("softmax"))
    runs = [
        stage.play(HONEST["softmax"], slot, InputContent(draw=TIMED, seed=SEED, stream=0)) for slot in stage.slots(2)
    ]
    view = stage.plan.outputs[0]
    half = view.model_copy(update={"dtype": "float16"})
    retyped = PlanRun(stage.plan.model_copy(update={"outputs": (half,)}), runs[1].slot, runs[1].content)
    fewer = PlanRun(stage.plan.model_copy(update={"outputs": ()}), runs[1].slot, runs[1].content)
    fast_check = FastCheck(stage.card, OracleSubject(stage.operator, {stage.shape.key: stage.graph}), AnswerCache(0))
    assert not fast_check.margins([runs[0], retyped])[1].is_right
    assert not fast_check.margins([fewer])[0].is_right


def test_runs_beside_one_of_another_type_are_not_seen_to_be_right():
    stage = Stage(operator("softmax"))
    kernels = (torch.zeros_like, HONEST["softmax"])
    slots, content = stage.slots(2), InputContent(draw=TIMED, seed=SEED, stream=0)
    runs = [stage.play(kernel, slot, content) for kernel, slot in zip(kernels, slots, strict=True)]
    half = stage.plan.outputs[0].model_copy(update={"dtype": "float16"})
    retyped = PlanRun(stage.plan.model_copy(update={"outputs": (half,)}), runs[1].slot, content)
    fast_check = FastCheck(stage.card, OracleSubject(stage.operator, {stage.shape.key: stage.graph}), AnswerCache(0))
    assert not any(margin.is_right for margin in fast_check.margins([runs[0], retyped]))
    assert [margin.is_right for margin in fast_check.margins(runs)] == [False, True]


@pytest.mark.parametrize("memory_bytes", [0, 2**24])
def test_drawn_contents_are_looked_at_together(memory_bytes):
    stage = Stage(operator("softmax"))
    kernels = [HONEST["softmax"]] * len(DRAWS) + [torch.zeros_like]
    contents = [InputContent(draw=name, seed=SEED) for name in (*DRAWS, "normal")]
    runs = [stage.play(*each) for each in zip(kernels, stage.slots(len(kernels)), contents, strict=True)]
    fast_check = FastCheck(
        stage.card, OracleSubject(stage.operator, {stage.shape.key: stage.graph}), AnswerCache(memory_bytes)
    )
    for _ in range(2):
        margins = fast_check.margins(runs, widened=True)
        assert [margin.is_right for margin in margins] == [True] * len(DRAWS) + [False]
        assert 0 < max(margin.error for margin in margins[:-1]) <= 1


def test_no_runs_are_no_suspects():
    assert looked(Stage(operator("softmax")), {}, count=0) == []
