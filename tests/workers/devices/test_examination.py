"""What is sanitised, and what becomes of findings; the runs themselves are for a card."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.service import records
from tests.workers.checks.cases import graph_of
from tests.workers.devices.desk import MIX
from tests.workers.devices.raced import OPERATOR, SHAPE, SIZE, Machine, raced
from tests.workers.paper_driver import code
from workers.assembler import MachineCode
from workers.commands import PairSide
from workers.devices.card_processes import CardMemoryShort
from workers.devices.ending import JudgementEnded
from workers.devices.examination import (
    ABSENT,
    OUTCOMES,
    RACECHECK,
    SANITISED_BYTES,
    UNFOLLOWED,
    UNSEEN,
    Examination,
    judging_bytes,
    sanitised,
)
from workers.devices.finalist_checks import FAR_INDICES, FINAL_CHECKS
from workers.devices.trial import room_for
from workers.gpu_lock import GpuLock
from workers.protocol import (
    Buffer,
    Bundle,
    CheckResult,
    Device,
    FinalJob,
    Outcome,
    ShapeRole,
    Stage,
)
from workers.protocol import operator as operators
from workers.sanitizer import TOOLS, Sanitizer
from workers.sanitizer.messages import ReplayRequest

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

REHEARSAL = ReplayRequest(card=0, operator=records.OPERATOR, bundle=BUNDLE, machine_code={}, plans=(), seed="00")


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[SimpleNamespace]:
    with closing(GpuLock("paper", tmp_path)) as turns:
        yield SimpleNamespace(processes=SimpleNamespace(gpu_lock=turns))


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
    assert [result.detail for result in examined.results()][1:-1] == [ABSENT] * len(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_finding_ends_the_examination(setting: SimpleNamespace, tool: str) -> None:
    class Found(Sanitizer):
        def run(self, tool: str, rehearsal: ReplayRequest, program: object = ()) -> CheckResult:
            return CheckResult(name=tool, verdict="failed", detail=f"{tool}: something")

    examined = examination(setting, Found("p", "1"))
    with pytest.raises(JudgementEnded) as ended:
        examined._sanitise(tool, REHEARSAL)
    assert ended.value.found["stage"] is Stage.FINAL and ended.value.found["outcome"] is OUTCOMES[tool]
    assert OUTCOMES[tool] in (Outcome.OUT_OF_BOUNDS, Outcome.NONDETERMINISTIC)
    verdicts = {result.name: result.verdict for result in examined.results()}
    assert verdicts[tool] == "failed" and set(verdicts) == set(FINAL_CHECKS)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_race_between_roles_of_warps_is_said_and_not_held_against_a_finalist(
    setting: SimpleNamespace, tool: str
) -> None:
    class Found(Sanitizer):
        def run(self, tool: str, rehearsal: ReplayRequest, program: object = ()) -> CheckResult:
            return CheckResult(name=tool, verdict="failed", detail=f"{tool}: something")

    examined = examination(setting, Found("p", "1"))
    if tool != RACECHECK:
        with pytest.raises(JudgementEnded):
            examined._sanitise(tool, REHEARSAL, specialised=True)
        return
    examined._sanitise(tool, REHEARSAL, specialised=True)
    (result,) = (result for result in examined.results() if result.name == tool)
    assert result.verdict == "skipped" and result.detail == f"{UNFOLLOWED}: {tool}: something"
    assert not examined.sanitised


@dataclass
class Far:
    """A finalist with a plan that counts as one with indices beyond 2^31, and a card on paper."""

    examination: Examination
    machine: Machine
    provided: list[int]

    @property
    def result(self) -> CheckResult:
        return self.examination.checks[FAR_INDICES]

    def run(self) -> None:
        self.examination._run_far(self.codes)

    @property
    def codes(self) -> dict[str, MachineCode]:
        return {digest: MachineCode(code(5, "work", us=0.0), (), 8, 0, 0, MIX) for digest in self.bundle.kernels}

    @property
    def bundle(self) -> Bundle:
        return self.examination.job.bundle


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    monkeypatch.setattr(operators, "FAR", 100)
    with raced() as (trial, machine):
        shape = SHAPE.model_copy(update={"role": ShapeRole.RANDOM})
        traced = trial.bundles[PairSide.CANDIDATE]
        bundle = traced.model_copy(update={"plans": tuple(p.model_copy(update={"shape": shape}) for p in traced.plans)})
        asked = {"operator": OPERATOR, "bundle": bundle, "graphs": (graph_of(OPERATOR, shape),)}
        provided: list[int] = []
        trial.processes.memory_bytes, trial.processes.provide = 2**30, provided.append
        setting = SimpleNamespace(processes=trial.processes)
        yield Far(Examination(JOB.model_copy(update=asked), setting, None, 0), machine, provided)  # type: ignore[arg-type]


def test_a_shape_with_indices_beyond_2_to_the_31_is_run_alone_in_an_arena_for_one_run(far: Far) -> None:
    far.run()
    assert (far.result.verdict, far.result.detail) == ("passed", f"{SHAPE.key}, one draw")
    assert far.provided == [room_for(far.bundle, runs=1)]


def test_who_is_wrong_there_fails(far: Far) -> None:
    far.machine.compute = lambda place, us=0.0: None  # type: ignore[method-assign]  # what an index that wrapped leaves
    with pytest.raises(JudgementEnded, match="where indices exceed 2\\^31") as ended:
        far.run()
    assert ended.value.found["stage"] is Stage.FINAL and ended.value.found["outcome"] is Outcome.WRONG_RESULT
    assert far.result.verdict == "failed"


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (CardMemoryShort("the oracle failed: too little memory"), "does not fit the card: the oracle failed"),
        (JudgementEnded(Stage.CHECK, Outcome.PLAN_REJECTED, "its arena is too large"), "its arena is too large"),
        (JudgementEnded(Stage.CHECK, Outcome.HANG, "it does not end within 5 s"), "it does not end within 5 s"),
    ],
)
def test_what_the_card_has_no_room_or_time_for_is_nobodys_failure(far: Far, raised: Exception, said: str) -> None:
    def refuse(_: int) -> None:
        raise raised

    far.examination.setting.processes.provide = refuse  # type: ignore[method-assign]
    far.run()
    assert far.result.verdict == "skipped" and said in far.result.detail and SHAPE.key in far.result.detail


def test_what_cannot_fit_is_not_tried(far: Far) -> None:
    graph = far.examination.job.graphs[0]
    needed = room_for(far.bundle, runs=1) + judging_bytes(OPERATOR, graph)
    assert judging_bytes(OPERATOR, graph) == SIZE + 8 * SIZE // 2 * 2
    far.examination.setting.processes.memory_bytes = needed - 1
    far.run()
    assert far.result.verdict == "skipped" and "with a float64 reference" in far.result.detail
    assert far.provided == []
    far.examination.setting.processes.memory_bytes = needed
    far.run()
    assert far.result.verdict == "passed"


def test_where_results_are_as_large_the_checker_is_not_believed_yet(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.devices.examination.FAR", 100)
    far.run()
    assert (far.result.verdict, far.result.detail) == ("skipped", f"at {SHAPE.key} {UNSEEN}")
    assert far.provided == []


def test_where_no_shape_reaches_so_far_the_reason_is_told(setting: SimpleNamespace) -> None:
    examined = examination(setting, None)
    examined.job = JOB.model_copy(update={"unreached": "no input reaches so far"})
    examined._run_far({})
    assert (examined.results()[-1].verdict, examined.results()[-1].detail) == ("skipped", "no input reaches so far")
