"""What is sanitised, and what becomes of findings; the runs themselves are for a card."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.service import records
from workers.devices.examination import ABSENT, OUTCOMES, SANITISED_BYTES, Examination, sanitised
from workers.devices.finals import FINAL_CHECKS
from workers.devices.verdict import Ended
from workers.protocol import (
    Buffer,
    CheckResult,
    Device,
    FinalJob,
    Outcome,
    ShapeRole,
    Stage,
)
from workers.sanitizer import TOOLS, Sanitizer
from workers.sanitizer.messages import Rehearsal
from workers.turns import Turns

BUNDLE = records.bundle(1)
JOB = FinalJob(
    id="f",
    search="s",
    candidate="c",
    variant=0,
    finalist=BUNDLE.identity,
    bundle=BUNDLE,
    operator=records.OPERATOR,
    graphs=(),
    device=Device.parse("h200"),
)

REHEARSAL = Rehearsal(card=0, operator=records.OPERATOR, bundle=BUNDLE, machine_code={}, plans=(), seed="00")


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[SimpleNamespace]:
    with closing(Turns("paper", tmp_path)) as turns:
        yield SimpleNamespace(crew=SimpleNamespace(turns=turns))


def examination(setting: SimpleNamespace, sanitizer: Sanitizer | None) -> Examination:
    return Examination(JOB, setting, sanitizer, 0)  # type: ignore[arg-type]  # no card is asked for anything


def test_boundary_shapes_and_the_smallest_benchmark_are_sanitised() -> None:
    graphs = [records.graph(plan.shape) for plan in BUNDLE.plans]
    chosen = sanitised(BUNDLE, graphs, records.OPERATOR)
    assert [BUNDLE.plans[index].shape.role for index in chosen] == [ShapeRole.BOUNDARY, ShapeRole.BENCHMARK]
    large = [graph.model_copy(update={"output_shapes": ((SANITISED_BYTES,),)}) for graph in graphs]
    assert sanitised(BUNDLE, large, records.OPERATOR) == ()
    greedy = tuple(
        plan.model_copy(update={"buffers": (*plan.buffers, Buffer(id=len(plan.buffers), bytes=2 * SANITISED_BYTES))})
        for plan in BUNDLE.plans
    )
    assert sanitised(BUNDLE.model_copy(update={"plans": greedy}), graphs, records.OPERATOR) == chosen


def test_without_the_tool_nothing_is_held_against_a_finalist(setting: SimpleNamespace) -> None:
    examined = examination(setting, None)
    for tool in TOOLS:
        examined._sanitise(tool, REHEARSAL)
    assert [result.verdict for result in examined.results()] == ["skipped"] * len(FINAL_CHECKS)
    assert [result.detail for result in examined.results()][1:] == [ABSENT] * len(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_finding_ends_the_examination(setting: SimpleNamespace, tool: str) -> None:
    class Found(Sanitizer):
        def run(self, tool: str, rehearsal: Rehearsal, program: object = ()) -> CheckResult:
            return CheckResult(name=tool, verdict="failed", detail=f"{tool}: something")

    examined = examination(setting, Found("p", "1"))
    with pytest.raises(Ended) as ended:
        examined._sanitise(tool, REHEARSAL)
    assert ended.value.found["stage"] is Stage.FINAL and ended.value.found["outcome"] is OUTCOMES[tool]
    assert OUTCOMES[tool] in (Outcome.OUT_OF_BOUNDS, Outcome.NONDETERMINISTIC)
    verdicts = {result.name: result.verdict for result in examined.results()}
    assert verdicts[tool] == "failed" and set(verdicts) == set(FINAL_CHECKS)
