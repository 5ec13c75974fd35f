"""Kernels are traced as they are and written differently: no axis may tell these apart, and one that does is named."""

from collections.abc import Mapping
from typing import Any

import pytest

from archive.descriptors import DESCRIPTORS, Descriptor
from service.analysis.invariance import check_invariance
from service.evaluation.executor_client import Kind, LocalExecutor
from service.operators.catalogue import load_operator
from service.operators.shapes import all_shapes
from tests.service.export import pieces
from workers.protocol import Job, TraceJob


class Overheard(LocalExecutor):
    """A bench, and the text that it was given last."""

    text = ""

    async def run(self, job: Job, kind: type[Kind]) -> Kind:
        assert isinstance(job, TraceJob) and job.source is not None
        self.text = job.source
        return await super().run(job, kind)


class Lines(Descriptor):
    """An axis that breaks the rule: it reads the candidate's text."""

    name = "lines"
    unit = "lines"
    meaning = "how long the text is"
    needs = ()
    edges = (20.0, 40.0)
    labels = ("short", "medium", "long")

    def __init__(self, bench: Overheard) -> None:
        self._executor = bench

    def value(self, readings: Mapping[str, Any]) -> float:
        return float(len(self._executor.text.splitlines()))


async def test_no_axis_moves_and_one_that_reads_the_text_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    softmax = load_operator("softmax")
    async with Overheard("trace") as tracer:
        still = await check_invariance(softmax, all_shapes(softmax, 0), "sm_90", {"seed": softmax.seeds[0]}, tracer)
        sources = {"tuned": pieces.SOURCE, "broken": pieces.SOURCE.replace("n = x.numel()", "n = x.no()"), "odd": "("}
        monkeypatch.setitem(DESCRIPTORS, "lines", Lines(tracer))
        found = await check_invariance(pieces.OPERATOR, pieces.SHAPES, "sm_90", sources, tracer)
    assert (still.compared, still.equal, still.skipped) == (1, 1, {})
    assert still.moved == {name: [] for name in DESCRIPTORS if name != "lines"}
    assert (found.compared, found.equal) == (1, 1)
    assert {name for name, moves in found.moved.items() if moves} == {"lines"}
    (move,) = found.moved["lines"]
    before = len(pieces.SOURCE.splitlines())
    assert (move.candidate, move.variant, move.before) == ("tuned", 0, {"value": before, "bin": 2})
    assert move.after is not None and move.after["value"] > before
    assert found.skipped.keys() == {"broken", "odd"}
    assert "no" in found.skipped["broken"]
