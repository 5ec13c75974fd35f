"""The examination of a finalist on a card: random shapes in the arena, then the sanitizer on memory of its own."""

import secrets
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from workers.assembler import MachineCode
from workers.commands import SECRET_BYTES, PairSide
from workers.devices.card_processes import CardMemoryShort
from workers.devices.ending import JudgementEnded, timed
from workers.devices.finalist_checks import FAR_INDICES, FINAL_CHECKS, RANDOM_SHAPES, far_plan, random_plans, skipped
from workers.devices.measurement import MeasurementContext, assemble_again
from workers.devices.selection import contract_bytes
from workers.devices.trial import CheckedRuns, VariantTrial, room_for
from workers.protocol import FAR, Bundle, CheckResult, FinalJob, Graph, Operator, Outcome, Plan, ShapeRole, Stage
from workers.sanitizer import TOOLS, Sanitizer
from workers.sanitizer.messages import ReplayRequest

ABSENT = "no compute-sanitizer on this machine; it comes with the CUDA toolkit"
"""Reason why a card's finalists are not sanitised."""
RACECHECK = "racecheck"
OUTCOMES = {
    "memcheck": Outcome.OUT_OF_BOUNDS,
    "initcheck": Outcome.NONDETERMINISTIC,
    RACECHECK: Outcome.NONDETERMINISTIC,
}
"""Outcome of a finalist by the tool with a finding: a race, or a read of uninitialised memory, gives random results."""
UNFOLLOWED = "it does not follow the barriers between roles of warps, so it may be wrong about this"
"""Reason for skipping a finding on warps with roles (decision 57)."""
UNDECIDED = (Outcome.PLAN_REJECTED, Outcome.HANG)
"""Outcomes that say nothing against a plan at so large a shape: arenas may be too small for it, and its run may be
slow."""
UNSEEN = "results have more than 2^31 elements too, and the oracle itself is not tested at that size on a card"
"""Reason for skipping a shape: if the oracle were wrong there, honest kernels would lose their cells."""
REFERENCE_BYTES = 8
"""Bytes of an element in float64, the dtype of expected results."""
SANITISED_BYTES = 2**30
"""Maximum bytes of inputs and results of a plan under the sanitizer, in memory beside the runner's."""


@dataclass
class Examination:
    """One finalist.

    Attributes:
        job: The job.
        setting: Context of all measurements on this card.
        sanitizer: The tool; None if this machine has none.
        card: Index of the card.
        checks: Results so far, by name.
        stages_s: Seconds by stage so far.
    """

    job: FinalJob
    setting: MeasurementContext
    sanitizer: Sanitizer | None
    card: int
    checks: dict[str, CheckResult] = field(default_factory=dict)
    stages_s: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Make all checks, quick ones first and those with the largest memory last.

        Raises:
            JudgementEnded: At the first that fails.
            CardFailed: If the card or a process that uses it failed.
        """
        with timed(self.stages_s, "assemble"):
            codes = assemble_again(self.job.bundle, self.job.operator, self.setting.assemblers).codes
        with timed(self.stages_s, RANDOM_SHAPES):
            self._run_random_shapes(codes)
        request, roles = self._replay_request(codes), {code.mix.warp_roles for code in codes.values()}
        for tool in TOOLS:
            with timed(self.stages_s, tool):
                self._sanitise(tool, request, specialised="specialised" in roles)
        with timed(self.stages_s, FAR_INDICES):
            self._run_far(codes)

    @property
    def sanitised(self) -> bool:
        """True if every tool finished without a finding."""
        return all(tool in self.checks and self.checks[tool].verdict == "passed" for tool in TOOLS)

    def results(self) -> tuple[CheckResult, ...]:
        """Return one result per check, including those that were not reached."""
        return tuple(self.checks.get(name, skipped(name, "not reached")) for name in FINAL_CHECKS)

    def _run_random_shapes(self, codes: Mapping[str, MachineCode]) -> None:
        job, plans = self.job, list(random_plans(self.job.bundle, self.job.operator))
        if not plans:
            self.checks[RANDOM_SHAPES] = skipped(RANDOM_SHAPES, "the operator has no ranges to draw shapes from")
            return
        self.setting.processes.provide(room_for(job.bundle.restricted([plan for _, plan, _ in plans]), runs=1))
        trial = VariantTrial(
            self.setting.processes, job.operator, job.graphs, {PairSide.CANDIDATE: job.bundle}, codes, fresh=True
        )
        try:
            for index, _, draws in plans:
                trial.run(CheckedRuns(index, name, 1) for name in draws)
            trial.check_idle()
        except JudgementEnded as ended:
            reason = str(ended)
            self.checks[RANDOM_SHAPES] = CheckResult(name=RANDOM_SHAPES, verdict="failed", detail=reason)
            raise JudgementEnded(
                Stage.FINAL, Outcome(str(ended.found["outcome"])), f"at a random shape: {reason}"
            ) from ended
        detail = f"{len(plans)} shapes, two draws each"
        self.checks[RANDOM_SHAPES] = CheckResult(name=RANDOM_SHAPES, verdict="passed", detail=detail)

    def _run_far(self, codes: Mapping[str, MachineCode]) -> None:
        """Run the shape with indices beyond 2^31. It is skipped if the card has too little memory or time for it."""
        plan = far_plan(self.job.bundle, self.job.operator)
        if plan is None:
            self.checks[FAR_INDICES] = skipped(FAR_INDICES, self.job.unreached or "the job has no such shape")
            return
        key = plan.shape.key
        try:
            result = self.setting.processes.with_memory(
                f"{self.job.operator.digest} {key}", lambda: self._far_result(plan, codes)
            )
        except CardMemoryShort as error:
            result = skipped(FAR_INDICES, f"{key} does not fit the card: {error}")
        except JudgementEnded as ended:
            if ended.found["outcome"] not in UNDECIDED:
                self.checks[FAR_INDICES] = CheckResult(name=FAR_INDICES, verdict="failed", detail=str(ended))
                outcome, reason = Outcome(str(ended.found["outcome"])), f"where indices exceed 2^31: {ended}"
                raise JudgementEnded(Stage.FINAL, outcome, reason) from ended
            result = skipped(FAR_INDICES, f"{key}: {ended}")
        self.checks[FAR_INDICES] = result

    def _far_result(self, plan: Plan, codes: Mapping[str, MachineCode]) -> CheckResult:
        """Run a plan on one draw, alone in the arena."""
        job, processes = self.job, self.setting.processes
        bundle = job.bundle.restricted([plan])
        (graph,) = (graph for graph in job.graphs if graph.shape.key == plan.shape.key)
        if any(prod(shape) > FAR for shape in graph.output_shapes):
            return skipped(FAR_INDICES, f"at {plan.shape.key} {UNSEEN}")
        needed = room_for(bundle, runs=1) + judging_bytes(job.operator, graph)
        if needed > processes.memory_bytes:
            sizes = f"it needs {needed / 1e9:.0f} GB with a float64 reference, of {processes.memory_bytes / 1e9:.0f} GB"
            return skipped(FAR_INDICES, f"{plan.shape.key} does not fit the card: {sizes}")
        processes.provide(room_for(bundle, runs=1))
        trial = VariantTrial(processes, job.operator, (graph,), {PairSide.CANDIDATE: bundle}, codes, fresh=True)
        trial.run([CheckedRuns(0, "normal", 1)])
        trial.check_idle()
        return CheckResult(name=FAR_INDICES, verdict="passed", detail=f"{plan.shape.key}, one draw")

    def _sanitise(self, tool: str, request: ReplayRequest, *, specialised: bool = False) -> None:
        if self.sanitizer is None:
            result = skipped(tool, ABSENT)
        else:
            with self.setting.processes.gpu_lock.shared():
                result = self.sanitizer.run(tool, request)
            if tool == RACECHECK and specialised and result.verdict == "failed":
                result = skipped(tool, f"{UNFOLLOWED}: {result.detail}")
        self.checks[tool] = result
        if result.verdict == "failed":
            raise JudgementEnded(Stage.FINAL, OUTCOMES[tool], result.detail)

    def _replay_request(self, codes: Mapping[str, MachineCode]) -> ReplayRequest:
        """Return a request for boundary shapes, with small buffers and long tails, and the smallest benchmark shape."""
        bundle = self.job.bundle
        return ReplayRequest(
            card=self.card,
            operator=self.job.operator,
            bundle=bundle,
            machine_code={digest: b64encode(codes[digest].code).decode() for digest in bundle.kernels},
            plans=sanitised(bundle, self.job.graphs, self.job.operator),
            seed=secrets.token_hex(SECRET_BYTES),
        )


def judging_bytes(operator: Operator, graph: Graph) -> int:
    """Return the minimum size of a look at a run: inputs made again, and inputs and results in float64."""
    dims = graph.shape.dims
    sizes = [prod(operator.input_shape(item, dims)) for item in operator.given]
    return operator.input_bytes(dims) + REFERENCE_BYTES * sum([*sizes, *map(prod, graph.output_shapes)])


def sanitised(bundle: Bundle, graphs: Sequence[Graph], operator: Operator) -> tuple[int, ...]:
    """Return positions of the plans that run under the sanitizer, the smallest first by inputs and results."""
    sizes = {graph.shape.key: contract_bytes(operator, graph) for graph in graphs}

    def size(index: int) -> int:
        return sizes[bundle.plans[index].shape.key]

    def ranked(role: ShapeRole) -> list[int]:
        return sorted((index for index, plan in enumerate(bundle.plans) if plan.shape.role is role), key=size)

    chosen = (*ranked(ShapeRole.BOUNDARY), *ranked(ShapeRole.BENCHMARK)[:1])
    return tuple(index for index in chosen if size(index) <= SANITISED_BYTES)
