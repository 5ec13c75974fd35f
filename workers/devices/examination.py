"""The examination of a finalist on a card: random shapes in the arena, then the sanitizer on memory of its own."""

import secrets
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.assembler import MachineCode
from workers.devices.finals import FINAL_CHECKS, RANDOM_SHAPES, random_plans, skipped
from workers.devices.measurement import Setting, assemble_again
from workers.devices.selection import contract_bytes
from workers.devices.trial import Runs, Trial, room_for
from workers.devices.verdict import Ended, timed
from workers.orders import SECRET_BYTES, Side
from workers.protocol import Bundle, CheckResult, FinalJob, Graph, Operator, Outcome, ShapeRole, Stage
from workers.sanitizer import TOOLS, Sanitizer
from workers.sanitizer.messages import Rehearsal

ABSENT = "no compute-sanitizer on this machine; it comes with the CUDA toolkit"
"""Why a card's finalists are not sanitised."""
OUTCOMES = {
    "memcheck": Outcome.OUT_OF_BOUNDS,
    "initcheck": Outcome.NONDETERMINISTIC,
    "racecheck": Outcome.NONDETERMINISTIC,
}
"""What a finding of a tool makes of a finalist: what comes of a race, or of memory that nobody wrote, is left to
chance."""
SANITISED_BYTES = 2**30
"""Bytes of inputs and results up to which a plan runs under the sanitizer, in memory beside the runner's."""


@dataclass
class Examination:
    """One finalist.

    Attributes:
        job: What is asked.
        setting: What judgements on this card have in common.
        sanitizer: The tool; None if this machine has none.
        card: Index of the card.
        checks: What was found so far, by name.
        stages_s: Seconds by stage so far.
    """

    job: FinalJob
    setting: Setting
    sanitizer: Sanitizer | None
    card: int
    checks: dict[str, CheckResult] = field(default_factory=dict)
    stages_s: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Make all checks, quick ones first.

        Raises:
            Ended: At the first that fails.
            CardFailed: If the card or a process that uses it failed.
        """
        with timed(self.stages_s, "assemble"):
            codes = assemble_again(self.job.bundle, self.job.operator, self.setting.assemblers).codes
        with timed(self.stages_s, RANDOM_SHAPES):
            self._run_random_shapes(codes)
        rehearsal = self._rehearsal(codes)
        for tool in TOOLS:
            with timed(self.stages_s, tool):
                self._sanitise(tool, rehearsal)

    @property
    def sanitised(self) -> bool:
        """Whether every tool saw the end and found nothing."""
        return all(tool in self.checks and self.checks[tool].verdict == "passed" for tool in TOOLS)

    def results(self) -> tuple[CheckResult, ...]:
        """One result a check, those that were not reached among them."""
        return tuple(self.checks.get(name, skipped(name, "not reached")) for name in FINAL_CHECKS)

    def _run_random_shapes(self, codes: Mapping[str, MachineCode]) -> None:
        job, plans = self.job, list(random_plans(self.job.bundle))
        bundles = {Side.CANDIDATE: job.bundle}
        self.setting.crew.provide(room_for(job.bundle, runs=1))
        trial = Trial(self.setting.crew, job.operator, job.graphs, bundles, codes, fresh=True)
        try:
            for index, _, draws in plans:
                trial.run(Runs(index, name, 1) for name in draws)
            trial.check_idle()
        except Ended as ended:
            reason = str(ended)
            self.checks[RANDOM_SHAPES] = CheckResult(name=RANDOM_SHAPES, verdict="failed", detail=reason)
            raise Ended(Stage.FINAL, Outcome(str(ended.found["outcome"])), f"at a random shape: {reason}") from ended
        detail = f"{len(plans)} shapes, two draws each"
        self.checks[RANDOM_SHAPES] = (
            CheckResult(name=RANDOM_SHAPES, verdict="passed", detail=detail)
            if plans
            else skipped(RANDOM_SHAPES, "the operator has no ranges to draw shapes from")
        )

    def _sanitise(self, tool: str, rehearsal: Rehearsal) -> None:
        if self.sanitizer is None:
            result = skipped(tool, ABSENT)
        else:
            with self.setting.crew.turns.among_others():
                result = self.sanitizer.run(tool, rehearsal)
        self.checks[tool] = result
        if result.verdict == "failed":
            raise Ended(Stage.FINAL, OUTCOMES[tool], result.detail)

    def _rehearsal(self, codes: Mapping[str, MachineCode]) -> Rehearsal:
        """Boundary shapes, where buffers are small and tails are long, and the smallest benchmark shape."""
        bundle = self.job.bundle
        return Rehearsal(
            card=self.card,
            operator=self.job.operator,
            bundle=bundle,
            machine_code={digest: b64encode(codes[digest].code).decode() for digest in bundle.kernels},
            plans=sanitised(bundle, self.job.graphs, self.job.operator),
            seed=secrets.token_hex(SECRET_BYTES),
        )


def sanitised(bundle: Bundle, graphs: Sequence[Graph], operator: Operator) -> tuple[int, ...]:
    """Positions of the plans that run under the sanitizer, the smallest first by inputs and results."""
    sizes = {graph.shape.key: contract_bytes(operator, graph) for graph in graphs}

    def size(index: int) -> int:
        return sizes[bundle.plans[index].shape.key]

    def ranked(role: ShapeRole) -> list[int]:
        return sorted((index for index, plan in enumerate(bundle.plans) if plan.shape.role is role), key=size)

    chosen = (*ranked(ShapeRole.BOUNDARY), *ranked(ShapeRole.BENCHMARK)[:1])
    return tuple(index for index in chosen if size(index) <= SANITISED_BYTES)
